package scoring

import (
	"context"
	"errors"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Call is one request on its way. One goroutine uses it.
type Call struct {
	*pooling.Request
	*request.Call

	s       *Service
	subject *Subject
	salt    string                      // of the prefix cache
	known   map[string][]engine.TokenID // texts that were tokenized
	read    int                         // tokens of known

	ask     engine.Ask
	max     int // tokens to be generated
	prompts []prompt
	found   []pooling.Result // of the prompts
	numbers int64            // asked for
}

// inputLimit is how many tokens an input may have, of a model whose context holds so many.
func (c *Call) inputLimit(context int) int {
	return c.subject.Longest(context - c.max)
}

// Admit waits until the model's limits are known, fits the prompts into them, and makes a job of each.
func (c *Call) Admit(ctx context.Context) error {
	if err := c.AdmitTokens(ctx, c.makeJobs); err != nil {
		return err
	}
	if c.numbers > maxNumbers {
		return api.Invalid(c.Field, "the answer would have %d numbers; one request may ask for %d; ask in several requests", c.numbers, maxNumbers)
	}
	return nil
}

func (c *Call) makeJobs(limits *wire.TokenLimits) error {
	if err := c.checkDimensions(limits); err != nil {
		return err
	}
	c.found = make([]pooling.Result, len(c.prompts))
	limit := c.inputLimit(limits.MaxModelLen)
	for i := range c.prompts {
		if err := c.admitPrompt(i, limit, limits); err != nil {
			return err
		}
	}
	c.Together()
	c.Record.Tokens.Max = c.max
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
	if err := c.Add(engine.Job{Work: &engine.Tokens{IDs: p.tokenIDs(), Max: c.max, Ask: ask}, Salt: c.salt, Priority: c.Priority}); err != nil {
		return c.explainMisfit(p, err)
	}
	tokens := c.Record.Tokens
	if tokens.Prompt += p.countTokens(); tokens.Prompt > c.s.most {
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

// Submit gives an admitted call's jobs to the pool.
func (c *Call) Submit() error {
	if full := c.Hold(c.s.numbers, c.numbers, numberBytes); full != nil {
		return engine.Errorf(engine.CodeOverloaded, "the server has no memory for the vectors' numbers: %v; come back later", full)
	}
	return c.Call.Submit()
}

// Wait waits for all results.
func (c *Call) Wait(ctx context.Context) error {
	if err := c.Call.Wait(ctx, c.acceptResult); err != nil {
		return err
	}
	c.Record.Finish = engine.FinishStop.String()
	return nil
}

// acceptResult takes the result of a prompt.
func (c *Call) acceptResult(d client.Delivery) error {
	out := d.Result.Output.(*engine.TokenOutput)
	c.Record.Tokens.Cached += out.Cached
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
	tokens := c.Record.Tokens
	return c.Answered(pooling.Answer{
		ID: c.ID, Created: c.Arrived.Unix(), Model: c.Named, Results: results, Classes: c.subject.Labels,
		Usage: &api.Usage{PromptTokens: tokens.Prompt, TotalTokens: tokens.Prompt, Details: &api.PromptTokensDetails{CachedTokens: tokens.Cached}},
	})
}
