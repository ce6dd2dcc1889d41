// Package turns lets a few pieces of work go on at a time, small ones first, and none waits for ever.
package turns

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Turns gives out turns. It is safe for concurrent use.
type Turns struct {
	pace time.Duration

	mu      sync.Mutex
	free    int   // guarded by mu
	waiting queue // guarded by mu
	count   int   // of all that waited, so that equals go in their order; guarded by mu
}

// New makes Turns for n pieces of work at a time. A piece goes before those that are larger by a unit
// of size for every pace that it came later.
func New(n int, pace time.Duration) *Turns { return &Turns{free: n, pace: pace} }

// Take waits for a turn for work of that size, which Give gives back. It fails when ctx ends first.
func (t *Turns) Take(ctx context.Context, size int) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	t.count++
	w := &waiter{due: time.Now().Add(time.Duration(size) * t.pace), order: t.count, turn: make(chan struct{})}
	heap.Push(&t.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	if w.at >= 0 {
		heap.Remove(&t.waiting, w.at)
		t.mu.Unlock()
		return ctx.Err()
	}
	t.mu.Unlock()
	t.Give() // it came at the same time
	return ctx.Err()
}

// Give ends a turn.
func (t *Turns) Give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	close(heap.Pop(&t.waiting).(*waiter).turn)
}

type waiter struct {
	due   time.Time // when it would end, had it begun at once
	order int
	at    int // index in the queue; -1 when it has its turn
	turn  chan struct{}
}

type queue []*waiter

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].order < q[j].order
	}
	return q[i].due.Before(q[j].due)
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

func (q *queue) Push(x any) {
	w := x.(*waiter)
	w.at = len(*q)
	*q = append(*q, w)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	w.at = -1
	return w
}
