package fleet

import (
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/pages"
	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
	"github.com/prefillonly/prefillonly/scheduler/supply"
)

// Lane is a model on an executor, with the jobs that wait for it there.
type Lane struct {
	supply.Model
	Executor *Executor
	Pool     *Pool
	Cost     cost.Model
	Cache    *pages.Cache
	Queue    *queue.Queue // of requests but the lowest
	Lowest   *queue.Queue // of requests of engine.Lowest

	limits  wire.TokenLimits // of a model of tensors none but those that it makes no use of
	most    int              // jobs in a pass
	margin  float64          // units by which a job must be shorter than what remains of a pass that makes way for it
	frames  frames           // of streams, that are promised nothing
	waiting int              // jobs but the lowest, frames with and without a promise included
	marked  uint64           // by the last job of which a prefix may be here; see Fleet.mark
	blocked [classes]*Job    // wait for pages that other jobs hold; see lease
	turned  wire.PassID      // the last pass that began with a job that generates
	longest float64          // seconds that its passes have taken lately at most
	told    time.Duration    // when a pass last told what they take

	arrivals residency.Arrivals
	used     time.Duration // when a job but a lowest one came last; 0: none has
}

// preemptMargin is by how many tokens a job must be shorter than what remains of a pass, so that a
// pause is worth the layer it waits for.
const preemptMargin = 128

// newLane makes the lane of a model, and says why it cannot be run if that is so.
func (f *Fleet) newLane(e *Executor, info wire.ModelInfo) *Lane {
	p := f.Pool(info.Name)
	l := &Lane{Model: e.Device.NewModel(info, &p.Stats, f.Now), Executor: e, Pool: p, most: f.MaxPassItems}
	l.Of = l
	switch {
	case l.Useless():
	case math.IsNaN(info.Cost.Pair) || math.IsInf(info.Cost.Pair, 0):
		l.Condemn("%v seconds a pair are no cost", info.Cost.Pair)
	case info.Tokens != nil:
		l.limits = *info.Tokens
		l.most, l.margin = min(l.most, l.limits.MaxPassRows), preemptMargin
		if l.limits.VocabSize < 1 || l.limits.MaxModelLen < 1 {
			l.Condemn("a vocabulary of %d and a length of %d make no sense", l.limits.VocabSize, l.limits.MaxModelLen)
		}
	case info.Tensors != nil:
		l.limits = wire.TokenLimits{BlockTokens: 1, MaxPassRows: math.MaxInt}
		l.most, l.margin = min(l.most, info.Tensors.MaxPassItems), 1
	default:
		l.Condemn("it takes neither tokens nor tensors")
	}
	l.Cost = cost.New(info.Cost)
	if err := l.open(f); err != nil {
		l.Condemn("%v", err)
		l.limits = wire.TokenLimits{BlockTokens: 1}
		_ = l.open(f)
	}
	return l
}

// open makes the lane's cache and queues.
func (l *Lane) open(f *Fleet) (err error) {
	if l.limits.BlockTokens == 0 && l.Useless() {
		l.limits.BlockTokens = 1
	}
	if l.Cache, err = pages.New(l.Info.Name, l.limits, f.Eviction, &f.Events, &l.Pool.Stats); err != nil {
		return err
	}
	l.newQueues(f.Policy)
	return nil
}

// newQueues has requests wait in new queues.
func (l *Lane) newQueues(p queue.Policy) {
	l.Queue = queue.New(p, &l.Cost, l.Cache.Index, l.limits.BlockTokens)
	l.Lowest = queue.New(p, &l.Cost, l.Cache.Index, l.limits.BlockTokens)
	l.Cache.Follow(l.Queue, l.Lowest)
}

// push puts a job among those that wait in its lane, and take takes one out.
func (f *Fleet) push(j *Job) {
	l, e := j.Lane, j.Lane.Executor
	switch {
	case j.isPromised():
		e.promise(j)
	case j.isFrame():
		l.frames.add(j, f.Seconds())
		e.feeds++
	default:
		q, line := l.queue(j.class), e.lineOf(j.class)
		line.turns -= q.Generating()
		q.Push(&j.Job)
		line.turns += q.Generating()
	}
	f.waits(l, j.class, 1)
}

func (f *Fleet) take(j *Job) {
	l, e := j.Lane, j.Lane.Executor
	isIt := func(other *Job) bool { return other == j }
	switch {
	case j.isPromised():
		e.promised = slices.DeleteFunc(e.promised, isIt)
	case j.isFrame():
		l.frames.jobs = slices.DeleteFunc(l.frames.jobs, isIt)
		e.feeds--
	default:
		q, line := l.queue(j.class), e.lineOf(j.class)
		line.turns -= q.Generating()
		q.Remove(&j.Job)
		line.turns += q.Generating()
	}
	f.waits(l, j.class, -1)
	if l.blocked[j.class] == j {
		l.blocked[j.class], j.blocked = nil, false
	}
}

