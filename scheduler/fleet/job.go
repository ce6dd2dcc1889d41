package fleet

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/scores"
)

// State is where a job is.
type State uint8

// The states.
const (
	Orphan  State = iota // no executor serves its model now
	Waiting              // in its lane
	InPass               // in a running, nested or paused pass
)

// Job is one Submit on its way.
type Job struct {
	queue.Job
	Submit   *wire.Submit
	Asks     *engine.Tokens // what Submit asks of a prompt; of tensors nothing
	Frontend *Frontend
	Pool     *Pool
	Lane     *Lane // whose it is; nil for an orphan
	State    State
	class    class
	Arrival  time.Duration // with the wait before a restart of the scheduler taken off

	Started   bool          // its first pass has begun
	StartedAt time.Duration // when; of the next pass if an executor died in that one or had no room
	Loading   time.Duration // from its arrival until the weights for its first pass were there
	Running   time.Duration // inside passes
	Deaths    int           // executors that died running it, since a pass of it last went well
	DiedIn    uint64        // the epoch of the last one
	Orphaned  time.Duration // when its model had no executor last
	Cancelled bool          // in a pass whose other items go on
	Hits      int           // prompt tokens read from the cache by the pass that answered first

	expires  time.Duration // when it is dropped unless it is started; 0: never
	expiry   int           // position among the Fleet's expiries; -1 when not there
	paced    bool          // Aged is settled
	blocked  bool          // waits for pages that other jobs hold
	deadline time.Duration // of a frame: when it is late
	known    []*scores.Block
}

// of is whose place in a queue this is; nil of none.
func of(q *queue.Job) *Job {
	if q == nil {
		return nil
	}
	return q.Of.(*Job)
}

// isFrame says that the job is of no use after its deadline, even if it has been started.
func (j *Job) isFrame() bool { return j.Submit.IsFrame() }

// isPromised says that the job's deadline is promised.
func (j *Job) isPromised() bool { return j.Submit.Promised && j.isFrame() }

// Late says that a frame's deadline has passed.
func (j *Job) Late(now time.Duration) bool { return j.deadline > 0 && now > j.deadline }

// asking is what the job's next pass is asked.
func (j *Job) asking() engine.Ask {
	ask := j.Asks.Ask
	if j.Generated() > 0 {
		ask.PromptLogprobs, ask.PromptTop = false, 0
	}
	return ask
}

// pages is how many pages the job must hold while it runs; 0 if it needs none of its own.
func (j *Job) pages(fullKV bool, blockTokens int) int {
	if j.Asks.Max <= 1 && !fullKV {
		return 0
	}
	// The last token generated is never fed back.
	n := len(j.Asks.IDs) + max(j.Asks.Max, 1) - 1
	return (n + blockTokens - 1) / blockTokens
}

// Timing is where the job's time went.
func (j *Job) Timing() engine.Timing {
	if !j.Started {
		return engine.Timing{}
	}
	t := engine.Timing{Queued: j.StartedAt - j.Arrival, Loading: j.Loading, Running: j.Running}
	if j.Lane != nil {
		t.Executor = j.Lane.Executor.Peer.Name.Name
	}
	return t
}

// begin marks a job as in a pass, and as started at the first that ran.
func (f *Fleet) begin(j *Job) {
	j.State = InPass
	if j.Running == 0 {
		j.StartedAt = f.Now
		j.Loading = max(0, j.Lane.ReadyAt()-j.Arrival)
	}
	if j.Started {
		return
	}
	j.Started = true
	f.expiries.forget(j)
	f.queued(j, -1)
}
