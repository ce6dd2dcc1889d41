package dispatch

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// lowestAhead is how many passes of lowest jobs an executor has, so that it need not wait for the next one.
const lowestAhead = 2

// BeginLowest gives an executor passes of lowest jobs, beside whatever runs there: it steps them when it has no other
// to step. None is begun while others wait for room.
func (e *Executor) BeginLowest() {
	for len(e.Lowest) < lowestAhead && len(e.lines[Lowest].busy) > 0 && e.leaves() {
		j := e.turn(Lowest)
		if j != nil && e.lines[Lowest].passedOver && e.beginWith(j) {
			continue
		}
		if e.choose(Lowest) {
			continue
		}
		if j = e.turn(Lowest); j == nil || !e.beginWith(j) {
			return
		}
	}
}

// leaves says that other jobs leave an executor to lowest ones: none of its passes is in want of room, none of their
// models is to be loaded, and no pass that it has is the last one that some of its jobs may be in.
func (e *Executor) leaves() bool {
	return !e.Full && !e.noRoom && len(e.Parked) == 0 && !slices.ContainsFunc(e.lines[Live].busy, absent) &&
		!e.keeps() && len(e.awaited(e.shared.Seconds())) == 0
}

func absent(l *Lane) bool { return !l.Ready() }

// asksLowest is asks when none but lowest jobs wait for what is not there. What others have used lately stays.
func (e *Executor) asksLowest() (lanes []residency.Lane) {
	for _, l := range e.Lanes {
		kept := l.Ready() && len(l.Info.Weights) > 0 && (l.waiting > 0 || l.InUse(e.shared.Now)) || l.Promised(e.shared.Now)
		if kept || l.Lowest.Len() > 0 {
			lanes = append(lanes, residency.Lane{Model: l.Number(), Kept: kept, Work: askedLowest{l}})
		}
	}
	return lanes
}

// askedLowest is what lowest jobs ask of a lane.
type askedLowest struct {
	lane *Lane
}

// Key implements residency.Work.
func (a askedLowest) Key(load, back float64) float64 {
	l, q, key := a.lane, a.lane.Lowest, math.MaxFloat64
	s := l.Executor.scale(l, Lowest, load+back)
	if j := l.head(Lowest, 0); j != nil {
		key = q.Weigh(&j.Job, s)
	}
	if q.Generating() > 0 {
		key = min(key, q.WeighTurn(s))
	}
	return key
}

// yield drops the passes of lowest jobs that an executor has, so that others find room; it says whether there were any.
func (e *Executor) yield(which func(*Pass) bool) bool {
	some := false
	for _, p := range slices.Clone(e.Lowest) {
		if which(p) {
			some = true
			e.Abort(p)
			p.PutBack()
		}
	}
	return some
}

func all(*Pass) bool { return true }

// spare gives a lane pages that lowest jobs hold while they wait to generate, or in passes; it says whether there were
// any. What they had computed is computed again.
func (l *Lane) spare() bool {
	for q := range l.Lowest.All() {
		if j := of(q); j.Lease != nil {
			l.Take(j)
			j.Release()
			l.push(j)
			return true
		}
	}
	return l.Executor.yield(func(p *Pass) bool { return p.Lane == l })
}

// IsLowest says that the pass is of lowest jobs.
func (p *Pass) IsLowest() bool { return p.class == Lowest }
