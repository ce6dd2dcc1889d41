// Package budget counts what open requests hold of something that all share, so that none who brings requests takes all of it.
package budget

import (
	"fmt"
	"sync"
)

// spare is what part of what the others leave a holder may not have, so that whoever comes later finds room, too.
const spare = 4

// Share is what a holder may have of n that the others leave. The server itself, which is the holder "", may have all.
func Share(holder string, n int64) int64 {
	if holder == "" {
		return n
	}
	return n - n/spare
}

// Budget bounds what holders have at a time. Its methods are safe for concurrent use.
type Budget struct {
	limit int64 // set once

	mu   sync.Mutex
	all  int64            // guarded by mu
	each map[string]int64 // guarded by mu: by holder, of those that have something
}

// New makes a Budget of limit.
func New(limit int64) *Budget { return &Budget{limit: limit, each: map[string]int64{}} }

// Full says why a holder may not have more.
type Full struct {
	Asked, Own, Others int64 // more; what it has; what others have
	Most               int64 // that it may have
	Never              bool  // not without the others either
}

// Error has the figures.
func (f *Full) Error() string {
	if f.Never {
		return fmt.Sprintf("%d are asked for, and one key may have %d", f.Asked, f.Most)
	}
	return fmt.Sprintf("your requests hold %d of the %d that they may beside %d of others, and %d more are asked for", f.Own, f.Most, f.Others, f.Asked)
}

// Hold counts n more that a holder has, which Release takes back, if that is no more than its share. What is not more is always counted.
func (b *Budget) Hold(holder string, n int64) *Full {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.each[holder]
	others := b.all - own
	switch most, ever := max(0, Share(holder, b.limit-others)), Share(holder, b.limit); {
	case n > ever:
		return &Full{Asked: n, Own: own, Others: others, Most: ever, Never: true}
	case n > 0 && own+n > most:
		return &Full{Asked: n, Own: own, Others: others, Most: most}
	}
	b.addHeld(holder, n)
	return nil
}

// Release gives n back.
func (b *Budget) Release(holder string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addHeld(holder, -n)
}

// Held is what all have.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}

// addHeld counts n more; the caller holds mu.
func (b *Budget) addHeld(holder string, n int64) {
	b.all += n
	if b.each[holder] += n; b.each[holder] == 0 {
		delete(b.each, holder)
	}
}
