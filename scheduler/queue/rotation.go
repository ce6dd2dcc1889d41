package queue

import "container/list"

// Rotation holds entries by flow. The flow whose turn it is gives its oldest entry, and goes behind all others
// that have any; a flow that comes, or comes back, begins at the end. So between two entries of one flow
// that has more waiting, every other flow gives at most one. No operation's time grows with what waits. The zero
// value is ready; it is not safe for concurrent use.
type Rotation[F comparable, T any] struct {
	flows map[F]*list.Element // of turns
	turns list.List           // of *flow; the next one is at the front
	size  int
}

type flow[F comparable] struct {
	key     F
	entries list.List // of *Entry, oldest first
}

// Turn is a value's place in a Queue.
type Turn[F comparable, T any] struct {
	value T
	flow  *flow[F]
	at    *list.Element // of flow.entries; nil when it is not waiting
}

// Len is the number of entries.
func (q *Rotation[F, T]) Len() int { return q.size }

// Push adds a value to a flow.
func (q *Rotation[F, T]) Push(key F, value T) *Turn[F, T] {
	if q.flows == nil {
		q.flows = map[F]*list.Element{}
	}
	turn := q.flows[key]
	if turn == nil {
		turn = q.turns.PushBack(&flow[F]{key: key})
		q.flows[key] = turn
	}
	e := &Turn[F, T]{value: value, flow: turn.Value.(*flow[F])}
	e.at = e.flow.entries.PushBack(e)
	q.size++
	return e
}

// First is the value whose turn it is; ok is false when nothing waits.
func (q *Rotation[F, T]) First() (value T, ok bool) {
	front := q.turns.Front()
	if front == nil {
		return value, false
	}
	return front.Value.(*flow[F]).entries.Front().Value.(*Turn[F, T]).value, true
}

// Remove takes an entry out, and with it the turn of its flow if it was that one's. A second Remove does
// nothing.
func (q *Rotation[F, T]) Remove(e *Turn[F, T]) {
	if e.at == nil {
		return
	}
	turn := q.flows[e.flow.key]
	e.flow.entries.Remove(e.at)
	e.at = nil
	q.size--
	switch {
	case e.flow.entries.Len() == 0:
		q.turns.Remove(turn)
		delete(q.flows, e.flow.key)
	case turn == q.turns.Front():
		q.turns.MoveToBack(turn)
	}
}
