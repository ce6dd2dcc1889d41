package completion

import (
	"context"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

// prompt is one prompt of a request. Text is kept only where it is to be echoed.
type prompt struct {
	text      string
	ids       []engine.TokenID
	behind    int                  // of ids, what the chat template writes behind the last message; known where ids may be truncated
	maxTokens int                  // to be generated from it; set when the call is admitted
	scores    []engine.PromptScore // when they have come and until they are out
	scored    bool                 // they have, if they are asked for
}

// Call is one completion or chat request on its way. One goroutine uses it.
type Call struct {
	*completions.Params
	Record Record

	s     *Service
	text  *Text
	from  Origin
	id    string
	model string // as the client named it
	chat  bool
	echo  bool

	toolParser string // of the answers' words; empty: calls are not looked for

	eos       []engine.TokenID // that the model can choose
	prompts   []prompt
	choices   []choice // prompt by prompt, N for each
	jobs      []*client.Job
	form      grammar.Constraint // of the answers; nil: any
	guided    []*guided          // the answers by job, if they must have a form
	perPrompt int                // jobs: N, or 1 where all choices are the same
	results   *client.Results
	received  []client.Delivery
	fresh     []int // choices that have news
	open      int   // choices not finished

	asked logprobsAsked
	held  int64 // counted in Service.logprobs
}

// Record is what the log and the metrics say of a Call.
type Record struct {
	Jobs             int
	PromptTokens     int
	CachedTokens     int
	CompletionTokens int
	MaxTokens, N     int
	Queued, Running  time.Duration // of the longest job
	Prefilled        time.Duration // of Running, what came before the first token
	FirstToken       time.Time
	LastToken        time.Time
	Finish           string        // of the first choice, once all are done
	Memory           int64         // bytes of log-probabilities
	Trace            *client.Trace // of the jobs one by one; nil: not kept
}

// Note times a Result, the first of its choice or a later one.
func (r *Record) Note(d client.Delivery, first bool) {
	r.Trace.Note(d)
	if r.FirstToken.IsZero() {
		r.FirstToken = d.At
	}
	r.LastToken = d.At
	timing := d.Result.Timing
	r.Queued, r.Running = max(r.Queued, timing.Queued), max(r.Running, timing.Running)
	if first {
		r.Prefilled = max(r.Prefilled, timing.Running)
	}
}

// Submit gives an admitted call's jobs to the pool. The caller calls Close then, however the call ends.
func (c *Call) Submit() error {
	if err := c.holdLogprobs(c.asked.ofPrompts()); err != nil {
		c.closeForms()
		return err
	}
	if err := c.s.pool.Submit(c.from.Holder, c.jobs); err != nil {
		c.closeForms()
		c.release()
		return err
	}
	return nil
}

// Close withdraws what is not done.
func (c *Call) Close() {
	c.usage() // for the log, however it ends
	if c.open > 0 {
		c.s.pool.Cancel(c.jobs...)
	}
	c.closeForms()
	c.release()
}

func (c *Call) release() {
	c.s.logprobs.Release(c.from.Holder, c.held)
	c.Record.Memory += c.held * logprobBytes
	c.held = 0
}

// Done says whether all choices are.
func (c *Call) Done() bool { return c.open == 0 }

// Next waits for results and adds them to their choices. Of a stream it returns which choices have something new; the
// list is good until the next call.
func (c *Call) Next(ctx context.Context) ([]int, error) {
	received, err := c.results.Next(ctx, c.received)
	if err != nil {
		return nil, err
	}
	c.received, c.fresh = received, c.fresh[:0]
	for _, d := range c.received {
		if d.Result.Err != nil {
			return nil, d.Result.Err
		}
		results, err := c.knownResults(d)
		if err != nil {
			return nil, err
		}
		for _, d.Result = range results {
			if err := c.acceptAll(d); err != nil {
				return nil, err
			}
		}
		c.continueJob(d.Index)
	}
	return c.fresh, nil
}

// acceptAll adds a Result to the choices that its job is of.
func (c *Call) acceptAll(d client.Delivery) error {
	n := c.N / c.perPrompt
	for i := d.Index * n; i < (d.Index+1)*n; i++ {
		if err := c.accept(i, d); err != nil {
			return err
		}
	}
	if answer := d.Result.Output.(*engine.TokenOutput).Answer; answer != nil {
		return c.holdLogprobs(int64(len(answer.Top) + len(answer.Labels)))
	}
	return nil
}

// accept adds a Result to choice i.
func (c *Call) accept(i int, d client.Delivery) error {
	ch := &c.choices[i]
	if ch.isDone() {
		return nil // a stop string ended it; this Result was under way
	}
	c.Record.Note(d, ch.last.IsZero())
	if !ch.last.IsZero() && c.from.Between != nil {
		c.from.Between(d.At.Sub(ch.last))
	}
	ch.last = d.At
	out := d.Result.Output.(*engine.TokenOutput)
	waited := c.takeScores(d.Index, ch.prompt, out)
	if c.Stream {
		c.fresh = append(c.fresh, i)
		for k := i / c.N * c.N; waited && k < (i/c.N+1)*c.N; k++ {
			c.fresh = append(c.fresh, k)
		}
	}
	ch.accept(out, d.Result.Finish)
	if err := ch.text.Err(); err != nil {
		return engine.Errorf(engine.CodeInternal, "the model's tokenizer fails on the generated tokens: %v", err)
	}
	if !ch.isDone() {
		return nil
	}
	if c.open--; c.open == 0 {
		c.Record.Finish = c.choices[0].finish
	}
	if d.Result.Finish == engine.FinishNone {
		c.s.pool.Cancel(c.jobs[d.Index])
	}
	return nil
}

// takeScores takes the scores that the first job of a prompt brings, and says whether events may have waited for them.
func (c *Call) takeScores(job int, p *prompt, out *engine.TokenOutput) (waited bool) {
	if job%c.perPrompt != 0 || p.scored {
		return false
	}
	p.scores, p.scored = out.Prompt, true
	return c.echoesScores()
}

// usage sums over the request: each prompt once, each choice's tokens.
func (c *Call) usage() *api.Usage {
	u := &api.Usage{PromptTokens: c.Record.PromptTokens, Details: &api.PromptTokensDetails{}}
	for i := range c.choices {
		u.CompletionTokens += len(c.choices[i].answers)
		if i%c.N == 0 {
			u.Details.CachedTokens += c.choices[i].cached
		}
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	c.Record.CachedTokens, c.Record.CompletionTokens = u.Details.CachedTokens, u.CompletionTokens
	return u
}
