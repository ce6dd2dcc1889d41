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
	Queue   *queue.OwnedQueue[*Job] // of requests but the lowest
	Lowest  *queue.OwnedQueue[*Job] // of requests of engine.Lowest
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
	inst := &Instance{Model: e.Loader.NewModel(info, &g.Stats, s.Now), Executor: e, Group: g, shared: s, most: s.MaxPassItems}
	switch {
	case inst.Useless():
	case math.IsNaN(info.Cost.Pair) || math.IsInf(info.Cost.Pair, 0):
		inst.Condemn("invalid cost of %v seconds a pair: want a finite number", info.Cost.Pair)
	case info.Tokens != nil:
		inst.Limits = *info.Tokens
		inst.most, inst.margin = min(inst.most, inst.Limits.MaxPassRows), preemptMargin
		if inst.Limits.VocabSize < 1 || inst.Limits.MaxModelLen < 1 {
			inst.Condemn("invalid vocabulary of %d tokens or length of %d: want at least 1", inst.Limits.VocabSize, inst.Limits.MaxModelLen)
		}
	case info.Tensors != nil:
		inst.Limits = wire.TokenLimits{BlockTokens: 1, MaxPassRows: math.MaxInt}
		inst.most, inst.margin = min(inst.most, info.Tensors.MaxPassItems), 1
	default:
		inst.Condemn("it takes neither tokens nor tensors")
	}
	inst.Cost = cost.New(info.Cost)
	inst.frames = newFrameQueue(&inst.Cost, inst.most)
	if err := inst.openCache(); err != nil {
		inst.Condemn("%v", err)
		inst.Limits = wire.TokenLimits{BlockTokens: 1}
		_ = inst.openCache()
	}
	return inst
}

// openCache makes the instance's cache and queues.
func (inst *Instance) openCache() (err error) {
	if inst.Limits.BlockTokens == 0 && inst.Useless() {
		inst.Limits.BlockTokens = 1
	}
	if inst.Cache, err = NewPrefixCache(inst.Info.Name, inst.Limits, inst.shared.Eviction, &inst.shared.Events, &inst.Group.Stats); err != nil {
		return err
	}
	inst.newQueues()
	return nil
}

// newQueues has requests wait in new queues.
func (inst *Instance) newQueues() {
	inst.Queue = queue.NewOwned[*Job](inst.shared.Policy, &inst.Cost, inst.Cache.Index, inst.Limits.BlockTokens)
	inst.Lowest = queue.NewOwned[*Job](inst.shared.Policy, &inst.Cost, inst.Cache.Index, inst.Limits.BlockTokens)
	inst.Cache.SetFollowers(inst.Queue.Queue, inst.Lowest.Queue)
}

// QueueOf is where jobs of a class wait.
func (inst *Instance) QueueOf(c Class) *queue.OwnedQueue[*Job] {
	if c == Lowest {
		return inst.Lowest
	}
	return inst.Queue
}

// Enqueue puts a job in the instance.
func (inst *Instance) Enqueue(j *Job) {
	s := inst.shared
	inst.ChainJob(j)
	j.Instance, j.State = inst, Waiting
	j.Paged = inst.OwnPages(j) > 0
	j.Predicted = inst.ExpectedWork(j)
	if s.UserFairness && !j.paced && j.Class == Live {
		j.Aged, j.paced = s.users.PaceUser(j.Submit.User, j.Aged, inst.Cost.Seconds(j.Predicted)), true
	}
	if !j.Started {
		cached, _ := inst.Queue.Useful(inst.Queue.Reach(&j.Job))
		j.CachedAtArrival = cached * j.ChainOf
		if j.Class == Live {
			inst.Came(s.Now)
		}
		if j.IsFrame() {
			s.ExpireAt(&j.expiry, inst.frames.LatestStart(j))
		}
	}
	inst.pushJob(j)
}

// ChainJob computes a job's block chain for the instance's block size, and finds what is known of it.
func (inst *Instance) ChainJob(j *Job) {
	anew := inst.Cache.ChainPrompt(&inst.shared.hasher, &j.Job, j.Submit.CacheSalt(), inst.shared.PrefixCaching)
	if j.sharesScores() {
		inst.findScores(j, anew)
	}
}

// pushJob puts a job among those that wait in the instance, and Take takes one out.
func (inst *Instance) pushJob(j *Job) {
	e := inst.Executor
	switch {
	case j.IsPromised():
		e.promised = insertFrame(e.promised, j)
	case j.IsFrame():
		inst.frames.PushFrame(j, inst.shared.Now)
		e.feeds++
	default:
		q, line := inst.QueueOf(j.Class), &e.lines[j.Class]
		line.turns -= q.Generating()
		q.Push(&j.Job, j)
		line.turns += q.Generating()
		if j.sharesScores() {
			inst.shared.Scores.AwaitScores(&j.Scores)
		}
	}
	inst.countWaiting(j.Class, 1)
}

// TakeJob takes a job out of those that wait in the instance.
func (inst *Instance) TakeJob(j *Job) {
	e := inst.Executor
	switch {
	case j.IsPromised():
		e.promised = removeFrame(e.promised, j)
	case j.IsFrame():
		inst.frames.RemoveFrame(j)
		e.feeds--
	default:
		q, line := inst.QueueOf(j.Class), &e.lines[j.Class]
		line.turns -= q.Generating()
		q.Remove(&j.Job)
		line.turns += q.Generating()
		inst.shared.Scores.StopAwaiting(&j.Scores)
	}
	inst.countWaiting(j.Class, -1)
	if inst.blocked[j.Class] == j {
		inst.blocked[j.Class], j.blocked = nil, false
	}
}

