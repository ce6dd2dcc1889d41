package expiry

import "time"

// Unstarted is the jobs that have not been started: how many there are, and when they are dropped.
type Unstarted struct {
	queued   [2]Queued // those of the lowest priority apart
	expiries Queue
}

// Queued is how many jobs there are, and tokens of their prompts.
type Queued struct{ Jobs, Tokens int }

// Queued is the jobs that wait with one that is of the lowest priority, or not, and against which it is admitted.
func (u *Unstarted) Queued(lowest bool) *Queued {
	if lowest {
		return &u.queued[1]
	}
	return &u.queued[0]
}

// Add takes in a job, which is dropped at its deadline; 0: it has none.
func (u *Unstarted) Add(e *Entry, deadline time.Duration) {
	u.count(e, 1)
	if deadline > 0 {
		u.Expire(e, deadline)
	}
}

// Remove forgets a job that has been started or dropped.
func (u *Unstarted) Remove(e *Entry) {
	u.count(e, -1)
	u.expiries.Forget(e)
}

func (u *Unstarted) count(e *Entry, jobs int) {
	q := u.Queued(e.Lowest)
	q.Jobs += jobs
	q.Tokens += jobs * e.Tokens
}

// Expire has a job dropped at a time.
func (u *Unstarted) Expire(e *Entry, at time.Duration) { u.expiries.Set(e, max(at, 1)) }

// Expires is the job that is to be dropped next, and when; false if none is.
func (u *Unstarted) Expires() (of any, at time.Duration, ok bool) { return u.expiries.First() }
