package completion

import (
	"context"
	"errors"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Bounds on one request: prompts times n, and these times the numbers of the lists that each job brings, such as logit_bias.
const (
	maxJobs   = 4096
	maxListed = 1 << 23
)

// Admit waits until the model's limits are known, fits the prompts into them, and makes a job for each choice. Where
// all choices of a prompt are the same, one job stands for them.
func (c *Call) Admit(ctx context.Context) error {
	var ask engine.Ask
	err := c.AdmitTokens(ctx, func(limits *wire.TokenLimits) (err error) {
		ask, err = c.makeJobs(ctx, limits)
		return err
	})
	if err != nil {
		return err
	}
	return c.checkLogprobs(&ask)
}

func (c *Call) makeJobs(ctx context.Context, limits *wire.TokenLimits) (ask engine.Ask, err error) {
	count := len(c.prompts) * c.N
	if count > maxJobs {
		return ask, api.Invalid("prompt", "prompt has %d prompts and n is %d; one request may have %d answers", len(c.prompts), c.N, maxJobs)
	}
	c.eos = choosableTokens(c.text.EOS(), limits.VocabSize)
	if ask, err = c.newAsk(ctx); err != nil {
		return ask, err
	}
	c.perPrompt = c.N
	if ask.Temperature == 0 || c.MaxTokens != nil && *c.MaxTokens == 0 {
		c.perPrompt = 1
	}
	if err := c.checkLists(&ask, len(c.prompts)*c.perPrompt); err != nil {
		return ask, err
	}
	c.choices = make([]choice, 0, count)
	if c.form, err = c.newConstraint(ctx); err != nil {
		return ask, err
	}
	for i := range c.prompts {
		if err := c.admitPrompt(ctx, i, limits, ask); err != nil {
			return ask, err
		}
	}
	c.Record.Tokens.Max = c.prompts[0].maxTokens
	return ask, nil
}

// checkLists refuses lists that are short by themselves, and long for so many jobs.
func (c *Call) checkLists(ask *engine.Ask, jobs int) error {
	listed := len(ask.Labels) + len(c.AllowedTokenIDs) + 2*len(ask.Bias) + len(c.stopTokens())
	for _, b := range ask.Bans {
		listed += len(b.Tokens)
	}
	if jobs*listed <= maxListed {
		return nil
	}
	return api.Invalid("prompt", "%d prompts with n = %d have %d numbers of logprob_token_ids, allowed_token_ids, logit_bias, stop_token_ids and bad_words each, %d in all; "+
		"one request may have %d; ask in several requests", len(c.prompts), c.N, listed, jobs*listed, maxListed)
}

// admitPrompt makes the jobs and choices of prompt i.
func (c *Call) admitPrompt(ctx context.Context, i int, limits *wire.TokenLimits, ask engine.Ask) error {
	p := &c.prompts[i]
	var err error
	if p.maxTokens, err = c.fitPrompt(i, limits.MaxModelLen); err != nil {
		return err
	}
	first, work := c.Jobs(), &engine.Tokens{IDs: p.ids, Max: p.maxTokens, Stop: c.stopTokens(), Ask: ask}
	if err := c.Add(engine.Job{Work: work, Salt: c.salt, Priority: c.Priority}); err != nil {
		return c.misfit(i, err)
	}
	if err := c.decodeEcho(p); err != nil {
		return err
	}
	for k := range c.perPrompt {
		if err := c.addJob(ctx, first, k, work, limits.VocabSize); err != nil {
			return err
		}
	}
	for range c.N {
		c.choices = append(c.choices, newChoice(c, i))
	}
	c.asked.positions += c.N * len(p.ids)
	c.asked.tokens += c.N * p.maxTokens
	c.Record.Tokens.Prompt += len(p.ids)
	return nil
}

// addJob adds the k-th job of a prompt, of which first is there already and asks for work. The others draw once more, and
// leave it to the first to bring the scores of the prompt. A job whose answer must have a form asks for a part of work.
func (c *Call) addJob(ctx context.Context, first, k int, work *engine.Tokens, vocab int) error {
	if k > 0 {
		again := *work
		again.Ask.Seed, again.Ask.PromptLogprobs, again.Ask.PromptTop = work.Ask.Seed+uint64(k), false, 0
		work = &again
		c.AddLike(first, work)
	}
	if c.form == nil {
		return nil
	}
	g, err := c.guide(ctx, work, vocab)
	if err != nil {
		return err
	}
	c.guided = append(c.guided, g)
	c.Rework(first+k, g.nextWork())
	return nil
}

// choosableTokens are the tokens of eos that a model of so many can choose.
func choosableTokens(eos []engine.TokenID, vocab int) []engine.TokenID {
	if !slices.ContainsFunc(eos, func(id engine.TokenID) bool { return int(id) >= vocab }) {
		return eos
	}
	return slices.DeleteFunc(slices.Clone(eos), func(id engine.TokenID) bool { return int(id) >= vocab })
}

// paramOf are the fields of requests that say the parts of Tokens.
var paramOf = map[client.Part]string{
	client.PartPrompt: "prompt", client.PartStop: "stop_token_ids", client.PartLabels: "logprob_token_ids",
	client.PartAllowed: "allowed_token_ids", client.PartBias: "logit_bias", client.PartBans: "bad_words",
}

// misfit says in the request's words why the model does not take prompt i.
func (c *Call) misfit(i int, err error) error {
	var token *client.TokenError
	var length *client.LengthError
	switch {
	case errors.As(err, &token):
		param := paramOf[token.Part]
		return api.Invalid(param, "%s has token id %d; the model's vocabulary has %d tokens (0 to %d)", param, token.ID, token.Vocab, token.Vocab-1)
	case errors.As(err, &length) && length.Prompt == 0:
		return api.Invalid(c.promptField(), "prompt %d has no tokens; give at least one", i)
	case errors.As(err, &length):
		return c.tooLong("this model's context holds %d tokens; prompt %d has %d and %d more are to be generated; shorten the prompt or lower max_tokens", length.Limit, i, length.Prompt, length.Generate)
	}
	return err
}

// fitPrompt truncates prompt i where that is asked for, and returns how many tokens to generate from it. It leaves it to the
// pool's client to refuse a prompt that does not fit.
func (c *Call) fitPrompt(i, limit int) (maxTokens int, err error) {
	p := &c.prompts[i]
	asked := 1 // the least that is of use, where the client did not say
	if c.MaxTokens != nil {
		asked = *c.MaxTokens
	}
	if keep := c.TruncatePromptTokens; keep != nil {
		most := *keep
		if most < 0 {
			most = max(1, limit-asked)
		}
		if len(p.ids) > most && most <= p.behind {
			return 0, api.Invalid("truncate_prompt_tokens", "the messages have %d tokens, of which %d are left, and the chat template's last %d leave no room for text; truncate to %d or more", len(p.ids), most, p.behind, p.behind+1)
		}
		p.ids = p.ids[max(0, len(p.ids)-most):]
	}
	room := limit - len(p.ids)
	switch {
	case c.MaxTokens != nil || room < asked || len(p.ids) == 0:
		return asked, nil
	case c.MinTokens > room:
		return 0, api.Invalid("min_tokens", "min_tokens is %d; this model's context holds %d tokens, of which prompt %d leaves %d", c.MinTokens, limit, i, room)
	}
	return min(max(c.defaultMaxTokens(limit), c.MinTokens), room), nil
}

// defaultMaxTokens is the most that is generated where the client gave no bound.
func (c *Call) defaultMaxTokens(limit int) int {
	switch {
	case !c.chat:
		return completions.DefaultMaxTokens
	case c.s.cfg.DefaultMaxTokens > 0:
		return c.s.cfg.DefaultMaxTokens
	}
	return limit
}

// decodeEcho gives p the text to be echoed, where it came as tokens or was truncated.
func (c *Call) decodeEcho(p *prompt) error {
	if !c.echo || p.text != "" {
		return nil
	}
	var err error
	p.text, err = c.text.Untokenize("prompt", p.ids, c.SkipSpecialTokens)
	return err
}
