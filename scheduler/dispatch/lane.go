package dispatch

import (
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/frames"
	"github.com/prefillonly/prefillonly/scheduler/pages"
	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/supply"
)

// Lane is a model on an executor, with the jobs that wait for it there.
type Lane struct {
	// What is looked at of each lane to find the next pass stands first: there may be thousands.
	Queue   *queue.Queue // of requests but the lowest
	Lowest  *queue.Queue // of requests of engine.Lowest
	shared  *Shared
	waiting int           // jobs but the lowest, frames with and without a promise included
	blocked [Classes]*Job // wait for pages that other jobs hold; see lease
	supply.Model

	Executor *Executor
	Group    *Group
	Cost     cost.Model
	Cache    *pages.Cache
	Limits   wire.TokenLimits // of a model of tensors none but those that it makes no use of

	most    int           // jobs in a pass
	margin  float64       // units by which a job must be shorter than what remains of a pass that makes way for it
	frames  frames.Queue  // of streams, that are promised nothing
	turned  wire.PassID   // the last pass that began with a job that generates
	longest float64       // seconds that its passes have taken lately at most
	told    time.Duration // when a pass last told what they take
}

// preemptMargin is by how many tokens a job must be shorter than what remains of a pass, so that a
// pause is worth the layer it waits for.
const preemptMargin = 128

// newLane makes the lane of a model, and says why it cannot be run if that is so.
func (e *Executor) newLane(info wire.ModelInfo, g *Group) *Lane {
	s := e.shared
	l := &Lane{Model: e.Device.NewModel(info, &g.Stats, s.Now), Executor: e, Group: g, shared: s, most: s.MaxPassItems}
	l.Of = l
	switch {
	case l.Useless():
	case math.IsNaN(info.Cost.Pair) || math.IsInf(info.Cost.Pair, 0):
		l.Condemn("%v seconds a pair are no cost", info.Cost.Pair)
	case info.Tokens != nil:
		l.Limits = *info.Tokens
		l.most, l.margin = min(l.most, l.Limits.MaxPassRows), preemptMargin
		if l.Limits.VocabSize < 1 || l.Limits.MaxModelLen < 1 {
			l.Condemn("a vocabulary of %d and a length of %d make no sense", l.Limits.VocabSize, l.Limits.MaxModelLen)
		}
	case info.Tensors != nil:
		l.Limits = wire.TokenLimits{BlockTokens: 1, MaxPassRows: math.MaxInt}
		l.most, l.margin = min(l.most, info.Tensors.MaxPassItems), 1
	default:
		l.Condemn("it takes neither tokens nor tensors")
	}
	l.Cost = cost.New(info.Cost)
	l.frames = frames.New(&l.Cost, l.most)
	if err := l.open(); err != nil {
		l.Condemn("%v", err)
		l.Limits = wire.TokenLimits{BlockTokens: 1}
		_ = l.open()
	}
	return l
}

// open makes the lane's cache and queues.
func (l *Lane) open() (err error) {
	if l.Limits.BlockTokens == 0 && l.Useless() {
		l.Limits.BlockTokens = 1
	}
	if l.Cache, err = pages.New(l.Info.Name, l.Limits, l.shared.Eviction, &l.shared.Events, &l.Group.Stats); err != nil {
		return err
	}
	l.newQueues()
	return nil
}

// newQueues has requests wait in new queues.
func (l *Lane) newQueues() {
	l.Queue = queue.New(l.shared.Policy, &l.Cost, l.Cache.Index, l.Limits.BlockTokens)
	l.Lowest = queue.New(l.shared.Policy, &l.Cost, l.Cache.Index, l.Limits.BlockTokens)
	l.Cache.Follow(l.Queue, l.Lowest)
}

// QueueOf is where jobs of a class wait.
func (l *Lane) QueueOf(c Class) *queue.Queue {
	if c == Lowest {
		return l.Lowest
	}
	return l.Queue
}

// Enqueue puts a job in the lane.
func (l *Lane) Enqueue(j *Job) {
	s := l.shared
	l.Chain(j)
	j.Lane, j.State = l, Waiting
	j.Paged = l.OwnPages(j) > 0
	j.Predicted = l.Expected(j)
	if s.UserFairness && !j.paced && j.Class == Live {
		j.Aged, j.paced = s.users.Pace(j.Submit.User, j.Aged, l.Cost.Seconds(j.Predicted)), true
	}
	if !j.Started {
		cached, _ := l.Queue.Useful(l.Queue.Reach(&j.Job))
		j.CachedAtArrival = cached * j.ChainOf
		if j.Class == Live {
			l.Came(s.Now)
		}
		if j.IsFrame() {
			s.Expire(&j.expiry, l.frames.Latest(&j.Job))
		}
	}
	l.push(j)
}