// jobs lists those that wait in the lane, in no order that matters.
func (l *Lane) jobs() (list []*Job) {
	for c := range classes {
		for q := range l.queue(c).All() {
			list = append(list, of(q))
		}
	}
	list = append(list, l.frames.jobs...)
	for _, j := range l.Executor.promised {
		if j.Lane == l {
			list = append(list, j)
		}
	}
	return list
}

// unfit says why a lane cannot run a job; nil if it can.
func (f *Fleet) unfit(j *Job, l *Lane) *engine.Error {
	m := j.Asks
	_, tokens := j.Submit.Work.(*engine.Tokens)
	if tokens != (l.Info.Tokens != nil) {
		return engine.Errorf(engine.CodeBadTokens, "model %q takes %s", l.Info.Name, map[bool]string{true: "tensors", false: "tokens"}[tokens])
	}
	if n := len(m.IDs) + m.Max; tokens && n > l.limits.MaxModelLen {
		return engine.Errorf(engine.CodeTooLong, "the prompt has %d tokens and max_tokens is %d, %d together; the limit is %d",
			len(m.IDs), m.Max, n, l.limits.MaxModelLen)
	}
	if need := j.pages(f.FullKV, l.limits.BlockTokens); need > l.limits.NumBlocks {
		return engine.Errorf(engine.CodeTooLong, "%d prompt tokens and %d to generate need %d KV blocks of %d tokens, the cache has %d",
			len(m.IDs), m.Max, need, l.limits.BlockTokens, l.limits.NumBlocks)
	}
	return nil
}

// expected is the work that a job would be in a lane, with what is cached there now, or will be on
// the device once the jobs there that begin as it does have run.
func (l *Lane) expected(j *Job) cost.Work {
	if j.Continues() {
		return j.Size(j.Len() - 1).Alone()
	}
	chain := j.Chain[:j.Usable()]
	q := l.queue(j.class)
	found := q.Reach(&j.Job)
	cached, loads := q.Useful(found)
	n := q.Shared(chain, found.Device)
	for _, p := range l.Executor.under(j.class) {
		for _, other := range p.Items {
			if p.Lane == l && other.ChainOf == j.ChainOf {
				n = max(n, queue.CommonBlocks(other.Chain, chain))
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

// lease gets a job its pages. The first job that finds too few is the lane's blocked one: until
// it has them, no other job gets pages for more than one pass, so those held run out and it does
// not starve.
func (f *Fleet) lease(j *Job) bool {
	if j.Lease != nil {
		return true
	}
	l := j.Lane
	found, ok := f.acquire(j)
	for !ok && j.class == live && f.spare(l) {
		found, ok = f.acquire(j)
	}
	if !ok {
		l.blocked[j.class], j.blocked = j, true
		return false
	}
	if j.blocked {
		l.blocked[j.class], j.blocked = nil, false
	}
	if j.Generated() == 0 {
		j.Hits = found
	}
	return true
}

// acquire asks the lane's cache for a job's pages. A lowest job leaves those to others who wait for some.
func (f *Fleet) acquire(j *Job) (found int, ok bool) {
	l, own := j.Lane, j.pages(f.FullKV, j.Lane.limits.BlockTokens)
	if j.class == lowest && own > 0 && l.blocked[live] != nil {
		return 0, false
	}
	return l.Cache.Lease(&j.Job, own, j.class == lowest, l.queue(j.class))
}

// weights names the model and its weights.
func (l *Lane) weights() string { return l.Info.Name + "\x00" + l.Info.Fingerprint }

// KeepScores keeps what a pass has found of a prompt's positions.
func (f *Fleet) KeepScores(j *Job, found engine.Output) {
	if out, ok := found.(*engine.TokenOutput); ok && j.Asks.Ask.PromptLogprobs && j.Generated() == 0 {
		f.Scores.Add(j.Lane.weights(), j.Chain, j.ChainOf, max(j.Known, 1), j.Asks.Ask.PromptTop, out.Prompt)
	}
}

// Commit makes the blocks that a job's pass has filled matchable.
func (f *Fleet) Commit(j *Job) { j.Lane.Cache.Commit(&j.Job, j.Submit.Salt) }

// Release gives a job's pages back.
func (j *Job) Release() {
	if j.Lane != nil {
		j.Lane.Cache.Release(&j.Job)
	}
}
