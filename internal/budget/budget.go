// Package budget counts what open requests hold in memory, against what all of them may.
package budget

import "sync/atomic"

// Budget bounds what is held at a time. Its methods are safe for concurrent use.
type Budget struct {
	limit int64 // set once
	held  atomic.Int64
}

// New makes a Budget of limit.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Limit is what may be held.
func (b *Budget) Limit() int64 { return b.limit }

// Hold counts n that are to come, if there is room for them. Others are what is held beside them.
func (b *Budget) Hold(n int64) (others int64, ok bool) {
	held := b.held.Add(n)
	if n > 0 && held > b.limit {
		b.held.Add(-n)
		return held - n, false
	}
	return held - n, true
}

// Add counts n that came without being held before, and returns n.
func (b *Budget) Add(n int) int64 {
	b.held.Add(int64(n))
	return int64(n)
}

// Release gives n back.
func (b *Budget) Release(n int64) { b.held.Add(-n) }
