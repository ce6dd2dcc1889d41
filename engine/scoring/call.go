package scoring

import (
	"context"
	"errors"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Call is one request on its way. One goroutine uses it.
type Call struct {
	*pooling.Request
	Record completion.Record

	s       *Service
	subject *Subject
	from    completion.Origin
	model   string                      // as the client named it
	known   map[string][]engine.TokenID // texts that were tokenized
	read    int                         // tokens of known

	ask     engine.Ask
	max     int // tokens to be generated
	prompts []prompt
	jobs    []*client.Job
	results *client.Results
	found   []pooling.Result // of the prompts
	open    int              // prompts without a result
	numbers int64            // asked for
	held    int64            // of numbers, in Service.numbers
}

// inputLimit is how many tokens an input may have, of a model whose context holds so many.
func (c *Call) inputLimit(context int) int {
	return c.subject.Longest(context - c.max)
}

// Admit waits until the model's limits are known, fits the prompts into them, and makes a job of each.
func (c *Call) Admit(ctx context.Context) error {
	m, err := c.s.pool.Model(ctx, c.from.Model)
	switch {
	case err != nil:
		return err
	case m.Tokens == nil:
		return api.Invalid("model", "the model `%s` takes tensors, not text", c.model)
	}
	if err := c.checkDimensions(m.Tokens); err != nil {
		return err
	}
	c.results, c.found, c.open = client.NewResults(), make([]pooling.Result, len(c.prompts)), len(c.prompts)
	limit := c.inputLimit(m.Tokens.MaxModelLen)
	for i := range c.prompts {
		if err := c.admitPrompt(i, limit, m.Tokens); err != nil {
			return err
		}
	}
	c.Record.Jobs, c.Record.N, c.Record.MaxTokens = len(c.jobs), 1, c.max
	if c.numbers > maxNumbers {
		return api.Invalid(c.Field, "the answer would have %d numbers; one request may ask for %d; ask in several requests", c.numbers, maxNumbers)
	}
	return nil
}

// admitPrompt makes the job of prompt i.
func (c *Call) admitPrompt(i, limit int, limits *wire.TokenLimits) error {
	p := &c.prompts[i]
	if most := c.Fit.Most; most != 0 {
		if most < 0 {
			most = limit
		}
		if p.countTokens() > most {
			if around, texts := p.countKept(c.Fit.Left); around+texts > most {
				return c.tooLong(p, limit)
			}
			p.truncateTexts(most, c.Fit.Left)
		}
	}
	if p.countTokens() > limit {
		return c.tooLong(p, limit)
	}
	ask := c.promptAsk(p)
	if p.typed {
		ask.Second = len(p.before) + len(p.first) + len(p.between)
	}
	job, err := c.s.pool.NewJob(engine.Job{
		Model: c.from.Model, User: c.from.User, Salt: c.from.Salt, Priority: c.Priority, Deadline: c.from.Deadline,
		Work: &engine.Tokens{IDs: p.tokenIDs(), Max: c.max, Ask: ask},
	}, c.from.Arrived, c.results, i)
	if err != nil {
		return c.explainMisfit(p, err)
	}
	c.jobs = append(c.jobs, job)
	if c.Record.PromptTokens += p.countTokens(); c.Record.PromptTokens > c.s.most {
		return c.tooMany(p.field)
	}
	c.numbers += numbersOf(&ask, p.countTokens(), limits)
	return nil
}

// tooMany refuses a request whose prompts have too many tokens together, as those of a long query have that each document is read with.
func (c *Call) tooMany(field string) *api.Error {
	return api.Invalid(field, "the texts of %s, each with what is read beside it, have more than %d tokens in all; ask in several requests", field, c.s.most)
}

// promptAsk is what is asked of a prompt: of one whose first tokens are not pooled, the vectors of all.
func (c *Call) promptAsk(p *prompt) engine.Ask {
	ask := c.ask
	if p.prompted > 0 {
		ask.Pool = engine.PoolAll
	}
	return ask
}

// numbersOf is how many numbers a prompt of n tokens is answered with.
func numbersOf(ask *engine.Ask, n int, limits *wire.TokenLimits) int64 {
	if ask.Pool == engine.PoolNone {
		return int64(len(ask.Labels))
	}
	width := limits.Hidden
	if ask.Head {
		width = limits.Labels
	}
	if ask.Pool != engine.PoolAll {
		n = 1
	}
	return int64(width) * int64(n)
}

// explainMisfit says in the request's words why the model does not take a prompt.
func (c *Call) explainMisfit(p *prompt, err error) error {
	var token *client.TokenError
	var length *client.LengthError
	switch {
	case errors.As(err, &token) && token.Part == client.PartLabels:
		return api.Invalid("label_token_ids", "label_token_ids has token id %d; the model's vocabulary has %d tokens (0 to %d)", token.ID, token.Vocab, token.Vocab-1)
	case errors.As(err, &token):
		return api.Invalid(p.field, "%s[%d] has token id %d; the model's vocabulary has %d tokens (0 to %d)", p.field, p.index, token.ID, token.Vocab, token.Vocab-1)
	case errors.As(err, &length) && length.Prompt == 0:
		return api.Invalid(p.field, "%s[%d] has no tokens; give at least one", p.field, p.index)
	}
	return err
}

// Submit gives an admitted call's jobs to the pool. The caller calls Close then, however the call ends.
func (c *Call) Submit() error {
	if full := c.s.numbers.Hold(c.from.Holder, c.numbers); full != nil {
		return engine.Errorf(engine.CodeOverloaded, "the server has no memory for the vectors' numbers: %v; come back later", full)
	}
	c.held = c.numbers
	client.Together(c.jobs)
	if err := c.s.pool.Submit(c.from.Holder, c.jobs); err != nil {
		c.release()
		return err
	}
	return nil
}

// Close withdraws what is not done.
func (c *Call) Close() {
	if c.open > 0 {
		c.s.pool.Cancel(c.jobs...)
	}
	c.release()
}

func (c *Call) release() {
	c.s.numbers.Release(c.from.Holder, c.held)
	c.Record.Memory += c.held * numberBytes
	c.held = 0
}

// Wait waits for all results.
func (c *Call) Wait(ctx context.Context) error {
	var err error
	if c.open, err = c.results.All(ctx, c.open, c.acceptResult); err != nil {
		return err
	}
	c.Record.Finish = "stop"
	return nil
}

// acceptResult takes the result of a prompt.
func (c *Call) acceptResult(d client.Delivery) error {
	c.Record.Note(d, true)
	out := d.Result.Output.(*engine.TokenOutput)
	c.Record.CachedTokens += out.Cached
	if c.max > 0 {
		return c.acceptLabels(d.Index, out)
	}
	return c.acceptVector(d.Index, out)
}

// Answer is that of a call that is done.
func (c *Call) Answer() api.Encoder {
	results := c.found
	if c.Task == pooling.Score || c.Task == pooling.Similarity {
		results = c.pairResults()
	}
	n := c.Record.PromptTokens
	return c.Answered(pooling.Answer{
		ID: c.from.ID, Created: c.from.Arrived.Unix(), Model: c.model, Results: results, Classes: c.subject.Labels,
		Usage: &api.Usage{PromptTokens: n, TotalTokens: n, Details: &api.PromptTokensDetails{CachedTokens: c.Record.CachedTokens}},
	})
}
