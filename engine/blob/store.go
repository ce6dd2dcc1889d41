package blob

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/internal/budget"
)

// keepFor is how long memory that no blob needs is kept for the next.
const keepFor = 10 * time.Second

// Config says how much a Store holds, for how long, and how it is reached.
type Config struct {
	// Limit is how many bytes of memory blobs may take, with what is kept for reuse; a blob takes at most an
	// eighth, or 4 kB, more than its size.
	Limit int64
	// Hold is how long a blob is kept that nobody has released; with it readers may release, too. 0: for ever,
	// and by Release of the Store alone.
	Hold time.Duration
	// Dir is a directory that the readers have, too, when all of them are on this host. It is made when it is
	// missing, and only processes of this user read what is found by it.
	Dir string
	// Listen is the address of TCP to serve readers on, without Dir, and Address how they reach it: "", as it is.
	Listen, Address string
}

// Store keeps the blobs of this process. Its methods are safe for concurrent use.
type Store struct {
	// set once
	cfg    Config
	place  place
	server *server

	mu     sync.Mutex
	shares *budget.Budget  // of Config.Limit, in bytes of slots that blobs are in
	arena  *arena          // guarded by mu
	held   map[int64]*slot // guarded by mu; by offset
	timer  *time.Timer     // guarded by mu; set while something is to be dropped later
	closed bool            // guarded by mu
	puts   sync.WaitGroup  // that copy
}

// NewStore opens a Store. The caller closes it.
func NewStore(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, held: map[int64]*slot{}, shares: budget.New(cfg.Limit)}
	var err error
	if s.arena, err = newArena(cfg.Limit); err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	if cfg.Dir != "" {
		s.server, err = s.serveHost(cfg.Dir)
	} else {
		s.server, err = s.serveNet(cfg.Listen, cfg.Address)
	}
	if err != nil {
		s.arena.close()
		return nil, fmt.Errorf("blob: %w", err)
	}
	return s, nil
}

// Put keeps a copy of data and returns its name. Its errors are ErrFull, with the figures, net.ErrClosed after
// Close, and that the machine has no memory.
func (s *Store) Put(data []byte) (string, error) { return s.PutFor("", data) }

// PutFor is Put of the share of a holder; an ErrFull is a *budget.Full, too.
func (s *Store) PutFor(holder string, data []byte) (string, error) {
	to, err := s.takeSlot(holder, len(data))
	if err != nil {
		return "", fmt.Errorf("blob: put %d bytes: %w", len(data), err)
	}
	defer s.puts.Done()
	copy(to.memory[headerBytes:], data)
	h := header{Size: uint64(len(data))}
	_, _ = rand.Read(h.Secret[:])
	to.writeHeader(h)
	s.holdSlot(to)
	return name{s.place, to.offset, h.Secret}.String(), nil
}

// takeSlot gives out a slot for n bytes, to copy to.
func (s *Store) takeSlot(holder string, n int) (*slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	bytes := int64(slotBytes(n))
	if full := s.shares.Hold(holder, bytes); full != nil {
		return nil, fmt.Errorf("%w: %w", ErrFull, full)
	}
	to, err := s.arena.takeSlot(n)
	if err != nil {
		s.shares.Release(holder, bytes)
		return nil, err
	}
	to.holder = holder
	s.puts.Add(1)
	return to, nil
}

// holdSlot lets a blob be found.
func (s *Store) holdSlot(to *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.since = time.Now()
	s.held[to.offset] = to
	if s.cfg.Hold > 0 {
		s.scheduleSweep()
	}
}

// Release drops a blob. Of one that is not there it does nothing.
func (s *Store) Release(text string) {
	if n, err := parseName(text); err == nil && n.place == s.place {
		s.release(n.offset, n.secret)
	}
}

func (s *Store) release(offset int64, id secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.findSlot(offset, id); h != nil {
		s.dropSlot(h, time.Now())
	}
}

// findSlot is the slot of a blob, under mu; nil when that is not held.
func (s *Store) findSlot(offset int64, id secret) *slot {
	if h := s.held[offset]; h != nil && h.header.Secret == id {
		return h
	}
	return nil
}

// dropSlot releases a held slot, under mu.
func (s *Store) dropSlot(h *slot, now time.Time) {
	delete(s.held, h.offset)
	s.shares.Release(h.holder, int64(h.bytes))
	h.writeHeader(header{})
	s.reuseSlot(h, now)
}

// reuseSlot keeps a slot for the next blob, if that in it was released and nobody reads it, under mu.
func (s *Store) reuseSlot(h *slot, now time.Time) {
	if h.pins == 0 && s.held[h.offset] != h {
		s.arena.keepSlot(h, now)
		s.scheduleSweep()
	}
}

// pin lets the caller use a blob's bytes until it calls done, which is nil when the blob is not held.
func (s *Store) pin(offset int64, id secret) (data []byte, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.findSlot(offset, id)
	if h == nil || s.closed {
		return nil, nil
	}
	h.pins++
	return h.data(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.pins--
		s.reuseSlot(h, time.Now())
	}
}

// scheduleSweep lets sweep run some time from now, under mu.
func (s *Store) scheduleSweep() {
	if s.timer != nil || s.closed {
		return
	}
	s.timer = time.AfterFunc(cmp.Or(s.cfg.Hold/4, keepFor), func() { // Close stops it
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timer = nil
		s.sweepExpired(time.Now())
	})
}

// sweepExpired drops what has been held, or kept, for too long, under mu.
func (s *Store) sweepExpired(now time.Time) {
	if s.closed {
		return
	}
	for _, h := range s.held {
		if s.cfg.Hold > 0 && now.Sub(h.since) >= s.cfg.Hold {
			s.dropSlot(h, now)
		}
	}
	for len(s.arena.kept) > 0 && now.Sub(s.arena.kept[0].since) >= keepFor {
		s.arena.dropOldest()
	}
	if len(s.arena.kept) > 0 || s.cfg.Hold > 0 && len(s.held) > 0 {
		s.scheduleSweep()
	}
}

// Close ends the serving of readers and drops all blobs.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	err := s.server.close()
	s.puts.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		s.dropSlot(h, time.Now())
	}
	s.arena.close()
	return err
}
