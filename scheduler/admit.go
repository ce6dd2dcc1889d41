package scheduler

import (
	"container/heap"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// submit takes a job in, or refuses it with a Result. A job that is known already is not taken
// twice.
func (c *Core) submit(from PeerID, m *wire.Submit) {
	p := c.peers[from]
	if p == nil || p.frontend == nil {
		// A frontend that has not said Hello to this scheduler: the Welcome makes it.
		c.send(from, &wire.Welcome{Epoch: c.epoch})
		return
	}
	if other := c.jobs[m.Job]; other != nil {
		if other.frontend != p.frontend {
			c.refuse(from, m.Job, engine.Errorf(engine.CodeInternal, "job %v belongs to frontend %q", m.Job, other.frontend.peer.name.name))
		}
		return
	}
	if err := checkSubmit(m); err != nil {
		c.refuse(from, m.Job, err)
		return
	}
	if err := c.admit(m); err != nil {
		c.refuse(from, m.Job, err)
		return
	}
	arrival := c.now - max(m.Waited, 0)
	j := &job{
		submit: m, frontend: p.frontend, pool: c.pool(m.Model), order: c.orders,
		arrival: arrival, aged: arrival.Seconds(), seq: m.Tokens[:len(m.Tokens):len(m.Tokens)],
		deadlineIndex: -1, flow: c.flowOf(m),
	}
	c.orders++
	c.jobs[m.Job] = j
	p.frontend.jobs[m.Job] = j
	c.queuedJobs++
	c.queuedTokens += len(m.Tokens)
	if m.Deadline > 0 {
		j.deadline = max(arrival+m.Deadline, 1)
		heap.Push(&c.deadlines, j)
	}
	if e := c.place(j); e != nil {
		c.dispatch(e)
	}
}

func (c *Core) refuse(to PeerID, id engine.JobID, err *engine.Error) {
	c.send(to, &wire.Result{Job: id, Err: err})
}

// checkSubmit refuses what no executor could make sense of.
func checkSubmit(m *wire.Submit) *engine.Error {
	a := &m.Ask
	switch {
	case len(m.Tokens) == 0:
		return engine.Errorf(engine.CodeBadTokens, "the prompt has no tokens")
	case m.MaxTokens < 0:
		return engine.Errorf(engine.CodeBadTokens, "max_tokens is %d, want 0 or more", m.MaxTokens)
	case m.MaxTokens == 0 && !a.PromptLogprobs:
		return engine.Errorf(engine.CodeBadTokens, "max_tokens is 0 and no prompt logprobs are asked for: nothing to answer")
	case a.Top < 0 || a.Top > engine.MaxTop:
		return engine.Errorf(engine.CodeBadTokens, "%d top logprobs are asked for, at most %d are given", a.Top, engine.MaxTop)
	case a.PromptTop < 0 || a.PromptTop > engine.MaxTop:
		return engine.Errorf(engine.CodeBadTokens, "%d top prompt logprobs are asked for, at most %d are given", a.PromptTop, engine.MaxTop)
	case !(a.Temperature >= 0) || math.IsInf(float64(a.Temperature), 1):
		return engine.Errorf(engine.CodeBadTokens, "temperature is %v, want 0 or more", a.Temperature)
	case !(a.TopP >= 0 && a.TopP <= 1):
		return engine.Errorf(engine.CodeBadTokens, "top_p is %v, want above 0 and at most 1", a.TopP)
	}
	return nil
}

// checkIDs refuses ids outside the vocabulary.
func checkIDs(m *wire.Submit, vocabSize int) *engine.Error {
	vocab := engine.TokenID(vocabSize)
	for i, id := range m.Tokens {
		if id >= vocab {
			return engine.Errorf(engine.CodeBadTokens, "prompt token %d has id %d, the vocabulary has %d", i, id, vocab)
		}
	}
	return checkAskIDs(m, vocab)
}

// checkAskIDs refuses ids outside the vocabulary among what is asked.
func checkAskIDs(m *wire.Submit, vocab engine.TokenID) *engine.Error {
	for _, list := range []struct {
		name string
		ids  []engine.TokenID
	}{{"stop", m.StopTokens}, {"logprob_token_ids", m.Ask.Labels}, {"allowed_token_ids", m.Ask.Allowed}} {
		for _, id := range list.ids {
			if id >= vocab {
				return engine.Errorf(engine.CodeBadTokens, "%s has id %d, the vocabulary has %d", list.name, id, vocab)
			}
		}
	}
	for _, b := range m.Ask.Bias {
		if b.ID >= vocab || math.IsNaN(float64(b.Bias)) {
			return engine.Errorf(engine.CodeBadTokens, "logit_bias gives id %d the bias %v, the vocabulary has %d", b.ID, b.Bias, vocab)
		}
	}
	return nil
}

// admit holds a new job against the admission bounds. A job that an earlier scheduler had taken in
// is always taken.
func (c *Core) admit(m *wire.Submit) *engine.Error {
	if m.Waited > 0 {
		return nil
	}
	var wait time.Duration
	if c.cfg.MaxQueueTime > 0 || c.queuedJobs >= c.cfg.MaxQueuedJobs || c.queuedTokens+len(m.Tokens) > c.cfg.MaxQueuedTokens {
		wait = c.predictedWait(m.Model)
	}
	overloaded := func(format string, args ...any) *engine.Error {
		err := engine.Errorf(engine.CodeOverloaded, format, args...)
		err.RetryAfter = min(max(wait/2, time.Second), time.Minute)
		return err
	}
	switch {
	case c.queuedJobs >= c.cfg.MaxQueuedJobs:
		c.stats.RefusedJobs++
		return overloaded("%d requests wait, the limit is %d", c.queuedJobs, c.cfg.MaxQueuedJobs)
	case c.queuedTokens+len(m.Tokens) > c.cfg.MaxQueuedTokens:
		c.stats.RefusedTokens++
		return overloaded("%d tokens wait and the prompt has %d, the limit is %d", c.queuedTokens, len(m.Tokens), c.cfg.MaxQueuedTokens)
	case c.cfg.MaxQueueTime > 0 && wait > c.cfg.MaxQueueTime:
		c.stats.RefusedTime++
		err := overloaded("the predicted wait is %.1f s, the limit is %.1f s", wait.Seconds(), c.cfg.MaxQueueTime.Seconds())
		err.RetryAfter = max(wait-c.cfg.MaxQueueTime, time.Second)
		return err
	}
	return nil
}

// predictedWait is the shortest predicted time until an executor of the model has done all that
// waits for it now.
func (c *Core) predictedWait(model string) time.Duration {
	p := c.pools[model]
	if p == nil || len(p.executors) == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, e := range p.executors {
		least = min(least, e.load(c.now))
	}
	return time.Duration(least * float64(time.Second))
}
