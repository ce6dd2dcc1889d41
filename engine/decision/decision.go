// Package decision answers questions about one input by the next token's probabilities: each question is a prompt that ends
// where the model names an option by its label, and all prompts begin with the input, whose keys and values are computed
// once. It knows no HTTP.
package decision

import (
	"context"
	"errors"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Bounds on the prompts of one request, and on the tokens of all of them: each has the whole input.
const (
	maxJobs   = 4096
	maxTokens = 1 << 24
)

// Call is one request on its way. One goroutine uses it.
type Call struct {
	*request.Call

	body      *decisions.Request
	salt      string // of the prefix cache
	questions []question
}

// question is one as the model is asked.
type question struct {
	prompt []engine.TokenID
	labels [][]engine.TokenID // of options; all of one token, unless they are scored whole
	first  int                // its first job
	found  decisions.Found
	mass   []float64 // of each option
	top    float64   // probability of the likeliest token
}

// hasLongLabels says that labels have several tokens, so that each is a prompt's end.
func (q *question) hasLongLabels() bool {
	for _, l := range q.labels {
		if len(l) > 1 {
			return true
		}
	}
	return false
}

// promptTokens are those of the question's prompts.
func (q *question) promptTokens() int {
	if q.hasLongLabels() {
		return len(q.labels) * (len(q.prompt) + 1)
	}
	return len(q.prompt)
}

// Prepare renders and tokenizes a request's questions. Its errors, as those of Call's methods, are those of request.Call.
func Prepare(ctx context.Context, text *text.Text, from *request.Call, body *decisions.Request) (*Call, error) {
	from.Record.Tokens = &request.Tokens{Max: 1, N: 1}
	c := &Call{Call: from, body: body, salt: from.Owner.Salt(body.Salt)}
	end, err := c.promptEnding(text)
	if err != nil {
		return nil, err
	}
	tokens := 0
	for i := range body.Questions {
		q, err := c.read(ctx, text, end, &body.Questions[i])
		if err != nil {
			return nil, err
		}
		c.questions = append(c.questions, q)
		if tokens += q.promptTokens(); tokens > maxTokens {
			return nil, api.Invalid("questions", "the input with each of the questions has more than %d tokens in all; ask less at a time", maxTokens)
		}
	}
	return c, nil
}

// Admit makes the jobs.
func (c *Call) Admit(ctx context.Context) error { return c.AdmitTokens(ctx, c.makeJobs) }

func (c *Call) makeJobs(limits *wire.TokenLimits) error {
	if limits.VectorsOnly {
		return api.Invalid("model", "the model `%s` does not speak, so that it cannot name an option; decisions take a language model", c.Named)
	}
	for i := range c.questions {
		q := &c.questions[i]
		q.first = c.Jobs()
		if err := c.admitQuestion(q, limits.MaxModelLen); err != nil {
			return err
		}
		if c.Jobs() > maxJobs {
			return api.Invalid("questions", "the model's labels have several tokens, and the questions together more than %d options; ask less at a time", maxJobs)
		}
	}
	c.Together()
	return nil
}

// admitQuestion makes a question's jobs: one that asks for the probabilities of its labels, or one for each label.
func (c *Call) admitQuestion(q *question, limit int) error {
	if !q.hasLongLabels() {
		ask := engine.Ask{Top: 1}
		for _, l := range q.labels {
			ask.Labels = append(ask.Labels, l[0])
		}
		return c.addJob(q.prompt, &engine.Tokens{Max: 1, Ask: ask}, limit)
	}
	for _, l := range q.labels {
		prompt := append(append([]engine.TokenID(nil), q.prompt...), l...)
		if err := c.addJob(prompt, &engine.Tokens{Ask: engine.Ask{PromptLogprobs: true, PromptTop: 1, PromptFrom: len(q.prompt)}}, limit); err != nil {
			return err
		}
	}
	return nil
}

func (c *Call) addJob(prompt []engine.TokenID, work *engine.Tokens, limit int) error {
	work.IDs = prompt
	err := c.Add(engine.Job{Work: work, Salt: c.salt, Priority: c.body.Priority})
	var length *client.LengthError
	if errors.As(err, &length) {
		return tooLong("the input and a question have %d tokens together; the model's context holds %d; shorten the input or the question", length.Prompt, limit-length.Generate)
	}
	if err == nil {
		c.Record.Tokens.Prompt += len(prompt)
	}
	return err
}

// Wait waits for all results.
func (c *Call) Wait(ctx context.Context) error {
	if err := c.Call.Wait(ctx, c.accept); err != nil {
		return err
	}
	c.Record.Finish = engine.FinishLength.String()
	for i := range c.questions {
		c.questions[i].conclude()
	}
	return nil
}

// accept takes the result of a job.
func (c *Call) accept(d client.Delivery) error {
	out := d.Result.Output.(*engine.TokenOutput)
	c.Record.Tokens.Cached += out.Cached
	i := 0
	for i+1 < len(c.questions) && c.questions[i+1].first <= d.Index {
		i++
	}
	c.questions[i].accept(out, d.Index-c.questions[i].first)
	c.Record.Tokens.Completion = len(c.questions)
	return nil
}

// Answer is that of a call that is done.
func (c *Call) Answer() api.Encoder {
	a := &decisions.Answered{
		ID: c.ID, Created: c.Arrived.Unix(), Model: c.Named, Tokens: c.Record.Tokens.Prompt, Cached: c.Record.Tokens.Cached,
	}
	for i := range c.questions {
		a.Questions = append(a.Questions, c.questions[i].found)
	}
	return c.body.Answer(a)
}
