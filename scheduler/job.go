package scheduler

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/rotation"
)

type jobState uint8

const (
	stateOrphan  jobState = iota // no executor serves its model now
	stateWaiting                 // in its executor's queue
	stateInPass                  // in a running or paused pass
)

// maxDeaths is how many executors in a row may die running a job before it is given up.
const maxDeaths = 2

// job is one Submit on its way.
type job struct {
	submit   *wire.Submit
	frontend *frontend
	pool     *pool
	executor *executor // whose queue or pass it is in; nil for an orphan
	state    jobState
	order    uint64        // of submission; breaks ties
	arrival  time.Duration // with the wait before a restart of the scheduler taken off
	aged     float64       // from when it ages, in seconds: arrival, or later for a user who sends much; see users
	paced    bool          // aged is settled

	seq       []engine.TokenID // prompt and generated tokens; the prompt part is the Submit's own
	chain     []kvcache.Hash   // of the prompt's full blocks
	chainOf   int              // block size that chain was made with
	root      kvcache.Hash     // of the chain's keys
	cached    int              // leading blocks that it was found to have in the cache last; see queue.find
	loads     int              // the last ones of these, which are in host memory
	part      int              // tokens after them that begin another block of the cache; likewise
	lease     *kvcache.Lease   // while in a pass, and between the passes of a generating job
	computed  bool             // a pass has filled the lease's pages with all tokens but the last
	predicted cost.Work        // what it counts for in its queue's predicted cost.Work

	cachedAtArrival int // tokens

	key       float64 // in its queue
	node      *node   // of the queue's tree
	slot      int     // position in the node
	class     int     // heap of the queue, under an agingPolicy
	heapIndex int     // in that heap
	flow      flow    // in which it takes its turn to generate
	turn      *turn   // of the queue, while it waits to generate, in place of a node
	older     *job    // enqueued before it in the same queue
	newer     *job    // enqueued after it

	deadline      time.Duration // time at which a job not started is dropped; 0: none
	deadlineIndex int           // in the Core's deadline heap; -1 when not there
	started       bool          // its first pass has begun
	startedAt     time.Duration // when; of the next pass if an executor died in that one or had no room
	running       time.Duration // inside passes
	hits          int           // prompt tokens read from the cache by the pass that answered first
	deaths        int           // executors that died running it, since a pass of it last went well
	orphaned      time.Duration // when its model had no executor last
	cancelled     bool          // in a pass whose other items go on
	paged         bool          // needs pages of its own; see pages
	blocked       bool          // waits for pages that other jobs hold
}

// turn is a job's place among those that generate.
type turn = rotation.Entry[flow, *job]

// leave forgets the job's place in a queue.
func (j *job) leave() { j.node, j.turn, j.older, j.newer = nil, nil, nil, nil }

// generated is the number of tokens generated so far.
func (j *job) generated() int { return len(j.seq) - len(j.submit.Tokens) }

// continuing says that the job has answered a token and holds the pages of all before it. Pages that
// it got after it had lost those, to a dead executor or a failed pass, are empty.
func (j *job) continuing() bool { return j.lease != nil && j.computed }

// scoresPrompt says that the job's next pass is asked for prompt logprobs: the one that answers first is.
func (j *job) scoresPrompt() bool { return j.submit.Ask.PromptLogprobs && j.generated() == 0 }

// ask is what the job's next pass is asked.
func (j *job) ask() engine.Ask {
	ask := j.submit.Ask
	if !j.scoresPrompt() {
		ask.PromptLogprobs, ask.PromptTop = false, 0
	}
	return ask
}

// usable is the number of leading blocks a pass may read from the cache: at least one token is
// always computed, and all are where each position is asked for.
func (j *job) usable() int {
	if j.scoresPrompt() || j.chainOf == 0 {
		return 0
	}
	return min(len(j.chain), (len(j.seq)-1)/j.chainOf)
}

// cachedTokens is the number of tokens a pass starting now would not compute, given that job.cached is
// as it is now.
func (j *job) cachedTokens() int {
	if j.continuing() {
		return len(j.seq) - 1
	}
	return j.cached*j.chainOf + j.part
}

// sequence is the tokens that the cache may compare with those of other blocks: none where the executor
// cannot read a block in part, or nothing is cached.
func (j *job) sequence() kvcache.Sequence {
	if j.root == (kvcache.Hash{}) || !j.executor.info.CopiesParts {
		return kvcache.Sequence{}
	}
	s := kvcache.Sequence{Tokens: j.submit.Tokens, Root: j.root}
	if !j.scoresPrompt() {
		s.Most = len(j.seq) - 1
	}
	return s
}

// found notes what of the job's prompt is in the cache, in whole blocks.
func (j *job) found(cached, loads int) { j.cached, j.loads, j.part = cached, loads, 0 }

// cost is what is left to do, in cache-miss tokens, on the job's executor.
func (j *job) cost() float64 {
	m := &j.executor.cost
	return m.Tokens(len(j.seq), j.cachedTokens()) + m.Load*float64(j.loads)
}

// work is what is left to do in a pass of its own.
func (j *job) work() cost.Work {
	w := cost.Alone(len(j.seq), j.cachedTokens())
	w.Loads = float64(j.loads)
	return w
}

// pages is how many pages the job must hold while it runs; 0 if it needs none of its own.
func (j *job) pages(fullKV bool, blockTokens int) int {
	if j.submit.MaxTokens <= 1 && !fullKV {
		return 0
	}
	// The last token generated is never fed back.
	n := len(j.submit.Tokens) + max(j.submit.MaxTokens, 1) - 1
	return (n + blockTokens - 1) / blockTokens
}

func (j *job) timing() engine.Timing {
	if !j.started {
		return engine.Timing{}
	}
	return engine.Timing{Queued: j.startedAt - j.arrival, Running: j.running}
}