// Chain computes a job's block chain for the lane's block size, and finds what is known of it.
func (l *Lane) Chain(j *Job) {
	anew := l.Cache.Chain(&l.shared.hasher, &j.Job, j.Submit.Salt, l.shared.PrefixCaching)
	if j.sharesScores() {
		l.findScores(j, anew)
	}
}

// push puts a job among those that wait in the lane, and Take takes one out.
func (l *Lane) push(j *Job) {
	e := l.Executor
	switch {
	case j.IsPromised():
		e.promised = frames.Insert(e.promised, &j.Job)
	case j.IsFrame():
		l.frames.Push(&j.Job, l.shared.Now)
		e.feeds++
	default:
		q, line := l.QueueOf(j.Class), &e.lines[j.Class]
		line.turns -= q.Generating()
		q.Push(&j.Job)
		line.turns += q.Generating()
		if j.sharesScores() {
			l.shared.Scores.Await(&j.Scores)
		}
	}
	l.waits(j.Class, 1)
}

// Take takes a job out of those that wait in the lane.
func (l *Lane) Take(j *Job) {
	e := l.Executor
	switch {
	case j.IsPromised():
		e.promised = frames.Remove(e.promised, &j.Job)
	case j.IsFrame():
		l.frames.Remove(&j.Job)
		e.feeds--
	default:
		q, line := l.QueueOf(j.Class), &e.lines[j.Class]
		line.turns -= q.Generating()
		q.Remove(&j.Job)
		line.turns += q.Generating()
		l.shared.Scores.Leave(&j.Scores)
	}
	l.waits(j.Class, -1)
	if l.blocked[j.Class] == j {
		l.blocked[j.Class], j.blocked = nil, false
	}
}

// Jobs lists those that wait in the lane, in no order that matters.
func (l *Lane) Jobs() (list []*Job) {
	for c := range Classes {
		for q := range l.QueueOf(c).All() {
			list = append(list, of(q))
		}
	}
	for _, q := range l.frames.All() {
		list = append(list, of(q))
	}
	for _, q := range l.Executor.promised {
		if j := of(q); j.Lane == l {
			list = append(list, j)
		}
	}
	return list
}

// Waits says that jobs wait in the lane.
func (l *Lane) Waits() bool { return l.waiting+l.Lowest.Len() > 0 }

// Newest is the job of a class that came last and holds no pages yet; nil if there is none.
func (l *Lane) Newest(c Class) *Job {
	q := l.QueueOf(c).Newest()
	for q != nil && q.Lease != nil {
		q = q.Older() // its pages are there
	}
	return of(q)
}

// Passes lists the passes of the lane.
func (l *Lane) Passes() (list []*Pass) {
	for _, p := range l.Executor.Passes() {
		if p.Lane == l {
			list = append(list, p)
		}
	}
	return list
}

// IsIdle says that nothing is to be done in the lane, nor on the way to it.
func (l *Lane) IsIdle() bool { return !l.Waits() && !l.Comes() && len(l.Passes()) == 0 }

// OwnPages is how many pages a job must hold while it runs here; 0 if it needs none of its own.
func (l *Lane) OwnPages(j *Job) int {
	if j.Asks.Max <= 1 && !l.shared.FullKV {
		return 0
	}
	// The last token generated is never fed back.
	n := len(j.Asks.IDs) + max(j.Asks.Max, 1) - 1
	return (n + l.Limits.BlockTokens - 1) / l.Limits.BlockTokens
}

// Expected is the work that a job would be in the lane, with what is cached there now, or will be on
// the device once the jobs there that begin as it does have run.
func (l *Lane) Expected(j *Job) cost.Work {
	if j.Continues() {
		return j.Size(j.Len() - 1).Alone()
	}
	chain, q := j.Chain[:j.Usable()], l.QueueOf(j.Class)
	found := q.Reach(&j.Job)
	cached, loads := q.Useful(found)
	n := q.Shared(chain, found.Device)
	if j.sharesScores() {
		n = max(n, j.UsableOf(l.awaited(j)*j.ChainOf))
	}
	for _, p := range l.Executor.under(j.Class) {
		for _, other := range p.Items {
			if p.Lane == l && other.ChainOf == j.ChainOf {
				n = max(n, queue.CommonBlocks(other.Chain, chain), j.scoredBy(other))
			}
		}
	}
	if n >= cached {
		cached, loads = n, 0
	}
	w := j.Size(cached * j.ChainOf).Alone()
	w.Loads = float64(loads)
	return w
}
