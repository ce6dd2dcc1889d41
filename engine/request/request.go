// Package request is one request to models of the pool on its way, whichever service answers it: where it came from, its
// jobs, its shares of what open requests may hold, and what is told of it in the end. A service makes jobs when the request
// is admitted, submits them, waits and closes; it may do so again with other jobs, made of what the first ones found. What
// prompts and inputs are, and what becomes of results, is the service's alone.
package request

import (
	"cmp"
	"context"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/budget"
)

// Origin is what is known of a request beside its body.
type Origin struct {
	ID       string // of the answer, behind the API's prefix
	Arrived  time.Time
	Model    string       // the pool's name of the model
	Named    string       // the one by which the request asks for it; empty: Model
	Adapter  string       // of the model's weights; empty: none
	User     string       // key of fairness and routing
	Owner    apikey.Owner // keeps what strangers give the same name apart
	Holder   string       // whose share of what requests may hold it takes; empty: the server's
	Deadline time.Duration
}

// Call is one request on its way. One goroutine uses it. The errors of its methods are an *api.Error of the request, an
// *engine.Error, which may be in a *FieldError, and why a context has ended.
type Call struct {
	Origin
	Record    Record
	Answering time.Duration // about what processors take between the last result and the answer: devices have the deadline less that

	pool      *client.Client
	results   *client.Results
	jobs      []*client.Job
	submitted int // of jobs
	open      int // of those that are submitted, without their last result
	taken     []client.Delivery
	held      []share
	room      [1]share       // of held: most requests have one
	plans     []*client.Plan // of jobs that are not submitted yet
	worked    bool           // a processor has done something for it
}

// share is what a request holds of a budget.
type share struct {
	of *budget.Budget
	n  int64
}

// FieldError is an error of the engine that a field of the request is to blame for.
type FieldError struct {
	Field string
	Err   *engine.Error
}

func (e *FieldError) Error() string { return e.Err.Message }

// Unwrap is the engine's error.
func (e *FieldError) Unwrap() error { return e.Err }

// New makes a Call of models of a pool. Whoever makes it calls Close in the end.
func New(pool *client.Client, from Origin) *Call {
	from.Named = cmp.Or(from.Named, from.Model)
	c := &Call{Origin: from, pool: pool, results: client.NewResults()}
	c.held = c.room[:0]
	return c
}

// KnownTokenLimits is what the model takes, as far as that is known without waiting; nil if it is not.
func (c *Call) KnownTokenLimits() *wire.TokenLimits {
	if m := c.pool.State().Models[c.Model]; m != nil {
		return m.Tokens
	}
	return nil
}

// AdmitTokens waits until it is known what the model takes, and has makeJobs make the request's jobs of tokens.
func (c *Call) AdmitTokens(ctx context.Context, makeJobs func(*wire.TokenLimits) error) error {
	return c.admit(ctx, c.Model, func(m *wire.Served) error {
		if m.Tokens == nil {
			return api.Invalid("model", "the model `%s` takes tensors, not text", c.Named)
		}
		return makeJobs(m.Tokens)
	})
}

// AdmitTensors is AdmitTokens for jobs of tensors, of the request's model or of another one of the pool.
func (c *Call) AdmitTensors(ctx context.Context, model string, makeJobs func(*wire.TensorLimits) error) error {
	return c.admit(ctx, model, func(m *wire.Served) error {
		if m.Tensors == nil {
			return api.Invalid("", "the model %s takes tokens, not tensors; ask it at /v1/completions", c.Named)
		}
		return makeJobs(m.Tensors)
	})
}

func (c *Call) admit(ctx context.Context, model string, makeJobs func(*wire.Served) error) error {
	m, err := c.pool.Model(ctx, model)
	if err != nil {
		return err
	}
	if err := makeJobs(m); err != nil {
		return err
	}
	c.Record.Jobs = len(c.jobs)
	return nil
}

// Jobs is how many jobs were made. Deliveries have the index of theirs.
func (c *Call) Jobs() int { return len(c.jobs) }

// Add makes a job of what the caller says of it, for the request's user and by its deadline. Its errors are those of
// client.NewJob.
func (c *Call) Add(job engine.Job) error {
	if work, ok := job.Work.(*engine.Tokens); ok {
		c.adapt(work)
	}
	job.Model, job.User, job.Deadline = cmp.Or(job.Model, c.Model), c.User, c.Deadline
	return c.appendJob(c.pool.NewJob(job, c.Arrived, c.results, len(c.jobs)))
}

// AddLike makes a job like the i-th one with other work, which is as fit as that one's.
func (c *Call) AddLike(i int, work *engine.Tokens) {
	c.jobs = append(c.jobs, c.pool.Like(c.jobs[i], c.adapt(work), len(c.jobs)))
}

