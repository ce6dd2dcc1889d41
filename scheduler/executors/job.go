package executors

import (
	"cmp"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// State is where a job is.
type State uint8

// The states.
const (
	Orphan  State = iota // no executor serves its model now
	Waiting              // in its instance
	InPass               // in a running, nested or paused pass
	Held                 // answered, and open: until its client says how it goes on
)

// Job is one Submit on its way.
type Job struct {
	queue.Job
	Submit   *wire.Submit
	Asks     *engine.Tokens // what Submit asks of a prompt; of tensors nothing
	Frontend *Frontend
	Instance *Instance // whose it is; nil for an orphan
	State    State
	Next     *wire.Next // how an open job goes on, once it is held; nil: not told
	Class    Class
	Arrival  time.Duration // with the wait before a restart of the scheduler taken off

	Started   bool          // its first pass has begun
	StartedAt time.Duration // when; of the next pass if an executor died in that one or had no room
	Loading   time.Duration // from its arrival until the weights for its first pass were there
	Running   time.Duration // inside passes
	Deaths    int           // executors that died running it, since a pass of it last went well
	DiedIn    uint64        // the epoch of the last one
	Orphaned  time.Duration // when its model had no executor last
	Cancelled bool          // in a pass whose other items go on
	Scores    ScoreReader   // of what is known of its prompt's positions
	Hits      int           // prompt tokens read from the cache by the pass that answered first

	expiry  queue.Expiry[*Job] // while it is not started
	paced   bool               // Aged is settled
	blocked bool               // waits for pages that other jobs hold
}

// Frontend is a peer that submits jobs.
type Frontend struct {
	ID   PeerID
	Name string
	Jobs map[engine.JobID]*Job // that it has submitted and that have not ended
}

// Class is of jobs: those of engine.Lowest wait in queues of their own, of which nothing is seen where others are
// placed, ordered, admitted or predicted.
type Class int

// The classes.
const (
	Live Class = iota
	Lowest
	Classes
)

// ClassOf is the class of jobs that are of engine.Lowest, or not.
func ClassOf(isLowest bool) Class {
	if isLowest {
		return Lowest
	}
	return Live
}

// NewJob makes the job of a Submit that has waited so long already.
func (s *Shared) NewJob(m *wire.Submit, from *Frontend) *Job {
	arrival := s.Now - max(m.Waited, 0)
	j := &Job{Submit: m, Asks: new(engine.Tokens), Frontend: from, Class: ClassOf(m.IsLowest()), Arrival: arrival}
	j.Job = queue.Job{Order: s.orders, Aged: arrival.Seconds(), Priority: m.Priority, Flow: s.flowOf(m)}
	switch w := m.Work.(type) {
	case *engine.Tokens:
		j.Asks = w
		j.Prompt, j.Scored = w.IDs, w.Ask.PromptLogprobs
		j.Whole = j.Scored || w.Ask.Pool.Whole()
		j.Known = w.Ask.PromptFrom
	case *engine.Tensors:
		j.Frames = max(w.Frames, 0)
	}
	j.Scores.Of = j
	j.expiry = queue.Expiry[*Job]{Job: j, Order: j.Order, Lowest: m.IsLowest(), Tokens: len(j.Asks.IDs)}
	if m.Deadline > 0 {
		j.Deadline = max(arrival+m.Deadline, 1)
	}
	s.orders++
	s.AddUnstarted(&j.expiry, j.Deadline)
	return j
}

// flowOf is the flow in which a job takes its turns to generate.
func (s *Shared) flowOf(m *wire.Submit) queue.Flow {
	if s.UserFairness && m.User != "" {
		return queue.Flow{User: m.User}
	}
	return queue.Flow{Job: m.ID}
}

// IsFrame says that the job is of no use after its deadline, even if it has been started.
func (j *Job) IsFrame() bool { return j.Submit.IsFrame() }

// IsPromised says that the job's deadline is promised.
func (j *Job) IsPromised() bool { return j.Submit.Promised && j.IsFrame() }

// Late says that a frame's deadline has passed.
func (j *Job) Late(now time.Duration) bool { return j.IsFrame() && now > j.Deadline }

// nextAsk is what the job's next pass is asked.
func (j *Job) nextAsk() engine.Ask {
	ask := j.Asks.Ask
	if j.Generated() > 0 {
		ask.PromptLogprobs, ask.PromptTop, ask.PromptFrom = false, 0, 0
	}
	return ask
}

// AsksScores says that the next pass is asked for the scores of the prompt's positions.
func (j *Job) AsksScores() bool { return j.Asks.Ask.PromptLogprobs && j.Generated() == 0 }

// Answers is how many tokens of the answer there are, those included that the job came with.
func (j *Job) Answers() int { return j.Asks.Generated + j.Generated() }

// HoldOpen keeps an open job that has been answered until its client says how it goes on: in no instance and without pages, which
// the cache keeps as long as it has room. It depends on no executor, and takes nothing from others however long that lasts.
func (j *Job) HoldOpen() {
	j.ReleasePages()
	j.Instance, j.State = nil, Held
}

// RenewOrder gives a held job the place of one that has come now.
func (s *Shared) RenewOrder(j *Job) {
	j.Order, j.Aged, j.paced = s.orders, s.Seconds(), false
	s.orders++
}

// beginJob marks a job as in a pass, and as started at the first that ran.
func (s *Shared) beginJob(j *Job) {
	j.State = InPass
	if j.Running == 0 {
		j.StartedAt = s.Now
		j.Loading = max(0, j.Instance.ReadyAt()-j.Arrival)
	}
	if !j.Started {
		j.Started = true
		s.RemoveUnstarted(&j.expiry)
	}
}

// DropJob drops a job from wherever it is, a pass excepted: its caller ends its part in that.
func (s *Shared) DropJob(j *Job) {
	if !j.Started {
		s.RemoveUnstarted(&j.expiry)
	}
	if j.Instance != nil && j.State == Waiting {
		j.Instance.TakeJob(j)
	}
	j.ReleasePages()
}

// SortBySubmission sorts jobs by order of submission.
func SortBySubmission(jobs []*Job) []*Job {
	return slices.SortedFunc(slices.Values(jobs), func(a, b *Job) int { return cmp.Compare(a.Order, b.Order) })
}

// wireItem is a job's part of a pass.
func (j *Job) wireItem() wire.ItemWork {
	if t, ok := j.Submit.Work.(*engine.Tensors); ok {
		return &wire.TensorItem{Tensors: *t}
	}
	ask, cached := j.nextAsk(), j.CachedTokens()
	from := min(cached, j.Len()-min(j.Answers(), ask.Recalls()))
	return &wire.TokenItem{
		From: from, Tokens: j.From(from), Cached: cached, Blocks: leasedPages(&j.Job), Part: leasedPart(&j.Job),
		Known: j.Unasked(), Draw: j.Answers(), Ask: ask,
	}
}
