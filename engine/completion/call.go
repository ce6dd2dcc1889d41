package completion

import (
	"context"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/grammar"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/text"
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
	*request.Call

	s       *Service
	text    *text.Text
	id      string
	salt    string              // of the prefix cache
	between func(time.Duration) // Config.Between of the model; may be nil
	chat    bool
	echo    bool

	toolParser string // of the answers' words; empty: calls are not looked for

	eos       []engine.TokenID // that the model can choose
	prompts   []prompt
	choices   []choice           // prompt by prompt, N for each
	form      grammar.Constraint // of the answers; nil: any
	guided    []*guided          // the answers by job, if they must have a form
	perPrompt int                // jobs: N, or 1 where all choices are the same
	fresh     []int              // choices that have news

	asked   logprobsAsked
	figures request.Tokens // the Record's
}

// Submit gives an admitted call's jobs to the pool.
func (c *Call) Submit() error {
	if err := c.holdLogprobs(c.asked.ofPrompts()); err != nil {
		return err
	}
	return c.Call.Submit()
}

// Close withdraws what is not done.
func (c *Call) Close() {
	c.usage() // for the log, however it ends
	c.closeForms()
	c.Call.Close()
}

// Wait waits for all results.
func (c *Call) Wait(ctx context.Context) error {
	for !c.Done() {
		if _, err := c.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Next waits for results and adds them to their choices. Of a stream it returns which choices have something new; the
// list is good until the next call.
func (c *Call) Next(ctx context.Context) ([]int, error) {
	c.fresh = c.fresh[:0]
	if err := c.Call.Next(ctx, c.acceptResult); err != nil {
		return nil, err
	}
	return c.fresh, nil
}

// acceptResult adds a Result of a job, and those that are known with it.
func (c *Call) acceptResult(d client.Delivery) error {
	results, err := c.knownResults(d)
	if err != nil {
		return err
	}
	for _, d.Result = range results {
		if err := c.addResult(d); err != nil {
			return err
		}
	}
	c.continueJob(d.Index)
	return nil
}

// addResult adds a Result to the choices that its job is of, which are all the same.
func (c *Call) addResult(d client.Delivery) error {
	n := c.N / c.perPrompt
	choices := c.choices[d.Index*n : (d.Index+1)*n]
	first := &choices[0]
	if first.isDone() {
		return nil // a stop string ended it; this Result was under way
	}
	c.Record.Note(d, first.last.IsZero())
	for i := range choices {
		if err := c.addToChoice(d.Index*n+i, d); err != nil {
			return err
		}
	}
	switch {
	case !first.isDone():
	case d.Result.Finish == engine.FinishNone || c.guided != nil: // the pool expects more of the job
		c.Withdraw(d.Index)
	default:
		c.EndJob()
	}
	if c.Done() {
		c.Record.Finish = c.choices[0].finish
	}
	if answer := d.Result.Output.(*engine.TokenOutput).Answer; answer != nil {
		return c.holdLogprobs(int64(len(answer.Top) + len(answer.Labels)))
	}
	return nil
}

// addToChoice adds a Result to choice i.
func (c *Call) addToChoice(i int, d client.Delivery) error {
	ch := &c.choices[i]
	if !ch.last.IsZero() && c.between != nil {
		c.between(d.At.Sub(ch.last))
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
	t := c.Record.Tokens
	u := &api.Usage{PromptTokens: t.Prompt, Details: &api.PromptTokensDetails{}}
	for i := range c.choices {
		u.CompletionTokens += len(c.choices[i].answers)
		if i%c.N == 0 {
			u.Details.CachedTokens += c.choices[i].cached
		}
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	t.Cached, t.Completion = u.Details.CachedTokens, u.CompletionTokens
	return u
}
