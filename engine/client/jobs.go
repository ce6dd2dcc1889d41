package client

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/budget"
)

// Job is one job of the pool, to be run once.
type Job struct {
	// set once, but for the Work and the Deadline of an open job, which are guarded by Client.mu while it is in the pool
	submit wire.Submit // under its first id

	// set once
	arrived time.Time
	results *Results
	index   int           // among the jobs of results
	holder  string        // whose share of Config.MaxJobs it takes; set in Submit, before it is open
	tensors *tensors      // nil of one that brings none
	cost    time.Duration // of a device; 0 of one that brings no tensors

	// guarded by Client.mu
	id    engine.JobID // the present one
	next  int          // index of the next token expected
	begun time.Time    // when it was opened
	sent  bool         // the present scheduler has it
	gaps  int          // times that a Result before the one that came was lost
}

// NewJob makes a job, under an id of its own, that its model can take: whose limits are known, as after Model.
// Its Results come to results, marked with index; what it waits counts from arrived on. Its errors are those of
// a job that does not fit its model: *TokenError, *LengthError, or an *engine.Error.
func (c *Client) NewJob(job engine.Job, arrived time.Time, results *Results, index int) (*Job, error) {
	if err := c.check(&job); err != nil {
		return nil, err
	}
	return c.newJob(job, arrived, results, index), nil
}

func (c *Client) newJob(job engine.Job, arrived time.Time, results *Results, index int) *Job {
	job.ID = c.newID()
	if c.cfg.Lowest {
		job.Priority = engine.Lowest
	}
	j := &Job{submit: wire.Submit{Job: job}, arrived: arrived, results: results, index: index}
	if work, ok := job.Work.(*engine.Tokens); ok {
		j.next = work.Generated
	}
	return j
}

// Like makes a job with other work after one whose work was found fit, as this must be.
func (c *Client) Like(j *Job, work *engine.Tokens, index int) *Job {
	job := j.submit.Job
	job.Work = work
	return c.newJob(job, j.arrived, j.results, index)
}

// Together makes jobs, before they are submitted, parts of one request whose answer waits for all of them.
func Together(jobs []*Job) {
	for _, j := range jobs {
		j.submit.Request = jobs[0].submit.ID
	}
}

// Next has an open job go on, whose last Result has come: with work whose IDs are those before, the token that was answered,
// and what is to follow that. Of work's Ask only Allowed may be another; neither it nor its lists are changed any more.
// The scheduler is sent what is new. The Deadline was for the first token.
func (c *Client) Next(j *Job, work *engine.Tokens) {
	c.mu.Lock()
	if c.open[j.id] != j {
		c.mu.Unlock()
		return
	}
	has := len(j.submit.Work.(*engine.Tokens).IDs) + 1
	j.submit.Work, j.submit.Deadline, j.next = work, 0, work.Generated
	msg := &wire.Next{Job: j.id, Generated: work.Generated, Tokens: work.IDs[has:], Allowed: work.Ask.Allowed, Open: work.Open}
	connected := c.connected
	c.mu.Unlock()
	if connected {
		c.sendJob(j, msg)
	}
}

func (c *Client) newID() engine.JobID {
	return engine.JobID(c.prefix | c.count.Add(1)&(1<<40-1))
}

// Jobs are how many jobs are open now, and how many were refused since their holder would have passed its share of MaxJobs.
func (c *Client) Jobs() (open int, refused uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open), c.refused
}

// JobsOf is how many jobs of a model are open now.
func (c *Client) JobsOf(model string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.openOf[model]
}

// Submit opens jobs, of the share of a holder, and sends them in their order. Without a scheduler they wait for one. It opens all of
// them or, with an error of engine.CodeOverloaded, none; what no holder may ever have is engine.CodeBadTokens.
func (c *Client) Submit(holder string, jobs []*Job) *engine.Error {
	if full := c.jobs.Hold(holder, int64(len(jobs))); full != nil {
		c.mu.Lock()
		c.refused += uint64(len(jobs))
		c.mu.Unlock()
		return noRoom("jobs are open", full)
	}
	if err := c.keepTensors(holder, jobs); err != nil {
		c.jobs.Release(holder, int64(len(jobs)))
		return err
	}
	c.mu.Lock()
	for _, j := range jobs {
		j.holder = holder
	}
	connected := c.begin(jobs...)
	c.mu.Unlock()
	if !connected {
		return nil
	}
	for _, j := range jobs {
		c.sendJob(j, &j.submit)
	}
	return nil
}

// begin opens jobs, and says whether they can be sent; the caller holds mu.
func (c *Client) begin(jobs ...*Job) (connected bool) {
	now := time.Now()
	for _, j := range jobs {
		j.id, j.begun, j.sent = j.submit.ID, now, c.connected
		if j.tensors != nil {
			j.tensors.data = nil // it is the caller's again
		}
		c.open[j.id] = j
		c.openOf[j.submit.Model]++
		if j.cost > 0 {
			c.backlogOf(j.submit.Model).asked += j.cost
		}
	}
	return c.connected
}

// forgetJob forgets an open job; the caller holds mu.
func (c *Client) forgetJob(j *Job) {
	delete(c.open, j.id)
	if c.openOf[j.submit.Model]--; c.openOf[j.submit.Model] == 0 {
		delete(c.openOf, j.submit.Model)
	}
	if j.cost > 0 {
		c.backlogOf(j.submit.Model).asked -= j.cost
	}
	c.jobs.Release(j.holder, 1)
	c.letGo(j)
}

