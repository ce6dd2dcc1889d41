// Package fleet is what the scheduler knows of executors: their models and weights, the jobs that wait there, the
// passes that run, and which of all that comes next on each. A lane is a model on an executor.
package fleet

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/events"
	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/scores"
)

// PeerID is the address of a peer on the scheduler's connection.
type PeerID string

// Envelope is a message on its way out.
type Envelope struct {
	To  PeerID
	Msg wire.Message
}

// The routings: how a job finds its executor among those that serve its model.
const (
	RoutePrefix = "prefix" // longest resident prefix against load
	RouteUser   = "user"   // a user's jobs stay together, by rendezvous hash
	RouteLoad   = "load"   // least predicted work
)

// Options are a Fleet's; scheduler.Config says what they mean.
type Options struct {
	Policy        queue.Policy
	Fairness      float64 // tokens of work that a second of waiting outweighs
	UserFairness  bool
	Routing       string
	PrefixCaching bool
	FullKV        bool
	Eviction      kvcache.Eviction
	MaxPassItems  int
	MaxPaused     int
}

// Fleet is all executors, the models that they serve, and the jobs that wait for them. It is not safe for concurrent
// use.
type Fleet struct {
	Options
	Now       time.Duration // of the step
	Out       []Envelope    // what is to be sent, in order
	Events    events.Log    // of the prefix caches
	Executors []*Executor   // in the order of registration
	Pools     map[string]*Pool
	Stats     wire.Stats
	Models    uint64 // changes when what is told of models does; see wire.Welcome

	Scores        *scores.Cache // of prompts
	hasher        kvcache.Hasher
	waitingJobs   [classes]Queued
	lowestWaiting int      // in lanes
	orders        uint64   // jobs so far
	passes        uint64   // passes so far
	expiries      expiries // of jobs not started
	users         users
	marks         uint64  // times that lanes were marked; see mark
	markedFor     *Job    // for which they are marked now
	waiting       []*Pool // that have jobs in lanes
}

// Queued is jobs that have not been started, and the tokens of their prompts.
type Queued struct{ Jobs, Tokens int }

// scoreBytes is how much memory the log-probabilities of prompts' positions take at most: about 600,000 positions with
// five of the likeliest tokens each.
const scoreBytes = 64 << 20

// New makes a Fleet without executors. What it tells of models is numbered from a number on.
func New(o Options, models uint64) *Fleet {
	return &Fleet{Options: o, Pools: map[string]*Pool{}, Models: models, users: newUsers(), Scores: scores.New(scoreBytes)}
}

// Send sends a message.
func (f *Fleet) Send(to PeerID, m wire.Message) {
	f.Out = append(f.Out, Envelope{To: to, Msg: m})
}

// Seconds is the time of the step, in the unit of queue.Job.Aged.
func (f *Fleet) Seconds() float64 { return f.Now.Seconds() }

// Executor is the executor with an address; nil if there is none.
func (f *Fleet) Executor(id PeerID) *Executor {
	for _, e := range f.Executors {
		if e.Peer.ID == id {
			return e
		}
	}
	return nil
}
