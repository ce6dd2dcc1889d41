package executors

import (
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// Instance is a model on an executor, with the jobs that wait for it there.
type Instance struct {
	// What is looked at of each instance to find the next pass stands first: there may be thousands.
	Queue   *queue.Queue // of requests but the lowest
	Lowest  *queue.Queue // of requests of engine.Lowest
	shared  *Shared
	waiting int           // jobs but the lowest, frames with and without a promise included
	blocked [Classes]*Job // wait for pages that other jobs hold; see lease
	residency.Model

	Executor *Executor
	Group    *Group
	Cost     cost.Model
	Cache    *PrefixCache
	Limits   wire.TokenLimits // of a model of tensors none but those that it makes no use of

	most    int           // jobs in a pass
	margin  float64       // units by which a job must be shorter than what remains of a pass that makes way for it
	frames  FrameQueue    // of streams, that are promised nothing
	turned  wire.PassID   // the last pass that began with a job that generates
	longest float64       // seconds that its passes have taken lately at most
	told    time.Duration // when a pass last told what they take
}

// preemptMargin is by how many tokens a job must be shorter than what remains of a pass, so that a
// pause is worth the layer it waits for.
const preemptMargin = 128

// newInstance makes the instance of a model, and says why it cannot be run if that is so.
func (e *Executor) newInstance(info wire.ModelInfo, g *Group) *Instance {
	s := e.shared
	l := &Instance{Model: e.Loader.NewModel(info, &g.Stats, s.Now), Executor: e, Group: g, shared: s, most: s.MaxPassItems}
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
	l.frames = newFrameQueue(&l.Cost, l.most)
	if err := l.openCache(); err != nil {
		l.Condemn("%v", err)
		l.Limits = wire.TokenLimits{BlockTokens: 1}
		_ = l.openCache()
	}
	return l
}

// openCache makes the instance's cache and queues.
func (l *Instance) openCache() (err error) {
	if l.Limits.BlockTokens == 0 && l.Useless() {
		l.Limits.BlockTokens = 1
	}
	if l.Cache, err = NewPrefixCache(l.Info.Name, l.Limits, l.shared.Eviction, &l.shared.Events, &l.Group.Stats); err != nil {
		return err
	}
	l.newQueues()
	return nil
}

// newQueues has requests wait in new queues.
func (l *Instance) newQueues() {
	l.Queue = queue.New(l.shared.Policy, &l.Cost, l.Cache.Index, l.Limits.BlockTokens)
	l.Lowest = queue.New(l.shared.Policy, &l.Cost, l.Cache.Index, l.Limits.BlockTokens)
	l.Cache.SetFollowers(l.Queue, l.Lowest)
}

// QueueOf is where jobs of a class wait.
func (l *Instance) QueueOf(c Class) *queue.Queue {
	if c == Lowest {
		return l.Lowest
	}
	return l.Queue
}

// Enqueue puts a job in the instance.
func (l *Instance) Enqueue(j *Job) {
	s := l.shared
	l.ChainJob(j)
	j.Instance, j.State = l, Waiting
	j.Paged = l.OwnPages(j) > 0
	j.Predicted = l.ExpectedWork(j)
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
			s.ExpireAt(&j.expiry, l.frames.LatestStart(&j.Job))
		}
	}
	l.pushJob(j)
}

// ChainJob computes a job's block chain for the instance's block size, and finds what is known of it.
func (l *Instance) ChainJob(j *Job) {
	anew := l.Cache.ChainPrompt(&l.shared.hasher, &j.Job, j.Submit.Salt, l.shared.PrefixCaching)
	if j.sharesScores() {
		l.findScores(j, anew)
	}
}

// pushJob puts a job among those that wait in the instance, and Take takes one out.
func (l *Instance) pushJob(j *Job) {
	e := l.Executor
	switch {
	case j.IsPromised():
		e.promised = insertFrame(e.promised, &j.Job)
	case j.IsFrame():
		l.frames.PushFrame(&j.Job, l.shared.Now)
		e.feeds++
	default:
		q, line := l.QueueOf(j.Class), &e.lines[j.Class]
		line.turns -= q.Generating()
		q.Push(&j.Job)
		line.turns += q.Generating()
		if j.sharesScores() {
			l.shared.Scores.AwaitScores(&j.Scores)
		}
	}
	l.countWaiting(j.Class, 1)
}

// TakeJob takes a job out of those that wait in the instance.
func (l *Instance) TakeJob(j *Job) {
	e := l.Executor
	switch {
	case j.IsPromised():
		e.promised = removeFrame(e.promised, &j.Job)
	case j.IsFrame():
		l.frames.RemoveFrame(&j.Job)
		e.feeds--
	default:
		q, line := l.QueueOf(j.Class), &e.lines[j.Class]
		line.turns -= q.Generating()
		q.Remove(&j.Job)
		line.turns += q.Generating()
		l.shared.Scores.StopAwaiting(&j.Scores)
	}
	l.countWaiting(j.Class, -1)
	if l.blocked[j.Class] == j {
		l.blocked[j.Class], j.blocked = nil, false
	}
}

