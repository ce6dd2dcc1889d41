package dispatch

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/expiry"
)

// Unstarted is the jobs that have not been started: how many there are, and when they are dropped.
type Unstarted struct {
	queued   [Classes]Queued
	expiries expiry.Queue
}

// Queued is how many jobs there are, and tokens of their prompts.
type Queued struct{ Jobs, Tokens int }

// QueueOf is the jobs that wait with a job, and against which it is admitted: lowest ones apart from all others.
func (u *Unstarted) QueueOf(m *wire.Submit) *Queued { return &u.queued[ClassOf(m.IsLowest())] }

// add takes in a job, which is dropped at its deadline.
func (u *Unstarted) add(j *Job) {
	u.count(j, 1)
	if j.Deadline > 0 {
		u.expire(j, j.Deadline)
	}
}

// remove forgets a job that has been started or dropped.
func (u *Unstarted) remove(j *Job) {
	u.count(j, -1)
	u.expiries.Forget(&j.expiry)
}

func (u *Unstarted) count(j *Job, jobs int) {
	q := u.QueueOf(j.Submit)
	q.Jobs += jobs
	q.Tokens += jobs * len(j.Asks.IDs)
}

// expire has a job dropped at a time.
func (u *Unstarted) expire(j *Job, at time.Duration) { u.expiries.Set(&j.expiry, max(at, 1)) }

// Expires is when a job is to be dropped next; false if none is.
func (u *Unstarted) Expires() (at time.Duration, ok bool) {
	_, at, ok = u.expiries.First()
	return at, ok
}

// Expired returns a job that is to be dropped by now; nil if there is none.
func (s *Shared) Expired() *Job {
	if of, at, ok := s.expiries.First(); ok && at <= s.Now {
		return of.(*Job)
	}
	return nil
}
