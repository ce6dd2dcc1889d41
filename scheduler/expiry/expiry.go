// Package expiry keeps what is dropped when its time comes, and says what that is next.
package expiry

import (
	"cmp"
	"container/heap"
	"time"
)

// Entry is something's place in a Queue; it has one place at most.
type Entry struct {
	Of     any    // what is dropped
	Order  uint64 // breaks ties
	Lowest bool   // what Unstarted counts it for
	Tokens int    // likewise

	at    time.Duration
	place int // position in the heap, from 1 on; 0: not there
}

// Queue holds entries by when they expire.
type Queue struct{ entries entries }

// Set has an entry expire at a time, and no more at one set before.
func (q *Queue) Set(e *Entry, at time.Duration) {
	e.at = at
	if e.place == 0 {
		heap.Push(&q.entries, e)
	} else {
		heap.Fix(&q.entries, e.place-1)
	}
}

// Forget lets an entry expire no more.
func (q *Queue) Forget(e *Entry) {
	if e.place > 0 {
		heap.Remove(&q.entries, e.place-1)
	}
}

// First is what expires next, and when; ok is false if nothing does.
func (q *Queue) First() (of any, at time.Duration, ok bool) {
	if len(q.entries) == 0 {
		return nil, 0, false
	}
	return q.entries[0].Of, q.entries[0].at, true
}

// entries implements heap.Interface.
type entries []*Entry

func (h entries) Len() int { return len(h) }
func (h entries) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(h[a].at, h[b].at), cmp.Compare(h[a].Order, h[b].Order)) < 0
}
func (h entries) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].place, h[b].place = a+1, b+1
}
func (h *entries) Push(x any) {
	*h = append(*h, x.(*Entry))
	x.(*Entry).place = len(*h)
}
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.place = 0
	return e
}
