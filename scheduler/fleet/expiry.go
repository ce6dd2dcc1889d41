package fleet

import (
	"cmp"
	"container/heap"
	"time"
)

// expiries holds the jobs not started that are dropped at some time, by that, ties by order of submission.
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

// set makes a job expire at a time.
func (h *expiries) set(j *Job, at time.Duration) {
	j.expires = max(at, 1)
	if j.expiry < 0 {
		heap.Push(h, j)
	} else {
		heap.Fix(h, j.expiry)
	}
}

// forget lets a job expire no more.
func (h *expiries) forget(j *Job) {
	if j.expiry >= 0 {
		heap.Remove(h, j.expiry)
	}
}

// Expired returns a job that is to be dropped by now; nil if there is none.
func (f *Fleet) Expired() *Job {
	if len(f.expiries) > 0 && f.expiries[0].expires <= f.Now {
		return f.expiries[0]
	}
	return nil
}
