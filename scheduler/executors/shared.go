package executors

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/events"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// PeerID is the address of a peer on the scheduler's connection.
type PeerID string

// Envelope is a message on its way out.
type Envelope struct {
	To  PeerID
	Msg wire.Message
}

// Options are what can be set; scheduler.Config says what they mean.
type Options struct {
	Policy        queue.Policy
	Fairness      float64 // tokens of work that a second of waiting outweighs
	UserFairness  bool
	PrefixCaching bool
	FullKV        bool
	Eviction      kvcache.Eviction
	MaxPassItems  int
	MaxPaused     int
}

// Shared is what all executors have in common.
type Shared struct {
	Options
	queue.Unstarted[*Job]
	Now           time.Duration // of the step
	Out           []Envelope    // what is to be sent, in order
	Events        events.Log    // of the prefix caches
	Scores        *ScoreCache   // of prompts
	Stats         wire.Stats
	Models        uint64   // changes when what is told of models does; see wire.Welcome
	Waiting       []*Group // that have jobs in instances
	LowestWaiting int      // jobs in instances

	hasher kvcache.Hasher
	users  queue.Users
	orders uint64 // jobs so far
	passes uint64 // passes so far
}

// scoreBytes is how much memory the log-probabilities of prompts' positions take at most: about 600,000 positions with
// five of the likeliest tokens each.
const scoreBytes = 64 << 20

// NewShared makes what executors are to have in common. What is told of models is numbered from a number on.
func NewShared(o Options, models uint64) *Shared {
	return &Shared{Options: o, Models: models, users: queue.NewUsers(), Scores: NewScoreCache(scoreBytes)}
}

// Send sends a message.
func (s *Shared) Send(to PeerID, m wire.Message) {
	s.Out = append(s.Out, Envelope{To: to, Msg: m})
}

// Seconds is the time of the step, in the unit of queue.Job.Aged.
func (s *Shared) Seconds() float64 { return s.Now.Seconds() }

// ExpiredJob returns a job that is to be dropped by now; nil if there is none.
func (s *Shared) ExpiredJob() *Job {
	if j, at, ok := s.FirstExpiry(); ok && at <= s.Now {
		return j
	}
	return nil
}

// TrimUsers forgets what is not needed any more.
func (s *Shared) TrimUsers() { s.users.Prune(s.Seconds()) }

// Group is what the instances of one model have in common.
type Group struct {
	Model   string
	Asked   bool            // it has had a job
	Waiting int             // jobs in instances, but the lowest
	Stats   wire.ModelStats // but for the gauges
}

// NewGroup makes the group of a model that has no instance yet.
func NewGroup(model string) Group {
	return Group{Model: model, Stats: wire.ModelStats{Model: model}}
}

// typicalWork is the work of a pass of the model as they were so far.
func (g *Group) typicalWork() cost.Work {
	return cost.Work{Passes: 1, Units: float64(g.Stats.ComputedUnits) / float64(max(g.Stats.Passes, 1))}
}
