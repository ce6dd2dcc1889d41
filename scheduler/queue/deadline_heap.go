package queue

import "time"

// Expiry is a job's place in a DeadlineHeap; it has one place at most.
type Expiry[T any] struct {
	Job    T      // what is dropped
	Order  uint64 // breaks ties
	Lowest bool   // what Unstarted counts it for
	Tokens int    // likewise

	at    time.Duration
	place int // position in the heap, from 1 on; 0: not there
}

// DeadlineHeap holds entries by when they expire.
type DeadlineHeap[T any] struct{ entries minHeap[*Expiry[T]] }

// SetExpiry has an entry expire at a time, and no more at one set before.
func (q *DeadlineHeap[T]) SetExpiry(e *Expiry[T], at time.Duration) {
	e.at = at
	if e.place == 0 {
		q.entries.push(e)
	} else {
		q.entries.fix(e.place - 1)
	}
}

// ForgetExpiry lets an entry expire no more.
func (q *DeadlineHeap[T]) ForgetExpiry(e *Expiry[T]) {
	if e.place > 0 {
		q.entries.remove(e.place - 1)
		e.place = 0
	}
}

// FirstExpiry is what expires next, and when; ok is false if nothing does.
func (q *DeadlineHeap[T]) FirstExpiry() (job T, at time.Duration, ok bool) {
	if len(q.entries) == 0 {
		return job, 0, false
	}
	return q.entries[0].Job, q.entries[0].at, true
}

// Unstarted is the jobs that have not been started: how many there are, and when they are dropped.
type Unstarted[T any] struct {
	queued   [2]Queued // those of the lowest priority apart
	expiries DeadlineHeap[T]
}

// Queued is how many jobs there are, and tokens of their prompts.
type Queued struct{ Jobs, Tokens int }

// Queued is the jobs that wait with one that is of the lowest priority, or not, and against which it is admitted.
func (u *Unstarted[T]) Queued(lowest bool) *Queued {
	if lowest {
		return &u.queued[1]
	}
	return &u.queued[0]
}

// AddUnstarted takes in a job, which is dropped at its deadline; 0: it has none.
func (u *Unstarted[T]) AddUnstarted(e *Expiry[T], deadline time.Duration) {
	u.countUnstarted(e, 1)
	if deadline > 0 {
		u.ExpireAt(e, deadline)
	}
}

// RemoveUnstarted forgets a job that has been started or dropped.
func (u *Unstarted[T]) RemoveUnstarted(e *Expiry[T]) {
	u.countUnstarted(e, -1)
	u.expiries.ForgetExpiry(e)
}

func (u *Unstarted[T]) countUnstarted(e *Expiry[T], jobs int) {
	q := u.Queued(e.Lowest)
	q.Jobs += jobs
	q.Tokens += jobs * e.Tokens
}

// ExpireAt has a job dropped at a time.
func (u *Unstarted[T]) ExpireAt(e *Expiry[T], at time.Duration) { u.expiries.SetExpiry(e, max(at, 1)) }

// FirstExpiry is the job that is to be dropped next, and when; false if none is.
func (u *Unstarted[T]) FirstExpiry() (job T, at time.Duration, ok bool) {
	return u.expiries.FirstExpiry()
}

func (e *Expiry[T]) before(other *Expiry[T]) bool {
	return e.at < other.at || e.at == other.at && e.Order < other.Order
}

func (e *Expiry[T]) moved(to int) { e.place = to + 1 }
