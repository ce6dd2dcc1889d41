package client

import (
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Job is one job of the pool, to be run once.
type Job struct {
	// set once
	submit  wire.Submit // under its first id
	arrived time.Time
	results *Results
	index   int // among the jobs of results

	// guarded by Client.mu
	id   engine.JobID // the present one
	next int          // index of the next token expected
	sent bool         // the present scheduler has it
	gaps int          // times that a Result before the one that came was lost
}

// NewJob makes a job of what submit says, under an id of its own. Its Results come to results, marked with
// index; what it waits counts from arrived on.
func (c *Client) NewJob(submit wire.Submit, arrived time.Time, results *Results, index int) *Job {
	j := &Job{submit: submit, arrived: arrived, results: results, index: index}
	j.submit.Job = c.newID()
	return j
}

func (c *Client) newID() engine.JobID {
	return engine.JobID(c.prefix | c.count.Add(1)&(1<<40-1))
}

// Jobs are how many jobs are open now, and how many were refused since they would have passed MaxJobs.
func (c *Client) Jobs() (open int, refused uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open), c.refused
}

// Submit opens jobs and sends them in their order. Without a scheduler they wait for one. It opens all of
// them or, with an error of engine.CodeOverloaded, none.
func (c *Client) Submit(jobs []*Job) *engine.Error {
	c.mu.Lock()
	if open := len(c.open); open+len(jobs) > c.cfg.MaxJobs {
		c.refused += uint64(len(jobs))
		c.mu.Unlock()
		return engine.Errorf(engine.CodeOverloaded, "%d jobs are open and %d more would pass the limit of %d; come back later", open, len(jobs), c.cfg.MaxJobs)
	}
	connected := c.connected
	for _, j := range jobs {
		j.id, j.sent = j.submit.Job, connected
		c.open[j.id] = j
	}
	c.mu.Unlock()
	if !connected {
		return nil
	}
	for _, j := range jobs {
		c.send(j, &j.submit)
	}
	return nil
}

// send sends a job; if that fails, the job waits for the next Welcome.
func (c *Client) send(j *Job, msg *wire.Submit) {
	if err := c.conn.Send(msg); err != nil {
		c.mu.Lock()
		j.sent = false
		c.mu.Unlock()
		c.log.Warn("a job waits for the scheduler", zap.Stringer("job", msg.Job), zap.Error(err))
	}
}

// Cancel withdraws those of jobs that are still open. No Result of them comes any more.
func (c *Client) Cancel(jobs ...*Job) {
	for _, j := range jobs {
		c.mu.Lock()
		id := j.id
		_, found := c.open[id]
		delete(c.open, id)
		c.mu.Unlock()
		if found {
			c.withdraw(id)
		}
	}
}

func (c *Client) withdraw(id engine.JobID) {
	if err := c.conn.Send(&wire.Cancel{Job: id}); err != nil {
		c.log.Debug("a Cancel was not sent", zap.Stringer("job", id), zap.Error(err))
	}
}

// result passes r on to its job's Results. A job that was submitted again repeats the tokens that its
// owner has; draws are seeded by job, so they are the same and are dropped.
func (c *Client) result(r *wire.Result) {
	final := r.Err != nil || r.Finish != engine.FinishNone
	c.mu.Lock()
	j := c.open[r.Job]
	switch {
	case j == nil:
		c.mu.Unlock()
		if !final {
			c.withdraw(r.Job) // a Submit and a Cancel crossed a restart of the scheduler
		}
		return
	case r.Err == nil && r.Index < j.next:
		c.mu.Unlock()
		return
	case r.Err == nil && r.Index > j.next && j.gaps == maxGaps:
		r = &wire.Result{Job: r.Job, Err: engine.Errorf(engine.CodeInternal, "token %d of job %v came where token %d was due, for the %dth time", r.Index, r.Job, j.next, maxGaps+1)}
		final = true
	case r.Err == nil && r.Index > j.next:
		again := c.rename(j)
		c.mu.Unlock()
		c.log.Warn("a Result was lost; the job is run again", zap.Stringer("job", r.Job), zap.Stringer("as", again.Job))
		c.withdraw(r.Job)
		c.send(j, again)
		return
	}
	j.next++
	if final {
		delete(c.open, r.Job)
	}
	c.mu.Unlock()
	j.results.put(Delivery{j.index, r, time.Now()})
}

// maxGaps bounds how often a job is run again because Results of it were lost.
const maxGaps = 3

// rename gives j another id, under which a scheduler that has answered in part starts afresh. The
// caller holds mu and sends the Submit that is returned.
func (c *Client) rename(j *Job) *wire.Submit {
	delete(c.open, j.id)
	j.id = c.newID()
	j.gaps++
	c.open[j.id] = j
	return j.message(time.Now())
}

// message is the Submit of a job that has waited here. The caller holds mu of the job's client.
func (j *Job) message(now time.Time) *wire.Submit {
	msg := j.submit
	msg.Job, msg.Waited = j.id, now.Sub(j.arrived)
	return &msg
}
