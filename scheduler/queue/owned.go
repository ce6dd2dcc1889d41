package queue

import (
	"iter"

	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// OwnedQueue is a Queue of jobs that are parts of something larger, their owners. What only compares jobs asks none for its owner:
// of thousands of queues each would be one more look into memory.
type OwnedQueue[T any] struct {
	*Queue
	owners []owned[T] // in no order; a job knows its position
}

type owned[T any] struct {
	job   *Job
	owner T
}

// NewOwned makes an empty OwnedQueue; see New.
func NewOwned[T any](p Policy, m *cost.Model, index *kvcache.Index, blockTokens int) *OwnedQueue[T] {
	return &OwnedQueue[T]{Queue: New(p, m, index, blockTokens)}
}

// Push adds an owner's job; see Queue.Push.
func (q *OwnedQueue[T]) Push(j *Job, owner T) {
	q.Queue.Push(j)
	j.owner = len(q.owners)
	q.owners = append(q.owners, owned[T]{j, owner})
}

// Remove takes a job out; see Queue.Remove.
func (q *OwnedQueue[T]) Remove(j *Job) {
	q.Queue.Remove(j)
	last := len(q.owners) - 1
	moved := q.owners[last]
	q.owners[j.owner], moved.job.owner = moved, j.owner
	q.owners[last] = owned[T]{}
	q.owners = q.owners[:last]
}

// OwnerOf is the owner of a waiting job; the zero value for nil.
func (q *OwnedQueue[T]) OwnerOf(j *Job) (owner T) {
	if j == nil {
		return owner
	}
	return q.owners[j.owner].owner
}

// Owners yields the owners of Queue.All.
func (q *OwnedQueue[T]) Owners() iter.Seq[T] {
	return func(yield func(T) bool) {
		for j := range q.All() {
			if !yield(q.OwnerOf(j)) {
				return
			}
		}
	}
}
