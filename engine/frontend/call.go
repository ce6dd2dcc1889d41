package frontend

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// prompt is one prompt of a request. Text is kept only where it is to be echoed.
type prompt struct {
	text      string
	ids       []engine.TokenID
	maxTokens int // to be generated from it; set when the call is admitted
}

// call is one completion or chat request on its way. Its handler's goroutine owns it.
type call struct {
	*api.Params
	f       *Frontend
	x       *exchange
	id      string
	model   string // as the client named it
	created int64
	chat    bool
	echo    bool

	prompts  []prompt
	choices  []choice      // prompt by prompt, N for each
	jobs     []*client.Job // one a choice
	results  *client.Results
	received []client.Delivery
	open     int // choices not finished

	asked logprobsAsked
	held  int64 // counted in Frontend.logprobs
}

// newCall checks the model name of p and starts a call for it.
func (f *Frontend) newCall(x *exchange, r *http.Request, p *api.Params, prefix string) (*call, *refusal) {
	c := &call{Params: p, f: f, x: x, model: p.Model, created: x.start.Unix()}
	if c.model == "" {
		c.model = f.cfg.Models[0]
	}
	if refused := f.checkModel(c.model); refused != nil {
		return nil, refused
	}
	if p.RequestID != "" && r.Header.Get("X-Request-Id") == "" {
		x.id = requestID(p.RequestID)
		x.Header().Set("X-Request-Id", x.id)
	}
	c.id = prefix + x.id
	x.model = c.model
	return c, nil
}

// limits are what the pool says of the model; it waits until there is an executor.
func (f *Frontend) limits(ctx context.Context) (*client.State, *refusal) {
	state, err := f.pool.Limits(ctx)
	if err != nil {
		return nil, fromPool(ctx, err)
	}
	return state, nil
}

// admit checks the prompts and options against the model's limits and makes a job for each choice.
func (c *call) admit(r *http.Request, limits *client.State) *refusal {
	if refused := c.checkTokens(c.vocabulary(limits)); refused != nil {
		return refused
	}
	deadline, refused := deadlineOf(r.Header)
	if refused != nil {
		return refused
	}
	count := len(c.prompts) * c.N
	if count > maxJobsPerRequest {
		return invalid(api.Invalid("prompt", "prompt has %d prompts and n is %d; one request may have %d answers", len(c.prompts), c.N, maxJobsPerRequest))
	}
	c.results = client.NewResults()
	c.choices = make([]choice, count)
	c.jobs = make([]*client.Job, count)
	c.open = count
	ask, refused := c.ask(r.Context())
	if refused != nil {
		return refused
	}
	template := wire.Submit{
		Model:      c.f.cfg.Models[0],
		StopTokens: c.stopTokens(),
		Ask:        ask,
		User:       c.user(r.Header),
		Salt:       c.x.owner.Salt(c.CacheSalt),
		Priority:   c.Priority,
		Deadline:   deadline,
	}
	for i := range c.prompts {
		maxTokens, refused := c.fit(i, limits.MaxModelLen)
		if refused != nil {
			return refused
		}
		if refused := c.spell(&c.prompts[i]); refused != nil {
			return refused
		}
		c.asked.positions += c.N * len(c.prompts[i].ids)
		c.asked.tokens += c.N * maxTokens
		c.x.promptTokens += len(c.prompts[i].ids)
		c.prompts[i].maxTokens = maxTokens
		for k := range c.N {
			submit := template
			submit.Tokens, submit.MaxTokens = c.prompts[i].ids, maxTokens
			submit.Ask.Seed += uint64(k)
			at := i*c.N + k
			c.jobs[at] = c.f.pool.NewJob(submit, c.x.start, c.results, at)
			c.choices[at] = newChoice(c, i)
		}
	}
	c.x.jobs, c.x.choices, c.x.maxTokens = count, c.N, c.prompts[0].maxTokens
	return c.checkLogprobs(&template.Ask)
}

