package exchange

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Config is what exchanges are told of the server.
type Config struct {
	MaxBody     int64            // bytes of a body
	BodyTimeout time.Duration    // in which a body has to come
	Draining    func() bool      // the server ends
	Processors  *processors.Pool // default: this process's
	Log         *zap.Logger
}

// Shared is what the exchanges of a server have in common: the memory that their bodies may take, buffers.
// Its methods are safe for concurrent use.
type Shared struct {
	cfg      Config
	buffers  sync.Pool      // *[]byte, for bodies and answers
	bodies   *budget.Budget // of memory of big request bodies
	released atomic.Int64   // bytes since memory was given back
	unknown  unknown
}

// NewShared makes what exchanges share.
func NewShared(cfg Config) *Shared {
	if cfg.Processors == nil {
		cfg.Processors = processors.Shared()
	}
	s := &Shared{cfg: cfg, bodies: budget.New(bodyBudget * cfg.MaxBody)}
	s.buffers.New = func() any { return new([]byte) }
	return s
}

// Held is how many bytes big bodies take.
func (s *Shared) Held() int64 { return s.bodies.Held() }

// What one request took counts from largeRequest on, and when giveBackAt of that has come together, it is
// given back to the system: the runtime alone may keep it for minutes.
const (
	largeRequest = 8 << 20
	giveBackAt   = 32 << 20
)

// giveBack notes that a request ends which took so much memory.
func (s *Shared) giveBack(bytes int64) {
	if bytes < largeRequest {
		return
	}
	if released := s.released.Add(bytes); released >= giveBackAt && s.released.CompareAndSwap(released, 0) {
		go debug.FreeOSMemory() // ends by itself
	}
}
