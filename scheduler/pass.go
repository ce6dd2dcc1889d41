package scheduler

import (
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// pass is a Run that has not been answered yet.
type pass struct {
	id       wire.PassID
	items    []*job
	work     cost.Work     // of the whole pass
	ran      time.Duration // before it last started
	started  time.Duration // when it last started
	whole    float64       // seconds that it takes in all, by the layers done when it was paused last; 0: not told
	pausing  bool          // a Pause is on its way
	parkedAt time.Duration // when it was last paused
	held     time.Duration // paused in all, before it last started
}

// spent is how long a pass has run so far, in seconds.
func (e *executor) spent(p *pass, now time.Duration) float64 {
	ran := p.ran
	if p == e.running {
		ran += now - p.started
	}
	return ran.Seconds()
}

// whole predicts the seconds that a pass takes in all.
func (e *executor) whole(p *pass) float64 {
	if p.whole > 0 {
		return p.whole
	}
	return e.cost.Seconds(p.work)
}

// left predicts the seconds that are left of a pass, running or not. One that has overrun its
// prediction is taken to need as long again as it has overrun: of that the prediction has shown that it
// knows nothing, and where all lengths are as likely by order of magnitude (a Pareto law of index 1),
// half of all end sooner.
func (e *executor) left(p *pass, now time.Duration) float64 {
	return math.Abs(e.whole(p) - e.spent(p, now))
}

// allPasses lists the running pass and the paused ones.
func (e *executor) allPasses() []*pass {
	if e.running == nil {
		return e.parked
	}
	return append([]*pass{e.running}, e.parked...)
}

// load predicts the seconds of work that an executor has to do.
func (e *executor) load(now time.Duration) float64 {
	sum := e.cost.Seconds(e.queue.predicted)
	if e.running != nil {
		sum += e.left(e.running, now)
	}
	for _, p := range e.parked {
		sum += e.left(p, now)
	}
	return sum
}

// done takes the answer to a running pass.
func (c *Core) done(from PeerID, m *wire.Done) {
	e := c.executorAt(from)
	if e == nil || e.running == nil || e.running.id != m.Pass {
		return
	}
	p := e.running
	e.running = nil
	if e.full = m.Err != nil && m.Err.Code == engine.CodeOverloaded && len(e.parked) > 0; e.full {
		c.putBack(e, p)
		c.dispatch(e)
		return
	}
	ran := p.ran + c.now - p.started
	c.countPass(p)
	fault := p.fault(e, m)
	if fault == nil {
		took := m.Took
		if took <= 0 {
			took = ran
		}
		e.cost.Observe(p.work, took)
	}
	faults := make([]*engine.Error, len(p.items))
	for i, j := range p.items {
		if faults[i] = fault; fault == nil {
			faults[i] = j.fault(e, &m.Items[i])
		}
		if faults[i] == nil { // else there is no telling what is in its pages
			c.commit(e, j)
		}
	}
	for i, j := range p.items {
		j.running += ran
		switch {
		case j.cancelled:
			c.forget(j)
		case m.Err != nil && len(p.items) > 1:
			// One item may have spoilt the pass for all: each runs again, alone.
			c.stats.Retries++
			j.deaths = max(j.deaths, 1)
			c.requeue(e, j)
		case faults[i] != nil:
			c.fail(j, faults[i])
		default:
			c.answer(j, &m.Items[i])
		}
	}
	c.dispatch(e)
}

// countPass counts a pass that has ended.
func (c *Core) countPass(p *pass) {
	tokens := p.work.Tokens
	at, _ := slices.BinarySearch(wire.PassTokenBounds[:], tokens)
	c.passTokens[at]++
	c.stats.Passes++
	c.stats.ComputedTokens += uint64(tokens)
}

// fault is what is wrong with the answer to a pass as a whole; nil if nothing is.
func (p *pass) fault(e *executor, m *wire.Done) *engine.Error {
	if m.Err != nil {
		return m.Err
	}
	if slices.EqualFunc(p.items, m.Items, func(j *job, item wire.ItemResult) bool { return j.submit.Job == item.Job }) {
		return nil
	}
	return engine.Errorf(engine.CodeInternal, "executor %s answered pass %d for other jobs than it was given", e.peer.name.name, p.id)
}

// fault is what is wrong with the answer to one job; nil if nothing is.
func (j *job) fault(e *executor, item *wire.ItemResult) *engine.Error {
	switch scores := len(item.Prompt); {
	case item.Err != nil:
		return item.Err
	case j.submit.MaxTokens > 0 && item.Answer == nil:
		return engine.Errorf(engine.CodeInternal, "executor %s gave no answer", e.peer.name.name)
	case j.scoresPrompt() && scores != len(j.submit.Tokens)-1:
		return engine.Errorf(engine.CodeInternal, "executor %s gave logprobs of %d positions of a prompt of %d tokens", e.peer.name.name, scores, len(j.submit.Tokens))
	}
	return nil
}

// commit makes the blocks that a job's pass has filled matchable.
func (c *Core) commit(e *executor, j *job) {
	stored := e.index.Commit(j.lease)
	e.queue.stored(stored.Hashes)
	c.noteStored(e, j, stored)
}

// requeue releases a job's pages and puts it back in its executor's queue.
func (c *Core) requeue(e *executor, j *job) {
	e.index.Release(j.lease)
	j.lease = nil
	c.enqueue(j, e)
}

// answer sends what a pass has found for a job, and puts it back in the queue if it generates more.
func (c *Core) answer(j *job, item *wire.ItemResult) {
	j.deaths = 0
	r := &wire.Result{Job: j.submit.Job, Cached: j.hits, Timing: j.timing()}
	if j.generated() == 0 {
		r.Prompt = item.Prompt
	}
	if j.submit.MaxTokens == 0 {
		r.Finish = engine.FinishLength
	} else {
		r.Index = j.generated()
		r.Answer = item.Answer
		j.seq = append(j.seq, item.Answer.Token)
		switch {
		case slices.Contains(j.submit.StopTokens, item.Answer.Token):
			r.Finish = engine.FinishStop
		case j.generated() >= j.submit.MaxTokens:
			r.Finish = engine.FinishLength
		}
	}
	c.send(j.frontend.peer.id, r)
	if r.Finish != engine.FinishNone {
		c.forget(j)
		return
	}
	j.computed = true
	c.enqueue(j, j.executor)
}

// fail answers a job with an error and forgets it.
func (c *Core) fail(j *job, err *engine.Error) {
	c.send(j.frontend.peer.id, &wire.Result{Job: j.submit.Job, Err: err, Timing: j.timing()})
	c.forget(j)
}

// forget drops a job from wherever it is, a pass excepted: its caller ends its part in that.
func (c *Core) forget(j *job) {
	c.forgetDeadline(j)
	if !j.started {
		c.queuedJobs--
		c.queuedTokens -= len(j.submit.Tokens)
	}
	switch {
	case j.executor == nil:
		j.pool.orphans = slices.DeleteFunc(j.pool.orphans, func(o *job) bool { return o == j })
	case j.state == stateWaiting:
		j.executor.take(j)
	}
	if j.lease != nil {
		j.executor.index.Release(j.lease)
		j.lease = nil
	}
	delete(c.jobs, j.submit.Job)
	delete(j.frontend.jobs, j.submit.Job)
}

// cancelFrom withdraws a job at the wish of the frontend that submitted it.
func (c *Core) cancelFrom(from PeerID, id engine.JobID) {
	if j := c.jobs[id]; j != nil && j.frontend.peer.id == from {
		c.withdraw(j)
	}
}

// withdraw drops a job that nobody waits for any more. In a pass whose other jobs go on it stays
// until that ends.
func (c *Core) withdraw(j *job) {
	if j.state != stateInPass {
		c.forget(j)
		return
	}
	j.cancelled = true
	delete(c.jobs, j.submit.Job)
	delete(j.frontend.jobs, j.submit.Job)
	e := j.executor
	for _, p := range e.allPasses() {
		if slices.Contains(p.items, j) && !slices.ContainsFunc(p.items, func(o *job) bool { return !o.cancelled }) {
			c.abort(e, p)
			return
		}
	}
}

// abort drops a pass whose jobs are all withdrawn. The executor handles the Abort before any later
// Run, so the pages can be given away at once.
func (c *Core) abort(e *executor, p *pass) {
	c.send(e.peer.id, &wire.Abort{Pass: p.id})
	if e.running == p {
		e.running = nil
	}
	e.parked = slices.DeleteFunc(e.parked, func(o *pass) bool { return o == p })
	e.full = false
	for _, j := range p.items {
		c.forget(j)
	}
	c.dispatch(e)
}

// executorAt is the executor with an address; nil if there is none.
func (c *Core) executorAt(id PeerID) *executor {
	if p := c.peers[id]; p != nil {
		return p.executor
	}
	return nil
}

// expireOrphans fails the jobs of a model that no executor has served for too long.
func (c *Core) expireOrphans(p *pool) {
	if len(p.executors) > 0 {
		return
	}
	for _, j := range slices.Clone(p.orphans) {
		if c.now-j.orphaned >= c.cfg.UnavailableAfter {
			c.fail(j, engine.Errorf(engine.CodeUnavailable, "no executor has served model %q for %v", p.model, c.now-j.orphaned))
		}
	}
}