// maxJobsPerRequest bounds prompts times n of one request.
const maxJobsPerRequest = 4096

func (c *call) vocabulary(limits *client.State) int {
	if limits.VocabSize > 0 {
		return limits.VocabSize
	}
	return c.f.tok.VocabSize()
}

// checkTokens refuses ids that the model has no row for.
func (c *call) checkTokens(vocab int) *refusal {
	check := func(param string, ids []engine.TokenID) *refusal {
		for _, id := range ids {
			if int(id) >= vocab {
				return invalid(api.Invalid(param, "%s has token id %d; the model's vocabulary has %d tokens (0 to %d)", param, id, vocab, vocab-1))
			}
		}
		return nil
	}
	for i := range c.prompts {
		if refused := check("prompt", c.prompts[i].ids); refused != nil {
			return refused
		}
	}
	for _, list := range []struct {
		param string
		ids   []engine.TokenID
	}{
		{"allowed_token_ids", c.AllowedTokenIDs}, {"logprob_token_ids", c.LogprobTokenIDs}, {"stop_token_ids", c.StopTokenIDs},
	} {
		if refused := check(list.param, list.ids); refused != nil {
			return refused
		}
	}
	for _, bias := range c.LogitBias {
		if refused := check("logit_bias", []engine.TokenID{bias.ID}); refused != nil {
			return refused
		}
	}
	return nil
}

// fit truncates prompt i where that is asked for, and returns how many tokens to generate from it.
func (c *call) fit(i, limit int) (maxTokens int, refused *refusal) {
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
		p.ids = p.ids[max(0, len(p.ids)-most):]
	}
	if len(p.ids) == 0 {
		return 0, invalid(api.Invalid(c.promptField(), "prompt %d has no tokens; give at least one", i))
	}
	if asked > limit || len(p.ids) > limit-asked {
		r := refuse(engine.CodeTooLong, "this model's context holds %d tokens; prompt %d has %d and %d more are to be generated; shorten the prompt or lower max_tokens", limit, i, len(p.ids), asked)
		r.body.Param = c.promptField()
		return 0, r
	}
	if c.MaxTokens != nil {
		return asked, nil
	}
	room := limit - len(p.ids)
	if c.MinTokens > room {
		return 0, invalid(api.Invalid("min_tokens", "min_tokens is %d; this model's context holds %d tokens, of which prompt %d leaves %d", c.MinTokens, limit, i, room))
	}
	return min(max(c.defaultMaxTokens(limit), c.MinTokens), room), nil
}

// defaultMaxTokens is the most that is generated where the client gave no bound.
func (c *call) defaultMaxTokens(limit int) int {
	switch {
	case !c.chat:
		return api.DefaultMaxTokens
	case c.f.cfg.DefaultMaxTokens > 0:
		return c.f.cfg.DefaultMaxTokens
	}
	return limit
}

// spell gives p the text to be echoed, where it came as tokens or was truncated.
func (c *call) spell(p *prompt) *refusal {
	if !c.echo || p.text != "" {
		return nil
	}
	text, err := c.f.tok.Decode(p.ids, c.SkipSpecialTokens)
	if err != nil {
		return untokenizable("prompt", err)
	}
	p.text = text
	return nil
}

func (c *call) promptField() string {
	if c.chat {
		return "messages"
	}
	return "prompt"
}

func (c *call) stopTokens() []engine.TokenID {
	if c.IgnoreEOS {
		return c.StopTokenIDs
	}
	if len(c.StopTokenIDs) == 0 {
		return c.f.eos
	}
	return append(slices.Clone(c.StopTokenIDs), c.f.eos...)
}