// Jobs lists those that wait in the instance, in no order that matters.
func (inst *Instance) Jobs() (list []*Job) {
	for c := range Classes {
		list = slices.AppendSeq(list, inst.QueueOf(c).Owners())
	}
	list = append(list, inst.frames.AllFrames()...)
	for _, j := range inst.Executor.promised {
		if j.Instance == inst {
			list = append(list, j)
		}
	}
	return list
}

// Waits says that jobs wait in the instance.
func (inst *Instance) Waits() bool { return inst.waiting+inst.Lowest.Len() > 0 }

// NewestJob is the job of a class that came last and holds no pages yet; nil if there is none.
func (inst *Instance) NewestJob(c Class) *Job {
	for j := range inst.QueueOf(c).Owners() {
		if j.Lease == nil {
			return j
		}
	}
	return nil
}

// Passes lists the passes of the instance.
func (inst *Instance) Passes() (list []*Pass) {
	for _, p := range inst.Executor.Passes() {
		if p.Instance == inst {
			list = append(list, p)
		}
	}
	return list
}

// IsIdle says that nothing is to be done in the instance, nor on the way to it.
func (inst *Instance) IsIdle() bool { return !inst.Waits() && !inst.Comes() && len(inst.Passes()) == 0 }

// OwnPages is how many pages a job must hold while it runs here; 0 if it needs none of its own.
func (inst *Instance) OwnPages(j *Job) int {
	if j.Asks.Max <= 1 && !inst.shared.FullKV {
		return 0
	}
	// The last token generated is never fed back.
	n := len(j.Asks.IDs) + max(j.Asks.Max, 1) - 1
	return (n + inst.Limits.BlockTokens - 1) / inst.Limits.BlockTokens
}

// ExpectedWork is the work that a job would be in the instance, with what is cached there now, or will be on
// the device once the jobs there that begin as it does have run.
func (inst *Instance) ExpectedWork(j *Job) cost.Work {
	if j.Continues() {
		return j.Size(j.Len() - 1).Alone()
	}
	chain, q := j.Chain[:j.Usable()], inst.QueueOf(j.Class)
	found := q.Reach(&j.Job)
	cached, loads := q.Useful(found)
	n := q.Shared(chain, found.Device)
	if j.sharesScores() {
		n = max(n, j.UsableOf(inst.awaitedBlocks(j)*j.ChainOf))
	}
	for _, p := range inst.Executor.passesUpTo(j.Class) {
		for _, other := range p.Items {
			if p.Instance == inst && other.ChainOf == j.ChainOf {
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
	inst := e.newInstance(m, g)
	e.listInstance(inst)
	e.Loader.Add(&inst.Model)
	return inst
}

// listInstance makes an instance one of the executor's.
func (e *Executor) listInstance(inst *Instance) {
	e.Instances = append(e.Instances, inst)
	e.byName[inst.Info.Name] = inst
}

// Renew takes in what is told anew of the instance's model: its weights, what it costs, how it is to be kept. Jobs may wait in
// an instance that is useless by it.
func (inst *Instance) Renew(m wire.ModelInfo) {
	if inst.Info.Keep != m.Keep && inst.Keep(m.Keep) != nil {
		m.Keep = inst.Info.Keep
	}
	old := inst.Info
	inst.Info = m
	if !slices.Equal(old.Weights, m.Weights) || old.Work != m.Work {
		inst.Executor.Loader.Renew(&inst.Model, len(inst.Passes()))
	}
	if inst.Useless() && inst.Waits() || old.Cost == m.Cost {
		return
	}
	jobs := SortBySubmission(inst.Jobs())
	for _, j := range jobs {
		inst.TakeJob(j)
	}
	inst.Cost = cost.New(m.Cost)
	inst.newQueues()
	for _, j := range jobs {
		inst.Enqueue(j)
	}
}

// leasePages gets a job its pages. The first job that finds too few is the instance's blocked one: until
// it has them, no other job gets pages for more than one pass, so those held run out and it does
// not starve.
func (inst *Instance) leasePages(j *Job) bool {
	if j.Lease != nil {
		return true
	}
	found, ok := inst.acquirePages(j)
	for !ok && j.Class == Live && inst.abortOneLowest() {
		found, ok = inst.acquirePages(j)
	}
	if !ok {
		inst.blocked[j.Class], j.blocked = j, true
		return false
	}
	if j.blocked {
		inst.blocked[j.Class], j.blocked = nil, false
	}
	if j.Generated() == 0 {
		j.Hits = found
	}
	return true
}

// acquirePages asks the instance's cache for a job's pages. A lowest job leaves those to others who wait for some.
func (inst *Instance) acquirePages(j *Job) (found int, ok bool) {
	own := inst.OwnPages(j)
	if j.Class == Lowest && own > 0 && inst.blocked[Live] != nil {
		return 0, false
	}
	q := inst.QueueOf(j.Class)
	return inst.Cache.LeasePages(&j.Job, own, max(q.Shared(j.Chain, j.Cached), inst.awaitedBlocks(j)), j.Class == Lowest, q.Queue)
}

// ReleasePages gives a job's pages back.
func (j *Job) ReleasePages() {
	if j.Instance != nil {
		j.Instance.Cache.ReleasePages(&j.Job)
	}
}
