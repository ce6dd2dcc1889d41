package dispatch

import (
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// Pass is a Run that has not been answered yet.
type Pass struct {
	ID       wire.PassID
	Lane     *Lane
	Items    []*Job
	class    Class
	Work     cost.Work     // of the whole pass
	Ran      time.Duration // before it last started
	Started  time.Duration // when it last started
	whole    float64       // seconds that it takes in all, by the share done when it was paused last; 0: not told
	pausing  bool          // a Pause is on its way
	parkedAt time.Duration // when it was last paused
	held     time.Duration // paused in all before it last started, or since then for passes nested in it
}

// newPass makes a pass that begins with a job.
func newPass(first *Job) *Pass {
	return &Pass{Lane: first.Lane, Items: []*Job{first}, class: first.Class}
}

// Spent is how long a pass has run so far, in seconds.
func (e *Executor) Spent(p *Pass) float64 {
	ran := p.Ran
	switch {
	case p == e.Running && e.Nested != nil:
		ran += e.Nested.Started - p.Started
	case p == e.Running || p == e.Nested || p.class == Lowest:
		ran += e.shared.Now - p.Started
	}
	return ran.Seconds()
}

// predicted is the seconds that a pass takes in all.
func (p *Pass) predicted() float64 {
	if p.whole > 0 {
		return p.whole
	}
	return p.Lane.Cost.Seconds(p.Work)
}

// left predicts the seconds that are left of a pass, running or not. One that has overrun its
// prediction is taken to need as long again as it has overrun: of that the prediction has shown that it
// knows nothing, and where all lengths are as likely by order of magnitude (a Pareto law of index 1),
// half of all end sooner.
func (e *Executor) left(p *Pass) float64 {
	return math.Abs(p.predicted() - e.Spent(p))
}

// Paused notes that the running pass stands still, with such a share of it done; 0 if that is not told.
func (e *Executor) Paused(share float64) {
	p, now := e.Running, e.shared.Now
	p.Ran += now - p.Started
	if share > 0 {
		p.whole = p.Ran.Seconds() / share
	}
	p.parkedAt, p.pausing = now, false
	e.Running, e.Nested = e.Nested, nil
	e.Parked = append(e.Parked, p)
}

// Pausing says that a Pause of the pass is on its way.
func (p *Pass) Pausing() bool { return p.pausing }

// Prepare notes that the executor has found that a running or nested pass cannot begin yet: it is free for others.
func (e *Executor) Prepare(p *Pass) {
	e.leave(p)
	p.pausing = false
	e.Preparing = append(e.Preparing, p)
}

// End takes a running, nested, paused or preparing pass off the executor and gives back what it held of memory. A pass
// that was nested in it, and has come too late for that, is the running one.
func (e *Executor) End(p *Pass) {
	e.leave(p)
	e.Full, e.noRoom = false, false
	e.endArea(p.Lane)
}

// leave takes a pass from where it is.
func (e *Executor) leave(p *Pass) {
	switch p {
	case e.Running:
		e.Running, e.Nested = e.Nested, nil
	case e.Nested:
		e.Nested = nil
		if outer := e.Running; outer != nil {
			took := e.shared.Now - p.Started
			outer.Started += took
			outer.held += took
		}
	default:
		isIt := func(o *Pass) bool { return o == p }
		e.Parked, e.Preparing, e.Lowest = slices.DeleteFunc(e.Parked, isIt), slices.DeleteFunc(e.Preparing, isIt), slices.DeleteFunc(e.Lowest, isIt)
	}
}

// Find is the pass of an id that runs, by itself, in another or beside it, or prepares; nil if there is none.
func (e *Executor) Find(id wire.PassID) *Pass {
	for _, p := range slices.Concat([]*Pass{e.Running, e.Nested}, e.Preparing, e.Lowest) {
		if p != nil && p.ID == id {
			return p
		}
	}
	return nil
}

// Passes lists the running pass, the one nested in it, the paused, the preparing and the lowest ones.
func (e *Executor) Passes() []*Pass {
	all := slices.Concat([]*Pass{e.Running, e.Nested}, e.Parked, e.Preparing, e.Lowest)
	return slices.DeleteFunc(all, func(p *Pass) bool { return p == nil })
}

// under lists the passes that run for jobs of a class.
func (e *Executor) under(c Class) []*Pass {
	switch {
	case c == Lowest:
		return e.Lowest
	case e.Running != nil:
		return []*Pass{e.Running}
	}
	return nil
}

// Runs says that a pass runs for jobs of a class.
func (e *Executor) Runs(c Class) bool { return len(e.under(c)) > 0 }

// Abort has an executor drop a pass. It handles the Abort before any later Run, so that the pages can be given away at
// once.
func (e *Executor) Abort(p *Pass) {
	e.shared.Send(e.ID, &wire.Abort{Pass: p.ID})
	e.End(p)
}

// PutBack returns the jobs of a pass that is not on its executor any more to their lane. Jobs that generate keep their
// pages, in which is what they have computed.
func (p *Pass) PutBack() {
	for _, j := range p.Items {
		if j.Cancelled {
			p.Lane.shared.Drop(j)
			continue
		}
		if !j.Continues() {
			j.Release()
		}
		p.Lane.Enqueue(j)
	}
}

// Refused says that a pass found no room beside others, and puts its jobs back. Until a pass has ended, and left its
// room, none of its class begins there.
func (e *Executor) Refused(p *Pass) {
	if p.class == Lowest {
		e.noRoom = true
	} else {
		e.Full = true
	}
	p.PutBack()
}
