// Package memory says what memory video takes before it takes it, and counts it against what all streams may have, of which each key has a share.
package memory

import (
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/budget"
)

// Memory is what all streams may take: decoders by what they say before they begin, and what cameras send as it comes.
type Memory struct {
	limit  int64          // set once
	budget *budget.Budget // of limit, by the keys that declared streams

	mu    sync.Mutex
	freed chan struct{} // guarded by mu; closed when there is more
}

// New makes a Memory of so many bytes.
func New(limit int64) *Memory {
	return &Memory{limit: limit, budget: budget.New(limit), freed: make(chan struct{})}
}

// take counts n bytes of an owner's; an error says that there are not so many left, and what would take them.
func (m *Memory) take(owner string, n int64, what string) error {
	if full := m.budget.Hold(owner, n); full != nil {
		return engine.Errorf(engine.CodeOverloaded, "%s takes %d MiB of memory, and %d are left of the %d MiB that --video-memory has for the streams of a key now",
			what, mebibytes(n), max(full.Most-full.Own, 0)>>20, full.Most>>20)
	}
	return nil
}

// give counts what was taken no more.
func (m *Memory) give(owner string, n int64) {
	m.budget.Release(owner, n)
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.freed)
	m.freed = make(chan struct{})
}

// more is closed when there is more than now.
func (m *Memory) more() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.freed
}

// Held is what all have.
func (m *Memory) Held() int64 { return m.budget.Held() }

// mebibytes are at least so many bytes.
func mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// Hold is what one thing takes, as it grows, until it is let go.
type Hold struct {
	Owner string // set once

	from *Memory // set once

	mu    sync.Mutex
	bytes int64 // guarded by mu
	gone  bool  // guarded by mu
}

// Hold begins one of an owner's, of nothing yet.
func (m *Memory) Hold(owner string) *Hold { return &Hold{Owner: owner, from: m} }

// Grow takes more; after the end it takes nothing, as whoever asks is about to be told.
func (h *Hold) Grow(n int64, what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil
	}
	err := h.from.take(h.Owner, n, what)
	if err == nil {
		h.bytes += n
	}
	return err
}

// patience is how long a camera waits for memory, most of which is that of what it has sent before.
const patience = 10 * time.Second

// Await grows as soon as there is room, unless there can be none or over is closed before.
func (h *Hold) Await(n int64, what string, over <-chan struct{}) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		more := h.from.more()
		err := h.Grow(n, what)
		if err == nil || n > budget.Share(h.Owner, h.from.limit) {
			return err
		}
		select {
		case <-more:
		case <-late.C:
			return err
		case <-over:
			return err
		}
	}
}

// Set takes as much as is needed in all, or gives back what is not.
func (h *Hold) Set(n int64, what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil
	}
	if n > h.bytes {
		if err := h.from.take(h.Owner, n-h.bytes, what); err != nil {
			return err
		}
	} else {
		h.from.give(h.Owner, h.bytes-n)
	}
	h.bytes = n
	return nil
}

// Keep takes n bytes that were taken before, by an earlier process.
func (h *Hold) Keep(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from.budget.Release(h.Owner, -n) // whatever the others have
	h.bytes += n
}

// Size is what it takes.
func (h *Hold) Size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// End gives all of it back, once.
func (h *Hold) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.gone {
		h.gone = true
		h.from.give(h.Owner, h.bytes)
	}
}
