package mq

import (
	"context"
	"sync"
)

// inbox is an unbounded queue. It needs no bound of its own: what is in flight is bounded by the
// frontend's admission.
type inbox[T any] struct {
	mu     sync.Mutex
	items  []T  // guarded by mu
	closed bool // guarded by mu

	ready chan struct{} // holds a token while there is something to see
}

func newInbox[T any]() *inbox[T] { return &inbox[T]{ready: make(chan struct{}, 1)} }

func (q *inbox[T]) push(item T) {
	q.mu.Lock()
	if !q.closed {
		q.items = append(q.items, item)
	}
	q.mu.Unlock()
	q.wakeReceiver()
}

func (q *inbox[T]) wakeReceiver() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *inbox[T]) tryPop() (item T, ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.items) == 0 {
		return item, false, q.closed
	}
	var zero T
	item, q.items[0] = q.items[0], zero
	q.items = q.items[1:]
	if len(q.items) > 0 {
		q.wakeReceiver()
	}
	return item, true, false
}

func (q *inbox[T]) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) == 0
}

// receiveItem pops an item that look, called with s.mu held, takes from s.
func receiveItem[T any](ctx context.Context, s *socket, q *inbox[T], look func() bool) (T, error) {
	for {
		item, ok, closed := q.tryPop()
		if closed {
			return item, ErrClosed
		}
		if ok {
			return item, nil
		}
		err := s.awaitFound(ctx, func() bool {
			for q.empty() && look() {
			}
			return !q.empty()
		})
		if err != nil {
			return item, err
		}
	}
}

func (q *inbox[T]) close() {
	q.mu.Lock()
	q.closed, q.items = true, nil
	q.mu.Unlock()
	q.wakeReceiver()
}