// adapt asks for the request's adapter.
func (c *Call) adapt(work *engine.Tokens) *engine.Tokens {
	work.Ask.Adapter = c.Adapter
	return work
}

// Rework gives the i-th job, which is not submitted yet, other work that is as fit.
func (c *Call) Rework(i int, work *engine.Tokens) {
	c.jobs[i] = c.pool.Like(c.jobs[i], c.adapt(work), i)
}

// AddTensors is Add for a job of tensors, with what the deadline has left. Data is as client.NewTensors takes it, and stays
// as it is until Submit has returned.
func (c *Call) AddTensors(job engine.Job, data [][]byte) error {
	job.Model, job.User = cmp.Or(job.Model, c.Model), c.User
	if c.Deadline > 0 {
		if job.Deadline = time.Until(c.Arrived.Add(c.Deadline - c.Answering)); job.Deadline <= 0 {
			return c.lateError()
		}
	}
	return c.appendJob(c.pool.NewTensors(job, data, time.Now(), c.results, len(c.jobs)))
}

func (c *Call) appendJob(j *client.Job, err error) error {
	if err == nil {
		c.jobs = append(c.jobs, j)
	}
	return err
}

// LimitTime makes a context that the deadline ends, too.
func (c *Call) LimitTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Deadline <= 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, c.Arrived.Add(c.Deadline), c.lateError())
}

func (c *Call) lateError() error {
	return engine.Errorf(engine.CodeDeadline, "the deadline of %v has passed", c.Deadline)
}

// Hold counts n more that the request holds of a budget, each of so many bytes, until Release or Close.
func (c *Call) Hold(of *budget.Budget, n, bytes int64) *budget.Full {
	if full := of.Hold(c.Holder, n); full != nil {
		return full
	}
	c.Record.Memory += n * bytes
	for i := range c.held {
		if c.held[i].of == of {
			c.held[i].n += n
			return nil
		}
	}
	c.held = append(c.held, share{of, n})
	return nil
}

// Release gives back n that the request holds of a budget.
func (c *Call) Release(of *budget.Budget, n int64) {
	of.Release(c.Holder, n)
	for i := range c.held {
		if c.held[i].of == of {
			c.held[i].n -= n
		}
	}
}

// Together makes the jobs, before they are submitted, parts of an answer that waits for all of them.
func (c *Call) Together() { client.Together(c.jobs[c.submitted:]) }

// Submit gives the pool the jobs that were made since the last time: all of them or, with an error, none.
func (c *Call) Submit() error {
	fresh := c.jobs[c.submitted:]
	defer c.endPlans()
	if err := c.pool.Submit(c.Holder, fresh); err != nil {
		return err
	}
	c.submitted, c.open = len(c.jobs), c.open+len(fresh)
	c.Record.Jobs = len(c.jobs)
	return nil
}

// Done says whether all jobs that were submitted are done.
func (c *Call) Done() bool { return c.open == 0 }

// Next waits for results, and hands accept those that have come, of jobs that may have several. It ends at the first that
// failed. Accept calls EndJob or Withdraw when a job is done.
func (c *Call) Next(ctx context.Context, accept func(client.Delivery) error) error {
	var err error
	if c.taken, err = c.results.Next(ctx, c.taken); err != nil {
		return err
	}
	for _, d := range c.taken {
		if d.Result.Err != nil {
			c.Record.noteFailure(d)
			return d.Result.Err
		}
		if err := accept(d); err != nil {
			return err
		}
	}
	if c.open == 0 {
		c.taken = nil // whoever wants the results has them
	}
	return nil
}

// Wait hands accept the results of all open jobs, of which each has one.
func (c *Call) Wait(ctx context.Context, accept func(client.Delivery) error) error {
	for !c.Done() {
		err := c.Next(ctx, func(d client.Delivery) error {
			c.EndJob()
			c.Record.Note(d, true)
			return accept(d)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// EndJob notes that the last result of a job has come.
func (c *Call) EndJob() { c.open-- }

// Withdraw ends the i-th job before its last result.
func (c *Call) Withdraw(i int) {
	c.EndJob()
	c.pool.Cancel(c.jobs[i])
}

// Continue has the i-th job, whose last result has come, go on as client.Next has it.
func (c *Call) Continue(i int, work *engine.Tokens) { c.pool.Next(c.jobs[i], c.adapt(work)) }

// ReleaseAll gives back all that the request holds.
func (c *Call) ReleaseAll() {
	for _, s := range c.held {
		s.of.Release(c.Holder, s.n)
	}
	c.held = nil
}

// Close withdraws what is not done, and gives back what the request holds.
func (c *Call) Close() {
	if c.open > 0 {
		c.pool.Cancel(c.jobs[:c.submitted]...)
	}
	c.open = 0
	c.endPlans()
	c.ReleaseAll()
}
