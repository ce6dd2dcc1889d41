package dispatch

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Unstarted is the jobs that have not been started: how many there are, and when they are dropped.
type Unstarted struct {
	queued   [Classes]Queued
	expiries expiries
}

// Queued is how many jobs there are, and tokens of their prompts.
type Queued struct{ Jobs, Tokens int }

// QueueOf is the jobs that wait with a job, and against which it is admitted: lowest ones apart from all others.
func (u *Unstarted) QueueOf(m *wire.Submit) *Queued { return &u.queued[ClassOf(m.IsLowest())] }

// add takes in a job, which is dropped at a time unless that is 0.
func (u *Unstarted) add(j *Job, expires time.Duration) {
	u.count(j, 1)
	if expires > 0 {
		u.expire(j, expires)
	}
}

// remove forgets a job that has been started or dropped.
func (u *Unstarted) remove(j *Job) {
	u.count(j, -1)
	if j.expiry >= 0 {
		heap.Remove(&u.expiries, j.expiry)
	}
}

func (u *Unstarted) count(j *Job, jobs int) {
	q := u.QueueOf(j.Submit)
	q.Jobs += jobs
	q.Tokens += jobs * len(j.Asks.IDs)
}

// expire has a job dropped at a time.
func (u *Unstarted) expire(j *Job, at time.Duration) {
	j.expires = max(at, 1)
	if j.expiry < 0 {
		heap.Push(&u.expiries, j)
	} else {
		heap.Fix(&u.expiries, j.expiry)
	}
}

// Expires is when a job is to be dropped next; false if none is.
func (u *Unstarted) Expires() (at time.Duration, ok bool) {
	if len(u.expiries) == 0 {
		return 0, false
	}
	return u.expiries[0].expires, true
}

// Expired returns a job that is to be dropped by now; nil if there is none.
func (s *Shared) Expired() *Job {
	if at, ok := s.Expires(); ok && at <= s.Now {
		return s.expiries[0]
	}
	return nil
}

// expiries are jobs by when they are dropped, ties by order of submission.
type expiries []*Job

func (h expiries) Len() int { return len(h) }
func (h expiries) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(h[a].expires, h[b].expires), cmp.Compare(h[a].Order, h[b].Order)) < 0
}
func (h expiries) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].expiry, h[b].expiry = a, b
}
func (h *expiries) Push(x any) {
	j := x.(*Job)
	j.expiry = len(*h)
	*h = append(*h, j)
}
func (h *expiries) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	j.expiry = -1
	return j
}
