package completion

import (
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

// holdLogprobs counts n more log-probabilities of the call, if there is room for them.
func (c *Call) holdLogprobs(n int64) error {
	if full := c.Hold(c.s.logprobs, n, logprobBytes); full != nil {
		return engine.Errorf(engine.CodeOverloaded, "the server has no memory for the log-probabilities: %v; come back later", full)
	}
	return nil
}

// logprobBytes is about what a log-probability takes from its arrival to the end of its answer.
const logprobBytes = 16