// noRoom refuses what there is no room for now, or what a holder may never have.
func noRoom(what string, err error) *engine.Error {
	if full := (*budget.Full)(nil); errors.As(err, &full) && full.Never {
		return engine.Errorf(engine.CodeBadTokens, "%s: %v; send less at a time", what, err)
	}
	return engine.Errorf(engine.CodeOverloaded, "%s: %v; come back later", what, err)
}

// sendJob sends a job, or what is new of it; if that fails, the job waits for the next Welcome.
func (c *Client) sendJob(j *Job, msg wire.Message) {
	if err := c.conn.Send(msg); err != nil {
		c.mu.Lock()
		j.sent = false
		id := j.id
		c.mu.Unlock()
		c.log.Warn("a job waits for the scheduler", zap.Stringer("job", id), zap.Error(err))
	}
}

// Cancel withdraws those of jobs that are still open. No Result of them comes any more.
func (c *Client) Cancel(jobs ...*Job) {
	for _, j := range jobs {
		c.mu.Lock()
		id := j.id
		_, found := c.open[id]
		if found {
			c.forgetJob(j)
		}
		c.mu.Unlock()
		if found {
			c.cancelJob(id)
		}
	}
}

// Abandon ends all open jobs of a model with an error, of which their Results are told.
func (c *Client) Abandon(model string, why *engine.Error) {
	c.mu.Lock()
	var ended []*Job
	for _, j := range c.open {
		if j.submit.Model == model {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(ended, func(a, b *Job) int { return cmp.Compare(a.id, b.id) })
	deliveries := make([]Delivery, len(ended))
	for i, j := range ended {
		c.forgetJob(j)
		deliveries[i] = j.delivery(&wire.Result{Job: j.id, Err: why}, nil)
	}
	c.mu.Unlock()
	for i, j := range ended {
		c.cancelJob(j.id)
		j.results.putDelivery(deliveries[i])
	}
}

// delivery is what a job's owner gets. The caller holds mu of the job's client, unless the job is of tensors.
func (j *Job) delivery(r *wire.Result, outputs [][]byte) Delivery {
	return Delivery{Index: j.index, Result: r, Units: j.submit.Work.Units(), Submitted: j.begun, Outputs: outputs, At: time.Now()}
}

func (c *Client) cancelJob(id engine.JobID) {
	if err := c.conn.Send(&wire.Cancel{Job: id}); err != nil {
		c.log.Debug("a Cancel was not sent", zap.Stringer("job", id), zap.Error(err))
	}
}

// deliverResult passes r on to its job's Results. A job that was submitted again repeats the outputs that its
// owner has; draws are seeded by job, so they are the same and are dropped.
func (c *Client) deliverResult(r *wire.Result) {
	out, whole := r.Output.(*engine.TensorOutput)
	final := whole || r.Err != nil || r.Finish != engine.FinishNone
	c.mu.Lock()
	j := c.open[r.Job]
	if j == nil {
		c.mu.Unlock()
		if !final {
			c.cancelJob(r.Job) // a Submit and a Cancel crossed a restart of the scheduler
		}
		return
	}
	if whole && r.Err == nil && c.cfg.Outputs != nil {
		c.mu.Unlock()
		c.fetches.Go(func() { c.fetchOutputs(j, r, out) }) // Run waits for it
		return
	}
	index := indexOf(r, j.next)
	switch {
	case index < j.next:
		c.mu.Unlock()
		return
	case index > j.next && j.gaps == maxGaps:
		r = &wire.Result{Job: r.Job, Err: engine.Errorf(engine.CodeInternal, "token %d of job %v came where token %d was due, for the %dth time", index, r.Job, j.next, maxGaps+1)}
		final = true
	case index > j.next:
		again := c.renameJob(j)
		c.mu.Unlock()
		c.log.Warn("a Result was lost; the job is run again", zap.Stringer("job", r.Job), zap.Stringer("as", again.ID))
		c.cancelJob(r.Job)
		c.sendJob(j, again)
		return
	}
	j.next++
	if final {
		c.notePace(j, r)
		c.forgetJob(j)
	}
	d := j.delivery(r, nil)
	c.mu.Unlock()
	j.results.putDelivery(d)
}

// indexOf is the place of a Result among its job's; of one without a place of its own it is due.
func indexOf(r *wire.Result, due int) int {
	if out, ok := r.Output.(*engine.TokenOutput); ok && r.Err == nil {
		return out.Index
	}
	return due
}

// maxGaps bounds how often a job is run again because Results of it were lost.
const maxGaps = 3

// renameJob gives j another id, under which a scheduler that has answered in part starts afresh. The
// caller holds mu and sends the Submit that is returned.
func (c *Client) renameJob(j *Job) *wire.Submit {
	delete(c.open, j.id)
	j.id = c.newID()
	j.gaps++
	c.open[j.id] = j
	return j.newSubmit(time.Now())
}

// newSubmit is the Submit of a job that has waited here. The caller holds mu of the job's client.
func (j *Job) newSubmit(now time.Time) *wire.Submit {
	msg := j.submit
	msg.ID, msg.Waited = j.id, now.Sub(j.arrived)
	return &msg
}
