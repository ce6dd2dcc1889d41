package fleet

import (
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// class is of jobs: those of engine.Lowest wait in queues of their own, of which nothing is seen where others are
// placed, ordered, admitted or predicted.
type class int

const (
	live class = iota
	lowest
	classes
)

func classOf(isLowest bool) class {
	if isLowest {
		return lowest
	}
	return live
}

// line is the jobs of a class that wait for an executor.
type line struct {
	busy  []*Lane // those in which they wait
	turns int     // of them, to generate

	// passedOver says that the pass started last began with a job of the policy's choice and left some that
	// generate behind: the next one begins with those. So where both kinds wait, of two passes that start one
	// after the other at least one begins with the policy's choice, and at least one has a job that generates.
	passedOver bool
}

func (e *Executor) lineOf(c class) *line {
	if c == lowest {
		return &e.low
	}
	return &e.line
}

// queue is where jobs of a class wait.
func (l *Lane) queue(c class) *queue.Queue {
	if c == lowest {
		return l.Lowest
	}
	return l.Queue
}

// lowestAhead is how many passes of lowest jobs an executor has, so that it need not wait for the next one.
const lowestAhead = 2

// BeginLowest gives an executor passes of lowest jobs, beside whatever runs there: it steps them when it has no other
// to step. None is begun while others wait for room.
func (f *Fleet) BeginLowest(e *Executor) {
	for len(e.Lowest) < lowestAhead && len(e.low.busy) > 0 && f.leaves(e) {
		j := f.turn(e, lowest)
		if j != nil && e.low.passedOver && f.beginWith(j) {
			continue
		}
		if f.choose(e, lowest) {
			continue
		}
		if j = f.turn(e, lowest); j == nil || !f.beginWith(j) {
			return
		}
	}
}

// leaves says that other jobs leave an executor to lowest ones: none of its passes is in want of room, none of their
// models is to be loaded, and no pass that it has is the last one that some of its jobs may be in.
func (f *Fleet) leaves(e *Executor) bool {
	return !e.Full && !e.noRoom && len(e.Parked) == 0 && !slices.ContainsFunc(e.busy, absent) &&
		!e.keeps() && len(e.awaited(f.Seconds())) == 0
}

func absent(l *Lane) bool { return !l.Ready() }

// courtesy is how long a model is left where it is for jobs that may come after the last one, before it makes room for
// lowest jobs of another model: the longer of this and so many times what it takes to load it.
const (
	courtesy      = time.Minute
	courtesyLoads = 20
)

// asksLowest is asks when none but lowest jobs wait for what is not there. What others have used lately stays.
func (f *Fleet) asksLowest(e *Executor) (lanes []residency.Lane) {
	for _, l := range e.Lanes {
		kept := l.Ready() && len(l.Info.Weights) > 0 && (l.waiting > 0 || l.inUse(f.Now)) || e.ledger.Needs(f.Seconds(), l.Info.Name)
		if kept || l.Lowest.Len() > 0 {
			lanes = append(lanes, residency.Lane{Model: l.Number(), Kept: kept, Work: askedLowest{f, l}})
		}
	}
	return lanes
}

// inUse says that jobs but the lowest have come lately.
func (l *Lane) inUse(now time.Duration) bool {
	load := duration(l.Whole())
	return l.used > 0 && now-l.used < max(courtesy, courtesyLoads*load)
}

// askedLowest is what lowest jobs ask of a lane.
type askedLowest struct {
	fleet *Fleet
	lane  *Lane
}

// Key implements residency.Work.
func (a askedLowest) Key(load, back float64) float64 {
	l, q, key := a.lane, a.lane.Lowest, math.MaxFloat64
	s := l.Executor.scale(l, lowest, a.fleet.Seconds(), load+back)
	if j := a.fleet.head(l, lowest, 0); j != nil {
		key = q.Weigh(&j.Job, s)
	}
	if q.Generating() > 0 {
		key = min(key, q.WeighTurn(s))
	}
	return key
}

// yield drops the passes of lowest jobs that an executor has, so that others find room; it says whether there were any.
func (f *Fleet) yield(e *Executor, which func(*Pass) bool) bool {
	some := false
	for _, p := range slices.Clone(e.Lowest) {
		if which(p) {
			some = true
			f.abort(e, p)
			f.PutBack(p)
		}
	}
	return some
}

func all(*Pass) bool { return true }

// spare gives a lane pages that lowest jobs hold while they wait to generate, or in passes; it says whether there were
// any. What they had computed is computed again.
func (f *Fleet) spare(l *Lane) bool {
	for q := range l.Lowest.All() {
		if j := of(q); j.Lease != nil {
			f.take(j)
			j.Release()
			f.push(j)
			return true
		}
	}
	return f.yield(l.Executor, func(p *Pass) bool { return p.Lane == l })
}

// IsLowest says that the pass is of lowest jobs.
func (p *Pass) IsLowest() bool { return p.class == lowest }
