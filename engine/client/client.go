// Package client is the client of the pool: it holds every open job until the scheduler's last Result
// for it, submits it again should the scheduler lose it, and knows what the pool says of its models.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/budget"
)

// Conn is the connection to the scheduler. Send does not wait for the scheduler; an error says that
// the message was not taken. Recv returns *wire.Lost when the connection broke. On a new connection
// the last Hello goes first.
type Conn interface {
	Send(msg wire.Message) error
	Recv(ctx context.Context) (wire.Message, error)
}

// Config is how a Client is run. The zero value of a field means its default.
type Config struct {
	Name        string        // of this process to the scheduler, kept over restarts; default "client"
	MaxJobs     int           // open jobs; what would pass a holder's share is refused with engine.CodeOverloaded; default 65536
	Heartbeat   time.Duration // between two Hellos to the scheduler; default 1 s
	AwayTimeout time.Duration // how long the scheduler may be silent, or a model's first executor on its way; default 60 s
	Pulse       func()        // called at each heartbeat while neither the connection nor the jobs are held for ever; may be nil
	Lowest      bool          // all jobs have the Priority engine.Lowest, whatever they ask for
	// Inputs and Outputs pass the bytes of tensors to executors and back. Without Inputs there are no jobs of
	// NewTensors, and without Outputs a Delivery names what it does not bring.
	Inputs  Inputs
	Outputs Outputs
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "client")
	c.MaxJobs = cmp.Or(c.MaxJobs, 65536)
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	c.AwayTimeout = cmp.Or(c.AwayTimeout, 60*time.Second)
	return c
}

// Client holds every job from its Submit to its last Result, so that a scheduler can die: the
// next one, which says Welcome with another Epoch, gets all open jobs again, and so does the same
// one after a broken connection. A scheduler may therefore see a Submit twice, and takes the second
// as no news. One Client serves all that brings jobs in a process. Its methods are safe for concurrent use.
type Client struct {
	// set once
	cfg    Config
	conn   Conn
	log    *zap.Logger
	jobs   *budget.Budget // of Config.MaxJobs
	epoch  uint64         // of this client
	prefix uint64         // of job ids

	count    atomic.Uint64 // job ids drawn
	state    atomic.Pointer[State]
	resets   calls[*wire.ResetDone]
	settings calls[*wire.ModelSet]
	fetches  sync.WaitGroup // of outputs

	// guarded by mu
	mu        sync.Mutex
	open      map[engine.JobID]*Job
	openOf    map[string]int      // jobs by model
	backlogs  map[string]*backlog // by model, of jobs of tensors
	scheduler uint64              // Epoch of the last one heard of
	connected bool                // it has been heard of since the connection last broke
	refused   uint64              // jobs that would have passed their holder's share of MaxJobs
}

// New makes a Client on a connection to the scheduler. Run has to run for it to hear the scheduler.
func New(cfg Config, conn Conn, log *zap.Logger) *Client {
	var seed [16]byte
	rand.Read(seed[:])
	cfg = cfg.withDefaults()
	c := &Client{
		cfg: cfg, conn: conn, log: log, jobs: budget.New(int64(cfg.MaxJobs)),
		epoch:  binary.LittleEndian.Uint64(seed[8:]),
		prefix: binary.LittleEndian.Uint64(seed[:]) << 40,
		open:   map[engine.JobID]*Job{}, openOf: map[string]int{}, backlogs: map[string]*backlog{},
	}
	c.state.Store(&State{Heard: time.Now(), changed: make(chan struct{})})
	return c
}

// Config is how the client is run, defaults filled in.
func (c *Client) Config() Config { return c.cfg }
