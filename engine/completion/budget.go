package completion

import (
	"sync/atomic"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
)

// logprobsAsked is how many log-probabilities a request asks for, in all its answers.
type logprobsAsked struct {
	positions, atPosition int // of prompts, and at each
	tokens, atToken       int // that may be generated, and at each
}

func (l *logprobsAsked) ofPrompts() int64 { return int64(l.positions) * int64(l.atPosition) }
func (l *logprobsAsked) ofTokens() int64  { return int64(l.tokens) * int64(l.atToken) }

// checkLogprobs refuses a request whose answer would take too much memory, before anything is computed.
func (c *Call) checkLogprobs(ask *engine.Ask) error {
	l := &c.asked
	if ask.PromptLogprobs {
		l.atPosition = 1 + ask.PromptTop
	}
	if c.WantLogprobs {
		l.atToken = 1 + ask.Top + len(ask.Labels)
	}
	if l.ofPrompts()+l.ofTokens() <= int64(c.s.cfg.MaxLogprobs) {
		return nil
	}
	field := "logprobs"
	if c.chat {
		field = "top_logprobs"
	}
	return api.Invalid(field, "%d prompts with n = %d ask for %d log-probabilities (%d at each of %d prompt positions, %d at each of up to %d generated tokens); "+
		"one request may ask for %d; lower n, %s or max_tokens, or ask in several requests",
		len(c.prompts), c.N, l.ofPrompts()+l.ofTokens(), l.atPosition, l.positions, l.atToken, l.tokens, c.s.cfg.MaxLogprobs, field)
}

// budgetRequests is how many requests of the greatest size may hold their log-probabilities at a time.
const budgetRequests = 4

// budget counts the log-probabilities that open requests hold, or will when their prompts are scored.
type budget struct {
	limit int64 // set once
	held  atomic.Int64
}

// hold counts n that are to come, if there is room for them.
func (b *budget) hold(n int64) error {
	if held := b.held.Add(n); n > 0 && held > b.limit {
		b.held.Add(-n)
		return engine.Errorf(engine.CodeOverloaded, "open requests hold %d log-probabilities of the %d that the server has memory for, and this one asks for %d; come back later", held-n, b.limit, n)
	}
	return nil
}

// add counts n that came, and returns n.
func (b *budget) add(n int) int64 {
	b.held.Add(int64(n))
	return int64(n)
}

func (b *budget) release(n int64) { b.held.Add(-n) }

// logprobBytes is about what a log-probability takes from its arrival to the end of its answer.
const logprobBytes = 16
