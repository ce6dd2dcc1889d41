package queue

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// Job is what of a job decides when it runs. A Queue changes only what it finds of the cache.
type Job struct {
	Order     uint64        // of submission; breaks ties
	Aged      float64       // from when it ages, in seconds
	Priority  int           // lower first, under the priority policy
	Deadline  time.Duration // 0: none
	Flow      Flow          // in which it takes its turn to generate
	Frames    float64       // units of work beside those of its sequence
	Paged     bool          // it needs pages of its own
	Predicted cost.Work     // what it counts for in Queue.Predicted
	Sequence
	place
}

// place is where a Queue has a job.
type place struct {
	key       float64
	node      *node // of the tree
	slot      int   // position in the node
	class     int   // heap, under an Aging policy
	heapIndex int   // position in that
	turn      *turn // while it waits to generate, in place of a node
	older     *Job  // pushed before it
	newer     *Job  // pushed after it
	owner     int   // position in an OwnedQueue
}

// Flow is whose turn it is to generate: a user's, where fairness is among users, or else a job's.
type Flow struct {
	User string
	Job  engine.JobID
}

// turn is a job's place among those that generate.
type turn = Turn[Flow, *Job]

// Sequence is what only a job of tokens has: what it reads, has generated and finds in the cache. A job of tensors
// has an empty one.
type Sequence struct {
	Prompt  []engine.TokenID // never written to; an open job goes on with a longer one
	Added   []engine.TokenID // generated tokens
	Whole   bool             // the pass that answers first computes all of the prompt from Known on: each position is asked for
	Scored  bool             // with Whole: what each position is asked for are the scores of tokens
	Known   int              // with Whole: leading tokens of which it is known what they are asked for, or that are not asked for
	Parts   bool             // blocks may be read in part where it waits
	Chain   []kvcache.Hash   // of the prompt's full blocks
	ChainOf int              // block size that Chain was made with; 0: it was not
	Root    kvcache.Hash     // of the chain's keys
	Lease   *kvcache.Lease   // while in a pass, and between the passes of a generating job
	Filled  bool             // a pass has filled the lease's pages with all tokens but the last

	// What the cache was found to have last; see Queue.Find.
	Cached int // leading blocks
	Loads  int // the last ones of these, which are in host memory
	Part   int // tokens after them that begin another block of the cache

	CachedAtArrival int // tokens
}

// Generated is the number of tokens generated so far.
func (s *Sequence) Generated() int { return len(s.Added) }

// Len is the number of tokens, generated ones included.
func (s *Sequence) Len() int { return len(s.Prompt) + len(s.Added) }

// From are the tokens from a position on. The prompt is copied only where generated tokens follow it.
func (s *Sequence) From(at int) []engine.TokenID {
	switch n := len(s.Prompt); {
	case at >= n:
		return s.Added[at-n:]
	case len(s.Added) == 0:
		return s.Prompt[at:]
	}
	return slices.Concat(s.Prompt[at:], s.Added)
}

// Continues says that the sequence has generated a token and holds the pages of all before it. Pages that
// it got after it had lost those, to a dead executor or a failed pass, are empty.
func (s *Sequence) Continues() bool { return s.Lease != nil && s.Filled }

// AsksWhole says that the next pass computes all of the prompt from Known on, whatever of it is cached: the one that
// answers first.
func (s *Sequence) AsksWhole() bool { return s.Whole && s.Generated() == 0 }

// Unasked is the number of leading tokens of which the next pass is not asked for what it is of the others.
func (s *Sequence) Unasked() int {
	if !s.AsksWhole() {
		return 0
	}
	return s.Known
}

// readableTokens is the number of leading tokens that a pass may read from the cache, where so many are known: at least one is
// always computed, and where each position is asked for, the one before the first that is not known.
func (s *Sequence) readableTokens(known int) int {
	n := s.Len() - 1
	if s.AsksWhole() {
		n = min(n, known-1)
	}
	return max(n, 0)
}

// Usable is the number of leading blocks a pass may read from the cache.
func (s *Sequence) Usable() int { return s.UsableOf(s.Known) }

// UsableOf is Usable where so many leading tokens are known.
func (s *Sequence) UsableOf(known int) int {
	if s.ChainOf == 0 {
		return 0
	}
	return min(len(s.Chain), s.readableTokens(known)/s.ChainOf)
}

// CachedTokens is the number of tokens a pass starting now would not compute, given that what was
// found in the cache is there still.
func (s *Sequence) CachedTokens() int {
	if s.Continues() {
		return s.Len() - 1
	}
	return s.Cached*s.ChainOf + s.Part
}

// Compared is the tokens that the cache may compare with those of other blocks: none where blocks cannot
// be read in part, or nothing is cached.
func (s *Sequence) Compared() kvcache.Sequence {
	if s.Root == (kvcache.Hash{}) || !s.Parts {
		return kvcache.Sequence{}
	}
	return kvcache.Sequence{Tokens: s.Prompt, Root: s.Root, Most: s.readableTokens(s.Known)}
}

// Found notes what of the prompt is in the cache, in whole blocks.
func (s *Sequence) Found(cached, loads int) { s.Cached, s.Loads, s.Part = cached, loads, 0 }

// Size is the work of the job beside the pass that it is in, when so many of its tokens are cached.
func (j *Job) Size(cached int) cost.Work {
	w := cost.WorkOf(j.Len(), cached)
	w.Units += j.Frames
	if j.Scored && j.AsksWhole() {
		w.Rows = float64(j.Len() - j.Unasked())
	}
	return w
}

// Left is what is left to do in a pass of its own.
func (j *Job) Left() cost.Work {
	w := j.Size(j.CachedTokens()).Alone()
	w.Loads = float64(j.Loads)
	return w
}

// Cost is what is left to do, in units.
func (j *Job) Cost(m *cost.Model) float64 {
	return m.Units(j.Size(j.CachedTokens())) + m.Load*float64(j.Loads)
}
