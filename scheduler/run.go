package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/fleet"
)

// dispatch gives an executor the weights that it is to load, and if it is idle its next pass. A running pass makes
// way for frames that would be late, or for what the policy puts before it.
func (c *Core) dispatch(e *fleet.Executor) {
	f := c.fleet
	c.expire()
	f.Supply(e)
	if e.Running != nil {
		switch frames, nested := f.Urgent(e); {
		case nested:
			f.Nest(e, frames)
		case frames != nil:
			f.Pause(e)
		default:
			f.Preempt(e)
		}
	} else {
		if e.Idle() {
			f.Steal(e)
			f.Supply(e)
		}
		f.Begin(e)
	}
	f.BeginLowest(e)
}

// done takes the answer to a running pass.
func (c *Core) done(e *fleet.Executor, m *wire.Done) {
	if e == nil {
		return
	}
	p := e.Find(m.Pass)
	if p == nil {
		return
	}
	f := c.fleet
	nested := p == e.Nested
	f.End(e, p)
	if m.Err != nil && m.Err.Code == engine.CodeOverloaded && (p.IsLowest() || !nested && len(e.Parked) > 0) {
		f.Refused(e, p)
		c.dispatch(e)
		return
	}
	fault := p.Fault(m)
	ran := f.Ended(p, m.Took, fault == nil)
	faults := make([]*engine.Error, len(p.Items))
	for i, j := range p.Items {
		if faults[i] = fault; fault == nil {
			faults[i] = j.Fault(&m.Items[i])
		}
		if faults[i] == nil { // else there is no telling what is in its pages
			f.Commit(j)
			f.KeepScores(j, m.Items[i].Output)
		}
	}
	for i, j := range p.Items {
		j.Running += ran
		switch {
		case j.Cancelled:
			f.Forget(j)
		case m.Err != nil && len(p.Items) > 1:
			// One item may have spoilt the pass for all: each runs again, alone.
			f.Stats.Retries++
			j.Deaths = max(j.Deaths, 1)
			j.Release()
			f.Enqueue(j, j.Lane)
		case faults[i] != nil:
			c.fail(j, faults[i])
		default:
			c.answer(j, m.Items[i].Output)
		}
	}
	if len(c.settings) > 0 {
		f.Tend(e)
		c.settle()
	}
	c.dispatch(e)
}

// paused parks a pass that stands still. One that prepares does so beside the device; when it comes back its jobs go to
// their lane, where they are run in their turn.
func (c *Core) paused(e *fleet.Executor, m *wire.Paused) {
	if e == nil {
		return
	}
	f, p := c.fleet, e.Find(m.Pass)
	switch {
	case p == nil:
		return
	case slices.Contains(e.Preparing, p):
		if m.Prepares {
			return
		}
		f.Send(e.Peer.ID, &wire.Abort{Pass: p.ID})
		f.End(e, p)
		f.PutBack(p)
	case m.Prepares:
		e.Prepare(f.Now, p)
	case p == e.Running && p.Pausing():
		e.Paused(f.Now, m.Share)
		f.Stats.Preemptions++
	default:
		return
	}
	c.dispatch(e)
}

// answer sends what a pass has found for a job, and puts it back in its lane if it generates more.
func (c *Core) answer(j *fleet.Job, found engine.Output) {
	j.Deaths = 0
	r := &wire.Result{Job: j.Submit.ID, Output: found, Finish: engine.FinishLength, Timing: j.Timing()}
	if out, ok := found.(*engine.TokenOutput); ok {
		r.Output, r.Finish = j.Token(out)
	}
	c.fleet.Send(j.Frontend.Peer.ID, r)
	if r.Finish != engine.FinishNone {
		c.fleet.Served(j, !j.Late(c.fleet.Now))
		c.forget(j)
		return
	}
	j.Filled = true
	c.fleet.Enqueue(j, j.Lane)
}

// fail answers a job with an error and forgets it.
func (c *Core) fail(j *fleet.Job, err *engine.Error) {
	c.fleet.Send(j.Frontend.Peer.ID, &wire.Result{Job: j.Submit.ID, Err: err, Timing: j.Timing()})
	c.fleet.Served(j, false)
	c.forget(j)
}

// forget drops a job from wherever it is, a pass excepted: its caller ends its part in that.
func (c *Core) forget(j *fleet.Job) {
	c.fleet.Forget(j)
	delete(c.jobs, j.Submit.ID)
	delete(j.Frontend.Jobs, j.Submit.ID)
}

// cancelFrom withdraws a job at the wish of the frontend that submitted it.
func (c *Core) cancelFrom(from PeerID, id engine.JobID) {
	if j := c.jobs[id]; j != nil && j.Frontend.Peer.ID == from {
		c.withdraw(j)
	}
}

// withdraw drops a job that nobody waits for any more. In a pass whose other jobs go on it stays
// until that ends.
func (c *Core) withdraw(j *fleet.Job) {
	if j.State != fleet.InPass {
		c.forget(j)
		return
	}
	j.Cancelled = true
	delete(c.jobs, j.Submit.ID)
	delete(j.Frontend.Jobs, j.Submit.ID)
	e := j.Lane.Executor
	for _, p := range e.Passes() {
		if slices.Contains(p.Items, j) && !slices.ContainsFunc(p.Items, func(o *fleet.Job) bool { return !o.Cancelled }) {
			c.abort(e, p)
			return
		}
	}
}

// abort drops a pass whose jobs are all withdrawn. The executor handles the Abort before any later
// Run, so the pages can be given away at once.
func (c *Core) abort(e *fleet.Executor, p *fleet.Pass) {
	c.fleet.Send(e.Peer.ID, &wire.Abort{Pass: p.ID})
	c.fleet.End(e, p)
	for _, j := range p.Items {
		c.fleet.Forget(j)
	}
	c.dispatch(e)
}
