package live

import (
	"fmt"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// memoryBudget is what all streams may take: decoders by what they say before they begin, and what cameras send as it comes.
type memoryBudget struct {
	limit  int64          // set once
	budget *budget.Budget // of limit, by the keys that declared streams

	mu    sync.Mutex
	freed chan struct{} // guarded by mu; closed when there is more
}

// newMemoryBudget makes one of so many bytes.
func newMemoryBudget(limit int64) *memoryBudget {
	return &memoryBudget{limit: limit, budget: budget.New(limit), freed: make(chan struct{})}
}

// takeBytes counts n bytes of an owner's; an error says that there are not so many left, and what would take them.
func (m *memoryBudget) takeBytes(owner string, n int64, what string) error {
	if full := m.budget.Hold(owner, n); full != nil {
		return engine.Errorf(engine.CodeOverloaded, "%s takes %d MiB of memory, and %d are left of the %d MiB that --video-memory has for the streams of a key now",
			what, ceilMebibytes(n), max(full.Most-full.Own, 0)>>20, full.Most>>20)
	}
	return nil
}

// giveBackBytes counts what was taken no more.
func (m *memoryBudget) giveBackBytes(owner string, n int64) {
	m.budget.Release(owner, n)
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.freed)
	m.freed = make(chan struct{})
}

// more is closed when there is more than now.
func (m *memoryBudget) more() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.freed
}

// Held is what all have.
func (m *memoryBudget) Held() int64 { return m.budget.Held() }

// ceilMebibytes are at least so many bytes.
func ceilMebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// memoryHold is what one thing takes, as it grows, until it is let go.
type memoryHold struct {
	Owner string // set once

	from *memoryBudget // set once

	mu    sync.Mutex
	bytes int64 // guarded by mu
	gone  bool  // guarded by mu
}

// Hold begins one of an owner's, of nothing yet.
func (m *memoryBudget) Hold(owner string) *memoryHold { return &memoryHold{Owner: owner, from: m} }

// Grow takes more; after the end it takes nothing, as whoever asks is about to be told.
func (h *memoryHold) Grow(n int64, what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil
	}
	err := h.from.takeBytes(h.Owner, n, what)
	if err == nil {
		h.bytes += n
	}
	return err
}

// patience is how long a camera waits for memory, most of which is that of what it has sent before.
const patience = 10 * time.Second

// Await grows as soon as there is room, unless there can be none or over is closed before.
func (h *memoryHold) Await(n int64, what string, over <-chan struct{}) error {
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
func (h *memoryHold) Set(n int64, what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil
	}
	if n > h.bytes {
		if err := h.from.takeBytes(h.Owner, n-h.bytes, what); err != nil {
			return err
		}
	} else {
		h.from.giveBackBytes(h.Owner, h.bytes-n)
	}
	h.bytes = n
	return nil
}

// Keep takes n bytes that were taken before, by an earlier process.
func (h *memoryHold) Keep(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from.budget.Release(h.Owner, -n) // whatever the others have
	h.bytes += n
}

// Size is what it takes.
func (h *memoryHold) Size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// End gives all of it back, once.
func (h *memoryHold) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.gone {
		h.gone = true
		h.from.giveBackBytes(h.Owner, h.bytes)
	}
}

// mostWaiting is how many bytes the frames of a source may have that wait for the network, if there are more than leastWaiting.
const (
	mostWaiting  = 64 << 20
	leastWaiting = 2
)

// mayWait says that so many frames of a size may wait.
func mayWait(frames int, bytes int64) bool {
	return frames <= leastWaiting || int64(frames)*bytes <= mostWaiting
}

// sourceMemory is what reading a source takes, its decoder and the frames that wait, are looked at and are shown; and what that is, in words.
func sourceMemory(info *ffmpeg.Info) (n int64, what string) {
	frame, waiting := int64(info.Width)*int64(info.Height)*3/2, leastWaiting
	for waiting < streams.DefaultMost && mayWait(waiting+1, frame) {
		waiting++
	}
	return info.Memory + int64(waiting+3)*frame, fmt.Sprintf("video of %d x %d pixels, with what its decoder (%s) keeps and frames that wait,", info.Width, info.Height, info.Codec)
}
