package dispatch

import (
	"math"

	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// asks lists what is asked of the models on an executor: those for which jobs wait, those that are there and expect
// some, and those that are to be kept and are not there.
func (e *Executor) asks() (lanes []residency.Lane) {
	now := e.shared.Seconds()
	if len(e.lines[Live].busy) == 0 && len(e.lines[Lowest].busy) > 0 && len(e.awaited(now)) == 0 && !e.keeps() {
		return e.asksLowest()
	}
	mixed := e.feeds > 0
	seconds := mixed || queue.InSeconds(e.shared.Policy)
	for _, l := range e.lines[Live].busy {
		lanes = append(lanes, residency.Lane{Model: l.Number(), Work: asked{l, mixed}, Kept: l.Promised(e.shared.Now)})
	}
	for _, m := range e.Device.Loaded() {
		l := laneOf(m)
		switch {
		case l.waiting > 0:
		case l.Promised(e.shared.Now):
			lanes = append(lanes, residency.Lane{Model: l.Number(), Kept: true})
		case seconds: // else what was used longest ago goes first
			service := l.Cost.Seconds(l.Group.typical())
			lanes = append(lanes, residency.Lane{Model: l.Number(), Idle: true, Work: residency.Requests{Service: service, Next: l.NextJob(e.shared.Now)}})
		}
	}
	for _, m := range e.Device.Keepers() {
		if l := laneOf(m); !l.Ready() && l.waiting == 0 {
			lanes = append(lanes, residency.Lane{Model: l.Number(), Kept: true})
		}
	}
	for _, l := range e.awaited(now) {
		if l.waiting == 0 && !l.Kept() {
			lanes = append(lanes, residency.Lane{Model: l.Number(), Kept: true})
		}
	}
	return lanes
}

// awaited lists the lanes that streams with promised deadlines need and that are not there.
func (e *Executor) awaited(now float64) (lanes []*Lane) {
	for _, name := range e.Ledger.Models(now) {
		if l := e.Lane(name); l != nil && !l.Ready() && !l.Useless() {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// asked is what is asked of a lane in which jobs wait.
type asked struct {
	lane  *Lane
	mixed bool // frames wait beside requests: all are compared in seconds, whatever the policy
}

// Key implements residency.Work.
func (a asked) Key(load, back float64) float64 {
	l := a.lane
	key := math.Inf(1)
	s := l.Executor.scale(l, Live, load+back)
	j, turn := l.head(Live, 0), of(l.Queue.Turn())
	switch {
	case a.mixed:
		for _, j := range []*Job{j, turn} {
			if j != nil {
				key = min(key, l.urgency(j)+s.Load)
			}
		}
	case j != nil:
		key = l.Queue.Weigh(&j.Job, s)
	}
	if turn != nil && !a.mixed {
		key = min(key, l.Queue.WeighTurn(s))
	}
	if w, ok := l.frames.Work(l.shared.Now); ok {
		key = min(key, w.Key(load, back))
	}
	return key
}