// Jobs lists those that wait in the instance, in no order that matters.
func (l *Instance) Jobs() (list []*Job) {
	for c := range Classes {
		for q := range l.QueueOf(c).All() {
			list = append(list, jobOf(q))
		}
	}
	for _, q := range l.frames.AllFrames() {
		list = append(list, jobOf(q))
	}
	for _, q := range l.Executor.promised {
		if j := jobOf(q); j.Instance == l {
			list = append(list, j)
		}
	}
	return list
}

// Waits says that jobs wait in the instance.
func (l *Instance) Waits() bool { return l.waiting+l.Lowest.Len() > 0 }

// NewestJob is the job of a class that came last and holds no pages yet; nil if there is none.
func (l *Instance) NewestJob(c Class) *Job {
	q := l.QueueOf(c).Newest()
	for q != nil && q.Lease != nil {
		q = q.Older() // its pages are there
	}
	return jobOf(q)
}

// Passes lists the passes of the instance.
func (l *Instance) Passes() (list []*Pass) {
	for _, p := range l.Executor.Passes() {
		if p.Instance == l {
			list = append(list, p)
		}
	}
	return list
}

// IsIdle says that nothing is to be done in the instance, nor on the way to it.
func (l *Instance) IsIdle() bool { return !l.Waits() && !l.Comes() && len(l.Passes()) == 0 }

// OwnPages is how many pages a job must hold while it runs here; 0 if it needs none of its own.
func (l *Instance) OwnPages(j *Job) int {
	if j.Asks.Max <= 1 && !l.shared.FullKV {
		return 0
	}
	// The last token generated is never fed back.
	n := len(j.Asks.IDs) + max(j.Asks.Max, 1) - 1
	return (n + l.Limits.BlockTokens - 1) / l.Limits.BlockTokens
}

// ExpectedWork is the work that a job would be in the instance, with what is cached there now, or will be on
// the device once the jobs there that begin as it does have run.
func (l *Instance) ExpectedWork(j *Job) cost.Work {
	if j.Continues() {
		return j.Size(j.Len() - 1).Alone()
	}
	chain, q := j.Chain[:j.Usable()], l.QueueOf(j.Class)
	found := q.Reach(&j.Job)
	cached, loads := q.Useful(found)
	n := q.Shared(chain, found.Device)
	if j.sharesScores() {
		n = max(n, j.UsableOf(l.awaitedBlocks(j)*j.ChainOf))
	}
	for _, p := range l.Executor.passesUpTo(j.Class) {
		for _, other := range p.Items {
			if p.Instance == l && other.ChainOf == j.ChainOf {
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

// AddInstance makes the instance of a model that an executor tells of.
func (e *Executor) AddInstance(m wire.ModelInfo, g *Group) *Instance {
	l := e.newInstance(m, g)
	e.listInstance(l)
	e.Loader.Add(&l.Model)
	return l
}

// listInstance makes an instance one of the executor's.
func (e *Executor) listInstance(l *Instance) {
	e.Instances = append(e.Instances, l)
	e.byName[l.Info.Name] = l
}

// Renew takes in what is told anew of the instance's model: its weights, what it costs, how it is to be kept. Jobs may wait in
// an instance that is useless by it.
func (l *Instance) Renew(m wire.ModelInfo) {
	if l.Info.Keep != m.Keep && l.Keep(m.Keep) != nil {
		m.Keep = l.Info.Keep
	}
	old := l.Info
	l.Info = m
	if !slices.Equal(old.Weights, m.Weights) || old.Work != m.Work {
		l.Executor.Loader.Renew(&l.Model, len(l.Passes()))
	}
	if l.Useless() && l.Waits() || old.Cost == m.Cost {
		return
	}
	jobs := SortBySubmission(l.Jobs())
	for _, j := range jobs {
		l.TakeJob(j)
	}
	l.Cost = cost.New(m.Cost)
	l.newQueues()
	for _, j := range jobs {
		l.Enqueue(j)
	}
}

// leasePages gets a job its pages. The first job that finds too few is the instance's blocked one: until
// it has them, no other job gets pages for more than one pass, so those held run out and it does
// not starve.
func (l *Instance) leasePages(j *Job) bool {
	if j.Lease != nil {
		return true
	}
	found, ok := l.acquirePages(j)
	for !ok && j.Class == Live && l.abortOneLowest() {
		found, ok = l.acquirePages(j)
	}
	if !ok {
		l.blocked[j.Class], j.blocked = j, true
		return false
	}
	if j.blocked {
		l.blocked[j.Class], j.blocked = nil, false
	}
	if j.Generated() == 0 {
		j.Hits = found
	}
	return true
}

// acquirePages asks the instance's cache for a job's pages. A lowest job leaves those to others who wait for some.
func (l *Instance) acquirePages(j *Job) (found int, ok bool) {
	own := l.OwnPages(j)
	if j.Class == Lowest && own > 0 && l.blocked[Live] != nil {
		return 0, false
	}
	q := l.QueueOf(j.Class)
	return l.Cache.LeasePages(&j.Job, own, max(q.Shared(j.Chain, j.Cached), l.awaitedBlocks(j)), j.Class == Lowest, q)
}

// ReleasePages gives a job's pages back.
func (j *Job) ReleasePages() {
	if j.Instance != nil {
		j.Instance.Cache.ReleasePages(&j.Job)
	}
}
