// Package scheduler decides which job runs next, where, and with which pages: Core is the pure state
// machine, Server the goroutine that joins it to a connection and a clock.
//
// Core takes messages and the time and returns messages; it reads no clock, starts no goroutine and
// draws no random number, so that the same input gives the same output, in production, in the
// simulator and in a test.
package scheduler

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
)

// PeerID is the address of a peer on the scheduler's connection.
type PeerID string

// Envelope is a message on its way out.
type Envelope struct {
	To  PeerID
	Msg wire.Message
}

// Core is the scheduler without goroutine, clock and socket. It is not safe for concurrent use.
type Core struct {
	cfg    Config
	policy policy
	epoch  uint64
	now    time.Duration
	ticked time.Duration // when the last Tick came
	hasher *kvcache.Hasher

	peers     map[PeerID]*peer
	named     map[peerName]*peer
	loading   map[string]loading // by name
	losses    uint64             // times that a peer was lost
	frontends []*frontend        // in the order of registration
	executors []*executor        // in the order of registration
	pools     map[string]*pool   // by model

	jobs         map[engine.JobID]*job
	deadlines    deadlineHeap // jobs not started that have a deadline
	orders       uint64       // submissions so far
	passes       uint64       // passes so far
	marks        uint64       // times that executors were marked; see mark
	markedFor    *job         // for which they are marked now
	queuedJobs   int          // not started
	queuedTokens int          // of those
	users        users
	stats        wire.Stats
	passTokens   [len(wire.PassTokenBounds) + 1]uint64 // passes, as in Welcome
	out          []Envelope
	recording    bool // CacheEvents are kept
	events       []CacheEvent
}

// NewCore makes a Core. The epoch tells this scheduler from one before it; draw it at random.
func NewCore(cfg Config, epoch uint64) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p, err := newPolicy(cfg)
	if err != nil {
		return nil, err
	}
	return &Core{
		cfg: cfg, policy: p, epoch: epoch, hasher: new(kvcache.Hasher),
		peers: map[PeerID]*peer{}, named: map[peerName]*peer{}, loading: map[string]loading{},
		pools: map[string]*pool{}, jobs: map[engine.JobID]*job{}, users: newUsers(),
	}, nil
}

// Step takes one message at a time since some fixed start; the time of a step before the last one's
// counts as that. A Tick must come several times in a Config.PeerTimeout. It returns what is to be sent, in order; the slice is valid until the next Step.
// Slices inside msg are kept and must not be changed. Messages that make no sense in the state that
// the Core is in (unknown passes, results twice, senders never heard of) change nothing.
func (c *Core) Step(now time.Duration, from PeerID, msg wire.Message) []Envelope {
	c.now = max(c.now, now)
	c.out, c.events = c.out[:0], c.events[:0]
	if p := c.peers[from]; p != nil {
		p.heard = c.now
	}
	switch m := msg.(type) {
	case *wire.Hello:
		c.hello(from, m)
	case *wire.Submit:
		c.submit(from, m)
	case *wire.Cancel:
		c.cancelFrom(from, m.Job)
	case *wire.Reset:
		c.reset(from, m.Serial)
	case *wire.Done:
		c.done(from, m)
	case *wire.Paused:
		c.paused(from, m)
	case *wire.Lost:
		c.lost(c.peers[from])
	case *wire.Tick:
		c.tick()
	}
	c.expire()
	return c.out
}

func (c *Core) send(to PeerID, m wire.Message) {
	c.out = append(c.out, Envelope{To: to, Msg: m})
}

// tick drops silent peers and orphans that have waited too long, and gives idle executors work.
func (c *Core) tick() {
	// After a gap as long the scheduler itself was held up, and what the peers have said since is
	// still to be read.
	asleep := c.now-c.ticked > c.cfg.PeerTimeout/2
	c.ticked = c.now
	for _, p := range c.peersInOrder() {
		if asleep {
			p.heard = c.now
		}
		if c.now-p.heard >= c.cfg.PeerTimeout {
			c.lost(p)
		}
	}
	for _, model := range sortedKeys(c.pools) {
		p := c.pools[model]
		c.expireOrphans(p)
		p.places.trim()
		if len(p.executors) == 0 && len(p.orphans) == 0 {
			delete(c.pools, model)
		}
	}
	c.users.prune(c.seconds())
	for _, e := range c.executors {
		c.dispatch(e)
	}
}

// expire drops the jobs whose deadline has passed before they were started.
func (c *Core) expire() {
	for len(c.deadlines) > 0 && c.deadlines[0].deadline <= c.now {
		j := c.deadlines[0]
		waited := (c.now - j.arrival).Seconds()
		c.fail(j, engine.Errorf(engine.CodeDeadline, "the deadline of %v passed after %.3f s in the queue", j.submit.Deadline, waited))
	}
}

// seconds is the time of the step, in the unit of job.arrival.
func (c *Core) seconds() float64 { return c.now.Seconds() }

// deadlineHeap holds jobs by deadline, ties by order of submission.
type deadlineHeap []*job

func (h deadlineHeap) Len() int { return len(h) }
func (h deadlineHeap) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(h[a].deadline, h[b].deadline), cmp.Compare(h[a].order, h[b].order)) < 0
}
func (h deadlineHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].deadlineIndex, h[b].deadlineIndex = a, b
}
func (h *deadlineHeap) Push(x any) {
	j := x.(*job)
	j.deadlineIndex = len(*h)
	*h = append(*h, j)
}
func (h *deadlineHeap) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	j.deadlineIndex = -1
	return j
}

// forgetDeadline takes a job out of the deadline heap.
func (c *Core) forgetDeadline(j *job) {
	if j.deadlineIndex >= 0 {
		heap.Remove(&c.deadlines, j.deadlineIndex)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
