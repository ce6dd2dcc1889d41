// Package scheduler decides which job runs next, where, and with which pages and weights: Core is the pure state
// machine, Server the goroutine that joins it to a connection and a clock.
//
// Core takes messages and the time and returns messages; it reads no clock, starts no goroutine and
// draws no random number, so that the same input gives the same output, in production, in the
// simulator and in a test.
package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/events"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// PeerID is the address of a peer on the scheduler's connection.
type PeerID = executors.PeerID

// Envelope is a message on its way out.
type Envelope = executors.Envelope

// Core is the scheduler without goroutine, clock and socket. It is not safe for concurrent use.
type Core struct {
	cfg       Config
	epoch     uint64
	fleet     *executors.Fleet
	ticked    time.Duration // when the last Tick came
	peers     map[PeerID]*peer
	named     map[peerName]*peer
	opening   map[string]opening // by name
	losses    uint64             // times that a peer was lost
	frontends []*peer            // in the order of registration
	jobs      map[engine.JobID]*executors.Job
	settings  []setting // of models, that are not answered yet
}

// NewCore makes a Core. The epoch tells this scheduler from one before it; draw it at random.
func NewCore(cfg Config, epoch uint64) (*Core, error) {
	options, err := cfg.executorOptions()
	if err != nil {
		return nil, err
	}
	return &Core{
		cfg: cfg, epoch: epoch, fleet: executors.NewFleet(options, cfg.Routing, epoch),
		peers: map[PeerID]*peer{}, named: map[peerName]*peer{}, opening: map[string]opening{},
		jobs: map[engine.JobID]*executors.Job{},
	}, nil
}

// Step takes one message at a time since some fixed start; the time of a step before the last one's
// counts as that. A Tick must come several times in a Config.PeerTimeout, and any Step, if only of nil, when Wake says.
// It returns what is to be sent, in order; the slice is valid until the next Step.
// Slices inside msg are kept and must not be changed. Messages that make no sense in the state that
// the Core is in (unknown passes, results twice, senders never heard of) change nothing.
func (c *Core) Step(now time.Duration, from PeerID, msg wire.Message) []Envelope {
	f := c.fleet
	f.Now = max(f.Now, now)
	f.Out, f.Events.Events = f.Out[:0], f.Events.Events[:0]
	if p := c.peers[from]; p != nil {
		p.heard = f.Now
	}
	switch m := msg.(type) {
	case *wire.Hello:
		c.handleHello(from, m)
	case *wire.Submit:
		c.handleSubmit(from, m)
	case *wire.Next:
		c.handleNext(from, m)
	case *wire.Cancel:
		c.cancelFrom(from, m.Job)
	case *wire.Reset:
		c.resetPrefixCaches(from, m.Serial)
	case *wire.SetModel:
		c.setModel(from, m)
	case *wire.Done:
		c.handleDone(c.executorAt(from), m)
	case *wire.Paused:
		c.handlePaused(c.executorAt(from), m)
	case *wire.Loaded:
		c.handleLoaded(c.executorAt(from), m)
	case *wire.Lost:
		c.dropLostPeer(c.peers[from])
	case *wire.Tick:
		c.handleTick()
	case nil:
		for _, e := range f.ExecutorsWithPromised() {
			c.dispatchWork(e)
		}
	}
	c.expireJobs()
	return f.Out
}

// Wake is when the next Step should come at the latest for what is to be done at a time; ok is false if nothing is.
func (c *Core) Wake() (at time.Duration, ok bool) { return c.fleet.WakeAt() }

// RecordCacheEvents makes the Core keep the changes of prefix caches from now on.
func (c *Core) RecordCacheEvents() { c.fleet.Events.On = true }

// CacheEvents returns the changes of prefix caches in the last Step, in their order; the slice is valid until the next
// one.
func (c *Core) CacheEvents() []events.Event { return c.fleet.Events.Events }

// handleTick drops silent peers and orphans that have waited too long, and gives idle executors work.
func (c *Core) handleTick() {
	f := c.fleet
	// After a gap as long the scheduler itself was held up, and what the peers have said since is
	// still to be read.
	asleep := f.Now-c.ticked > c.cfg.PeerTimeout/2
	c.ticked = f.Now
	for _, p := range c.peersInOrder() {
		if asleep {
			p.heard = f.Now
		}
		if f.Now-p.heard >= c.cfg.PeerTimeout {
			c.dropLostPeer(p)
		}
	}
	for _, p := range f.Sorted() {
		c.expireOrphans(p)
	}
	f.Trim()
	for _, e := range f.Executors {
		e.TendModels()
		c.failStarvedJobs(e)
		c.dispatchWork(e)
	}
	c.answerSettings()
}

// expireJobs drops the jobs whose time has passed before they were started.
func (c *Core) expireJobs() {
	for j := c.fleet.ExpiredJob(); j != nil; j = c.fleet.ExpiredJob() {
		c.failJob(j, c.lateError(j))
	}
}

// expireOrphans fails the jobs of a model that no executor has served for too long.
func (c *Core) expireOrphans(p *executors.Pool) {
	for _, j := range slices.Clone(p.Orphans) {
		if waited := c.fleet.Now - j.Orphaned; waited >= c.cfg.UnavailableAfter {
			c.failJob(j, engine.Errorf(engine.CodeUnavailable, "no executor has served model %q for %v", p.Model, waited))
		}
	}
}

// failStarvedJobs answers the jobs of models for which an executor has had no room for too long.
func (c *Core) failStarvedJobs(e *executors.Executor) {
	for _, inst := range slices.Clone(e.Busy()) {
		if err := inst.Stuck(c.fleet.Now, inst.Waits(), c.cfg.UnavailableAfter); err != nil {
			for _, j := range executors.EmptyInstance(inst) {
				c.failJob(j, err)
			}
		}
	}
}

// executorAt is the executor with an address; nil if there is none.
func (c *Core) executorAt(id PeerID) *executors.Executor {
	if p := c.peers[id]; p != nil {
		return p.executor
	}
	return nil
}

func (c *Core) peersInOrder() []*peer {
	return slices.SortedFunc(maps.Values(c.peers), func(a, b *peer) int { return cmp.Compare(a.id, b.id) })
}

// resetPrefixCaches empties the prefix caches of all that no job holds, for a frontend.
func (c *Core) resetPrefixCaches(from PeerID, serial uint64) {
	if p := c.peers[from]; p == nil || p.frontend == nil {
		return
	}
	done := &wire.ResetDone{Serial: serial}
	for _, e := range c.fleet.Executors {
		for _, inst := range e.Instances {
			dropped, held := inst.Cache.ClearPages()
			done.Dropped += dropped
			done.Held += held
		}
	}
	c.fleet.Scores.ClearScores()
	c.fleet.Send(from, done)
}
