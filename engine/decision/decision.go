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
	"github.com/prefillonly/prefillonly/engine/completion"
)

// Bounds on the prompts of one request, and on the tokens of all of them: each has the whole input.
const (
	maxJobs   = 4096
	maxTokens = 1 << 24
)

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct {
	pool *client.Client // set once
}

// New makes a Service.
func New(pool *client.Client) *Service { return &Service{pool} }

// Call is one request on its way. One goroutine uses it.
type Call struct {
	Record completion.Record

	s         *Service
	from      completion.Origin
	request   *decisions.Request
	questions []question
	jobs      []*client.Job
	results   *client.Results
	open      int // jobs without a result
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

// Prepare renders and tokenizes a request's questions.
func (s *Service) Prepare(ctx context.Context, text *completion.Text, from completion.Origin, request *decisions.Request) (*Call, error) {
	c := &Call{s: s, from: from, request: request, results: client.NewResults()}
	if request.Model == "" {
		request.Model = from.Model
	}
	end, err := c.promptEnding(text)
	if err != nil {
		return nil, err
	}
	tokens := 0
	for i := range request.Questions {
		q, err := c.read(ctx, text, end, &request.Questions[i])
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
func (c *Call) Admit(ctx context.Context) error {
	m, err := c.s.pool.Model(ctx, c.from.Model)
	switch {
	case err != nil:
		return err
	case m.Tokens == nil || m.Tokens.VectorsOnly:
		return api.Invalid("model", "the model `%s` does not speak, so that it cannot name an option; decisions take a language model", c.request.Model)
	}
	for i := range c.questions {
		q := &c.questions[i]
		q.first = len(c.jobs)
		if err := c.admitQuestion(q, m.Tokens.MaxModelLen); err != nil {
			return err
		}
		if len(c.jobs) > maxJobs {
			return api.Invalid("questions", "the model's labels have several tokens, and the questions together more than %d options; ask less at a time", maxJobs)
		}
	}
	c.open = len(c.jobs)
	c.Record.Jobs, c.Record.N, c.Record.MaxTokens = len(c.jobs), 1, 1
	return nil
}

// admitQuestion makes a question's jobs: one that asks for the probabilities of its labels, or one for each label.
func (c *Call) admitQuestion(q *question, limit int) error {
	if !q.hasLongLabels() {
		ask := engine.Ask{Top: 1}
		for _, l := range q.labels {
			ask.Labels = append(ask.Labels, l[0])
		}
		return c.submitJob(q.prompt, &engine.Tokens{Max: 1, Ask: ask}, limit)
	}
	for _, l := range q.labels {
		prompt := append(append([]engine.TokenID(nil), q.prompt...), l...)
		if err := c.submitJob(prompt, &engine.Tokens{Ask: engine.Ask{PromptLogprobs: true, PromptTop: 1, PromptFrom: len(q.prompt)}}, limit); err != nil {
			return err
		}
	}
	return nil
}

func (c *Call) submitJob(prompt []engine.TokenID, work *engine.Tokens, limit int) error {
	work.IDs = prompt
	job, err := c.s.pool.NewJob(engine.Job{
		Model: c.from.Model, User: c.from.User, Salt: c.from.Salt, Priority: c.request.Priority, Deadline: c.from.Deadline, Work: work,
	}, c.from.Arrived, c.results, len(c.jobs))
	var length *client.LengthError
	if errors.As(err, &length) {
		return tooLong("the input and a question have %d tokens together; the model's context holds %d; shorten the input or the question", length.Prompt, limit-length.Generate)
	}
	if err == nil {
		c.jobs = append(c.jobs, job)
		c.Record.PromptTokens += len(prompt)
	}
	return err
}

// Submit gives an admitted call's jobs to the pool. The caller calls Close then, however the call ends.
func (c *Call) Submit() error {
	client.Together(c.jobs)
	if err := c.s.pool.Submit(c.from.Holder, c.jobs); err != nil {
		return err
	}
	return nil
}

// Close withdraws what is not done.
func (c *Call) Close() {
	if c.open > 0 {
		c.s.pool.Cancel(c.jobs...)
	}
}

// Wait waits for all results.
func (c *Call) Wait(ctx context.Context) error {
	var err error
	if c.open, err = c.results.All(ctx, c.open, c.accept); err != nil {
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
	c.Record.Note(d, true)
	out := d.Result.Output.(*engine.TokenOutput)
	c.Record.CachedTokens += out.Cached
	i := 0
	for i+1 < len(c.questions) && c.questions[i+1].first <= d.Index {
		i++
	}
	c.questions[i].accept(out, d.Index-c.questions[i].first)
	c.Record.CompletionTokens = len(c.questions)
	return nil
}

// Answer is that of a call that is done.
func (c *Call) Answer() api.Encoder {
	a := &decisions.Answered{
		ID: c.from.ID, Created: c.from.Arrived.Unix(), Model: c.request.Model, Tokens: c.Record.PromptTokens, Cached: c.Record.CachedTokens,
	}
	for i := range c.questions {
		a.Questions = append(a.Questions, c.questions[i].found)
	}
	return c.request.Answer(a)
}
