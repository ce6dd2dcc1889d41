package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// dispatchWork gives an executor the weights that it is to load, and if it is idle its next pass. A running pass makes
// way for frames that would be late, or for what the policy puts before it.
func (c *Core) dispatchWork(e *executors.Executor) {
	f := c.fleet
	c.expireJobs()
	e.LoadWeights()
	if e.Running != nil {
		switch frames, nested := e.UrgentFrames(); {
		case nested:
			e.NestFrames(frames)
		case frames != nil:
			e.PausePass()
		default:
			e.Preempt()
		}
	} else {
		if e.Idle() {
			f.StealJobs(e)
			e.LoadWeights()
		}
		e.BeginPass()
	}
	e.BeginLowest()
}

// handleDone takes the answer to a running pass.
func (c *Core) handleDone(e *executors.Executor, m *wire.Done) {
	if e == nil {
		return
	}
	p := e.FindPass(m.Pass)
	if p == nil {
		return
	}
	f := c.fleet
	nested := p == e.Nested
	e.EndPass(p)
	if m.Err != nil && m.Err.Code == engine.CodeOverloaded && (p.IsLowest() || !nested && len(e.Parked) > 0) {
		e.PassRefused(p)
		c.dispatchWork(e)
		return
	}
	fault := passFault(p, m)
	ran := p.EndedAfter(m.Took, fault == nil)
	faults := make([]*engine.Error, len(p.Items))
	for i, j := range p.Items {
		if faults[i] = fault; fault == nil {
			faults[i] = jobFault(j, &m.Items[i])
		}
		if faults[i] == nil { // else there is no telling what is in its pages
			j.KeepOutput(m.Items[i].Output)
		}
	}
	for i, j := range p.Items {
		j.Running += ran
		switch {
		case j.Cancelled:
			f.ForgetJob(j)
		case m.Err != nil && len(p.Items) > 1:
			// One item may have spoilt the pass for all: each runs again, alone.
			f.Stats.Retries++
			j.Deaths = max(j.Deaths, 1)
			j.ReleasePages()
			f.Enqueue(j, j.Instance)
		case faults[i] != nil:
			c.failJob(j, faults[i])
		default:
			c.answerJob(j, m.Items[i].Output)
		}
	}
	for _, j := range p.Items {
		c.continueJob(j)
	}
	if len(c.settings) > 0 {
		e.TendModels()
		c.answerSettings()
	}
	c.dispatchWork(e)
}

// handlePaused parks a pass that stands still. One that prepares does so beside the device; when it comes back its jobs go to
// their instance, where they are run in their turn.
func (c *Core) handlePaused(e *executors.Executor, m *wire.Paused) {
	if e == nil {
		return
	}
	f, p := c.fleet, e.FindPass(m.Pass)
	switch {
	case p == nil:
		return
	case slices.Contains(e.Preparing, p):
		if m.Prepares {
			return
		}
		e.AbortPass(p)
		p.RequeueItems()
	case m.Prepares:
		e.PreparePass(p)
	case p == e.Running && p.Pausing():
		e.PassPaused(m.Share)
		f.Stats.Preemptions++
	default:
		return
	}
	c.dispatchWork(e)
}

// answerJob sends what a pass has found for a job, and puts it back in its instance if it generates more, or keeps it if it may.
func (c *Core) answerJob(j *executors.Job, found engine.Output) {
	j.Deaths = 0
	r := &wire.Result{Job: j.Submit.ID, Output: found, Finish: engine.FinishLength, Timing: jobTiming(j)}
	if out, ok := found.(*engine.TokenOutput); ok {
		r.Output, r.Finish = applyTokenOutput(j, out)
	}
	c.fleet.Send(j.Frontend.ID, r)
	if r.Finish != engine.FinishNone {
		j.CountServed(!j.Late(c.fleet.Now))
		c.forgetJob(j)
		return
	}
	if isComplete(j) {
		j.HoldOpen()
		return
	}
	j.Filled = true
	c.fleet.Enqueue(j, j.Instance)
}

// jobTiming is where a job's time went.
func jobTiming(j *executors.Job) engine.Timing {
	if !j.Started {
		return engine.Timing{}
	}
	t := engine.Timing{Queued: j.StartedAt - j.Arrival, Loading: j.Loading, Running: j.Running}
	if j.Instance != nil {
		t.Executor = j.Instance.Executor.Name
	}
	return t
}

// failJob answers a job with an error and forgets it.
func (c *Core) failJob(j *executors.Job, err *engine.Error) {
	c.fleet.Send(j.Frontend.ID, &wire.Result{Job: j.Submit.ID, Err: err, Timing: jobTiming(j)})
	j.CountServed(false)
	c.forgetJob(j)
}

// forgetJob drops a job from wherever it is, a pass excepted: its caller ends its part in that.
func (c *Core) forgetJob(j *executors.Job) {
	c.fleet.ForgetJob(j)
	delete(c.jobs, j.Submit.ID)
	delete(j.Frontend.Jobs, j.Submit.ID)
}

// cancelFrom withdraws a job at the wish of the frontend that submitted it.
func (c *Core) cancelFrom(from PeerID, id engine.JobID) {
	if j := c.jobs[id]; j != nil && j.Frontend.ID == from {
		c.withdrawJob(j)
	}
}

// withdrawJob drops a job that nobody waits for any more. In a pass whose other jobs go on it stays
// until that ends.
func (c *Core) withdrawJob(j *executors.Job) {
	if j.State != executors.InPass {
		c.forgetJob(j)
		return
	}
	j.Cancelled = true
	delete(c.jobs, j.Submit.ID)
	delete(j.Frontend.Jobs, j.Submit.ID)
	e := j.Instance.Executor
	for _, p := range e.Passes() {
		if slices.Contains(p.Items, j) && !slices.ContainsFunc(p.Items, func(o *executors.Job) bool { return !o.Cancelled }) {
			c.abortPass(e, p)
			return
		}
	}
}

// abortPass drops a pass whose jobs are all withdrawn.
func (c *Core) abortPass(e *executors.Executor, p *executors.Pass) {
	e.AbortPass(p)
	for _, j := range p.Items {
		c.fleet.ForgetJob(j)
	}
	c.dispatchWork(e)
}
