// Package client is the client of the pool: it holds every open job until the scheduler's last Result
// for it, submits it again should the scheduler lose it, and knows what the pool says of itself.
package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Conn is the connection to the scheduler. Send does not wait for the scheduler; an error says that
// the message was not taken. Recv returns *wire.Lost when the connection broke. On a new connection
// the last Hello goes first.
type Conn interface {
	Send(msg wire.Message) error
	Recv(ctx context.Context) (wire.Message, error)
}

// Config is how a Client is run. All but Pulse must be set.
type Config struct {
	Name        string        // of this process to the scheduler, kept over restarts
	Model       string        // the executors' name for the model that jobs are for
	MaxJobs     int           // open jobs; what would pass it is refused with engine.CodeOverloaded
	Heartbeat   time.Duration // between two Hellos to the scheduler
	AwayTimeout time.Duration // how long the scheduler may be silent, or the first executor on its way
	Pulse       func()        // called at each heartbeat while neither the connection nor the jobs are held for ever
}

// Client holds every job from its Submit to its last Result, so that a scheduler can die: the
// next one, which says Welcome with another Epoch, gets all open jobs again, and so does the same
// one after a broken connection. A scheduler may therefore see a Submit twice, and takes the second
// as no news. Its methods are safe for concurrent use.
type Client struct {
	// set once
	cfg      Config
	conn     Conn
	log      *zap.Logger
	greeting wire.Hello
	prefix   uint64        // of job ids
	ready    chan struct{} // closed when an executor of the model was first heard of

	count  atomic.Uint64 // job ids drawn
	state  atomic.Pointer[State]
	resets resets

	// guarded by mu
	mu        sync.Mutex
	open      map[engine.JobID]*Job
	epoch     uint64 // of the last scheduler heard of
	connected bool   // it has been heard of since the connection last broke
	refused   uint64 // jobs that would have passed MaxJobs
}

// New makes a Client on a connection to the scheduler. Run has to run for it to hear the scheduler.
func New(cfg Config, conn Conn, log *zap.Logger) *Client {
	var seed [16]byte
	rand.Read(seed[:])
	c := &Client{
		cfg: cfg, conn: conn, log: log,
		greeting: wire.Hello{Role: wire.RoleFrontend, Name: cfg.Name, Epoch: binary.LittleEndian.Uint64(seed[8:])},
		prefix:   binary.LittleEndian.Uint64(seed[:]) << 40,
		ready:    make(chan struct{}),
		open:     map[engine.JobID]*Job{},
	}
	c.state.Store(&State{Heard: time.Now()})
	return c
}
