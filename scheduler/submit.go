package scheduler

import (
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// handleSubmit takes a job in, or refuses it with a Result. A job that is known already is not taken twice, unless it is held:
// then a message was lost that its client or this scheduler waits for, and it goes on from what the client has.
func (c *Core) handleSubmit(from PeerID, m *wire.Submit) {
	p := c.peers[from]
	if p == nil || p.frontend == nil {
		// A frontend that has not said Hello to this scheduler: the Welcome makes it.
		c.fleet.Send(from, &wire.Welcome{Epoch: c.epoch})
		return
	}
	if other := c.jobs[m.ID]; other != nil {
		if other.Frontend != p.frontend {
			c.refuseJob(from, m.ID, engine.Errorf(engine.CodeInternal, "job %v belongs to frontend %q", m.ID, other.Frontend.Name))
			return
		}
		if other.State != executors.Held {
			return
		}
		c.forgetJob(other)
	}
	err := checkSubmit(m)
	if err == nil {
		err = c.admitJob(m)
	}
	if err != nil {
		c.refuseJob(from, m.ID, err)
		return
	}
	j := c.fleet.NewJob(m, p.frontend)
	c.jobs[m.ID] = j
	p.frontend.Jobs[m.ID] = j
	if inst := c.placeJob(j); inst != nil {
		c.dispatchWork(inst.Executor)
	}
}

func (c *Core) refuseJob(to PeerID, id engine.JobID, err *engine.Error) {
	c.fleet.Send(to, &wire.Result{Job: id, Err: err})
}

// checkSubmit refuses what no executor could make sense of.
func checkSubmit(m *wire.Submit) *engine.Error {
	if m.Promised && (m.Stream == "" || m.Deadline <= 0) {
		return engine.Errorf(engine.CodeBadTokens, "a promise is for frames of a stream that have a deadline; the stream is %q, the deadline %v", m.Stream, m.Deadline)
	}
	switch w := m.Work.(type) {
	case *engine.Tokens:
		return checkPrompt(w)
	case *engine.Tensors:
		if !(w.Frames >= 0) || math.IsInf(w.Frames, 1) {
			return engine.Errorf(engine.CodeBadTokens, "the work is %v frames, want 0 or more", w.Frames)
		}
		return nil
	}
	return engine.Errorf(engine.CodeInternal, "job %v has no work", m.ID)
}

func checkPrompt(t *engine.Tokens) *engine.Error {
	a := &t.Ask
	switch {
	case len(t.IDs) == 0:
		return engine.Errorf(engine.CodeBadTokens, "the prompt has no tokens")
	case t.Generated < 0 || t.Generated >= len(t.IDs):
		return engine.Errorf(engine.CodeBadTokens, "%d of %d tokens are said to be generated: no prompt is left", t.Generated, len(t.IDs))
	case t.Max < 0:
		return engine.Errorf(engine.CodeBadTokens, "max_tokens is %d, want 0 or more", t.Max)
	case a.Pool > engine.PoolAll, a.Head && a.Pool == engine.PoolNone:
		return engine.Errorf(engine.CodeBadTokens, "pooling %d with head %t is unknown", a.Pool, a.Head)
	case a.Pool != engine.PoolNone && (t.Max > 0 || a.PromptLogprobs):
		return engine.Errorf(engine.CodeBadTokens, "a vector is asked for, and tokens or prompt logprobs too: these are two jobs")
	case t.Max == 0 && !a.PromptLogprobs && a.Pool == engine.PoolNone:
		return engine.Errorf(engine.CodeBadTokens, "max_tokens is 0 and neither prompt logprobs nor a vector are asked for: nothing to answer")
	case a.Top < 0 || a.Top > engine.MaxTop:
		return engine.Errorf(engine.CodeBadTokens, "%d top logprobs are asked for, at most %d are given", a.Top, engine.MaxTop)
	case a.PromptTop < 0 || a.PromptTop > engine.MaxTop:
		return engine.Errorf(engine.CodeBadTokens, "%d top prompt logprobs are asked for, at most %d are given", a.PromptTop, engine.MaxTop)
	case a.PromptFrom < 0 || a.PromptFrom > 0 && (!a.PromptLogprobs || a.PromptFrom >= len(t.IDs)):
		return engine.Errorf(engine.CodeBadTokens, "prompt logprobs from position %d on are asked for, of %d tokens, with prompt logprobs %t", a.PromptFrom, len(t.IDs), a.PromptLogprobs)
	case !(a.Temperature >= 0) || math.IsInf(float64(a.Temperature), 1):
		return engine.Errorf(engine.CodeBadTokens, "temperature is %v, want 0 or more", a.Temperature)
	case !(a.TopP >= 0 && a.TopP <= 1):
		return engine.Errorf(engine.CodeBadTokens, "top_p is %v, want above 0 and at most 1", a.TopP)
	}
	return nil
}

// promptTokens is the length of a job's prompt; 0 of one that has none.
func promptTokens(m *wire.Submit) int {
	if t, ok := m.Work.(*engine.Tokens); ok {
		return len(t.IDs)
	}
	return 0
}

// admitJob holds a new job against the admission bounds, to lowest jobs and to others for themselves. A job that an earlier
// scheduler had taken in is always taken; a lowest one however long it may wait.
func (c *Core) admitJob(m *wire.Submit) *engine.Error {
	if m.Waited > 0 {
		return nil
	}
	f, n := c.fleet, promptTokens(m)
	queued := f.Queued(m.IsLowest())
	if n > c.cfg.MaxQueuedTokens {
		f.Stats.RefusedTokens++
		return engine.Errorf(engine.CodeTooLong, "the prompt has %d tokens, and all prompts that wait may have %d together; shorten it", n, c.cfg.MaxQueuedTokens)
	}
	jobs, tokens := queued.Jobs >= c.cfg.MaxQueuedJobs, queued.Tokens+n > c.cfg.MaxQueuedTokens
	var wait time.Duration
	if c.cfg.MaxQueueTime > 0 || jobs || tokens {
		wait = f.PredictedWait(m.Model)
	}
	overloaded := func(format string, args ...any) *engine.Error {
		err := engine.Errorf(engine.CodeOverloaded, format, args...)
		err.RetryAfter = min(max(wait/2, time.Second), time.Minute)
		return err
	}
	switch {
	case jobs:
		f.Stats.RefusedJobs++
		return overloaded("%d requests wait, the limit is %d", queued.Jobs, c.cfg.MaxQueuedJobs)
	case tokens:
		f.Stats.RefusedTokens++
		return overloaded("%d tokens wait and the prompt has %d, the limit is %d", queued.Tokens, n, c.cfg.MaxQueuedTokens)
	case c.cfg.MaxQueueTime > 0 && wait > c.cfg.MaxQueueTime && !m.Promised && !m.IsLowest():
		f.Stats.RefusedTime++
		err := overloaded("the predicted wait is %.1f s, the limit is %.1f s", wait.Seconds(), c.cfg.MaxQueueTime.Seconds())
		err.RetryAfter = max(wait-c.cfg.MaxQueueTime, time.Second)
		return err
	}
	return nil
}

// place finds an instance for a job and returns it, for the caller to dispatch its executor; nil if there is none now, or
// the job is refused. Of promised frames only a stream's newest waits.
func (c *Core) placeJob(j *executors.Job) *executors.Instance {
	inst, err := c.fleet.PlaceJob(j)
	if err != nil {
		c.failJob(j, err)
		return inst
	}
	if older := c.fleet.OlderFrame(j); older != nil {
		older.Instance.Group.Stats.Superseded++
		c.failJob(older, engine.Errorf(engine.CodeDeadline, "superseded: a newer frame of stream %q has come", j.Submit.Stream))
	}
	return inst
}

// placeAll places jobs, and dispatches their executors when all are in their instances, so that the
// policy chooses among all of them.
func (c *Core) placeJobs(jobs []*executors.Job) {
	var busy []*executors.Executor
	seen := map[*executors.Executor]bool{}
	for _, j := range jobs {
		if inst := c.placeJob(j); inst != nil && !seen[inst.Executor] {
			seen[inst.Executor] = true
			busy = append(busy, inst.Executor)
		}
	}
	for _, e := range busy {
		c.dispatchWork(e)
	}
}