func (c *call) ask(ctx context.Context) (engine.Ask, *refusal) {
	bans, refused := c.bans(ctx)
	a := engine.Ask{
		Top: c.Top, Labels: c.LogprobTokenIDs, Allowed: c.AllowedTokenIDs, Bans: bans,
		Temperature: float32(c.Temperature), TopP: float32(c.TopP), TopK: c.TopK, MinP: float32(c.MinP),
	}
	if c.Seed != nil {
		a.Seed = uint64(*c.Seed)
	} else {
		a.Seed = rand.Uint64()
	}
	for _, b := range c.LogitBias {
		a.Bias = append(a.Bias, engine.TokenBias{ID: b.ID, Bias: b.Bias})
	}
	nothingElse := c.MaxTokens != nil && *c.MaxTokens == 0 // no job asks for nothing
	if c.echo && (c.WantLogprobs || nothingElse) {
		a.PromptLogprobs, a.PromptTop = true, c.Top
	}
	if c.PromptLogprobs != nil {
		a.PromptLogprobs, a.PromptTop = true, max(a.PromptTop, *c.PromptLogprobs)
	}
	return a, refused
}

// user is the key of fairness and routing: a router's header goes before the body's field.
func (c *call) user(h http.Header) string {
	for _, name := range []string{"X-Llm-D-Inference-Fairness-Id", "X-Gateway-Inference-Fairness-Id", "X-User-Id"} {
		if id := h.Get(name); id != "" {
			return id[:min(len(id), api.MaxSaltBytes)]
		}
	}
	return c.User
}

// deadlineOf reads the time to first token that a router promised.
func deadlineOf(h http.Header) (time.Duration, *refusal) {
	for _, name := range []string{"X-Llm-D-Slo-Ttft-Ms", "X-Slo-Ttft-Ms"} {
		text := h.Get(name)
		if text == "" {
			continue
		}
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ms > 0 && ms < 1e12) {
			return 0, invalid(api.Invalid(name, "header %s is %.40q; it must be a number of milliseconds above 0", name, text))
		}
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	return 0, nil
}

// next waits for Results and adds them to their choices. It returns them, for streams.
func (c *call) next(ctx context.Context) ([]client.Delivery, *refusal) {
	received, err := c.results.Next(ctx, c.received)
	if err != nil {
		return nil, ended(ctx)
	}
	c.received = received
	for _, d := range c.received {
		if d.Result.Err != nil {
			return nil, fromEngine(d.Result.Err)
		}
		c.accept(d)
		if err := c.choices[d.Index].decoder.err; err != nil {
			return nil, refuse(engine.CodeInternal, "the model's tokenizer fails on the generated tokens: %v", err)
		}
	}
	return c.received, nil
}

func (c *call) accept(d client.Delivery) {
	choice := &c.choices[d.Index]
	if choice.done() {
		return // a stop string ended it; this Result was under way
	}
	c.x.note(d, choice.last.IsZero())
	if !choice.last.IsZero() {
		c.f.metrics.betweenTokens.Observe(d.At.Sub(choice.last).Seconds())
	}
	choice.last = d.At
	choice.accept(d.Result)
	if answer := d.Result.Answer; answer != nil {
		c.held += c.f.logprobs.add(len(answer.Top) + len(answer.Labels))
	}
	if !choice.done() {
		return
	}
	c.open--
	if c.open == 0 {
		c.x.finish = c.choices[0].finish
	}
	if d.Result.Finish == engine.FinishNone {
		c.f.pool.Cancel(c.jobs[d.Index])
	}
}

// usage sums over the request: each prompt once, each choice's tokens.
func (c *call) usage() *api.Usage {
	u := &api.Usage{PromptTokens: c.x.promptTokens, Details: &api.PromptTokensDetails{}}
	for i := range c.choices {
		u.CompletionTokens += len(c.choices[i].answers)
		if i%c.N == 0 {
			u.Details.CachedTokens += c.choices[i].cached
		}
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	c.x.cachedTokens, c.x.completionTokens = u.Details.CachedTokens, u.CompletionTokens
	return u
}
