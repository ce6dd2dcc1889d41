package scheduler

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// localityWeight is how much the work of a job weighs against the work before it when its
// executor is chosen by prefix. At 1 each job would finish soonest, and a prefix would be
// computed on every executor in turn; above 1 the executors' total work counts too.
const localityWeight = 2

// place finds an executor for a job that has none and puts it in that one's queue, or among the
// orphans of its model, or refuses it when no executor could ever run it. It returns the executor,
// which the caller dispatches; nil if there is none.
func (c *Core) place(j *job) *executor {
	if len(j.pool.executors) == 0 {
		j.state, j.orphaned = stateOrphan, c.now
		j.pool.orphans = append(j.pool.orphans, j)
		return nil
	}
	err := checkIDs(j.submit, j.pool.serving[0].info.VocabSize)
	e, unfit := c.route(j)
	if err = cmp.Or(err, unfit); err != nil {
		c.fail(j, err)
		return nil
	}
	c.enqueue(j, e)
	return e
}

// placeAll places jobs, and dispatches their executors when all are in their queues, so that the
// policy chooses among all of them.
func (c *Core) placeAll(jobs []*job) {
	var busy []*executor
	for _, j := range jobs {
		if e := c.place(j); e != nil && !slices.Contains(busy, e) {
			busy = append(busy, e)
		}
	}
	for _, e := range busy {
		c.dispatch(e)
	}
}

// unfit says why an executor cannot run a job; nil if it can.
func (c *Core) unfit(j *job, e *executor) *engine.Error {
	m := j.submit
	if n := len(m.Tokens) + m.MaxTokens; n > e.info.MaxModelLen {
		return engine.Errorf(engine.CodeTooLong, "the prompt has %d tokens and max_tokens is %d, %d together; the limit is %d",
			len(m.Tokens), m.MaxTokens, n, e.info.MaxModelLen)
	}
	if need := j.pages(c.cfg.FullKV, e.info.BlockTokens); need > e.info.NumBlocks {
		return engine.Errorf(engine.CodeTooLong, "%d prompt tokens and %d to generate need %d KV blocks of %d tokens, the cache has %d",
			len(m.Tokens), m.MaxTokens, need, e.info.BlockTokens, e.info.NumBlocks)
	}
	return nil
}

// route chooses among the executors that serve a model and can run the job, or says why the first of
// them cannot.
func (c *Core) route(j *job) (*executor, *engine.Error) {
	var best *executor
	var refusal *engine.Error
	byUser := c.cfg.Routing == RouteUser && j.submit.User != ""
	user, least := hashName(j.submit.User), math.Inf(1)
	c.markedFor = nil
	for _, e := range j.pool.serving {
		if err := c.unfit(j, e); err != nil {
			refusal = cmp.Or(refusal, err)
			continue
		}
		score := 0.0
		if byUser {
			score = -home(user, e)
		} else {
			score = c.finish(j, e, least)
		}
		if best == nil || score < least {
			best, least = e, score
		}
	}
	if best == nil {
		return nil, refusal
	}
	return best, nil
}

// finish predicts the seconds until a job would be done on an executor, its own work weighed by
// locality where that counts. Beyond the limit it need not be exact.
func (c *Core) finish(j *job, e *executor, limit float64) float64 {
	seconds := e.load(c.now)
	if c.cfg.Routing == RoutePrefix && seconds < limit {
		c.mark(j, e)
		todo := cost.Alone(len(j.seq), 0)
		if e.marked == c.marks {
			todo = e.expected(j)
		}
		seconds += localityWeight * e.cost.Seconds(todo)
	}
	return seconds
}

// mark marks the executors with which a job may share a prefix, if it has not yet, or not yet with an
// executor's block size.
func (c *Core) mark(j *job, e *executor) {
	if c.markedFor == j && j.chainOf == e.info.BlockTokens {
		return
	}
	c.hash(j, e)
	c.markedFor = j
	c.marks++
	if len(j.chain) == 0 {
		return
	}
	for _, place := range j.pool.places.by[j.chain[0]] {
		place.marked = c.marks
	}
}

// home weighs an executor for a user (rendezvous hashing): the one with the most weight is the
// user's. When it dies its users alone move, and they come back when it does.
func home(user uint64, e *executor) float64 { return float64(mix(user ^ e.salt)) }

func hashName(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return mix(h.Sum64())
}

// mix spreads the entropy of x over all bits (the finaliser of SplitMix64, Steele et al., 2014):
// FNV's high bits hardly depend on the last bytes.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hash computes a job's block chain for an executor's block size.
func (c *Core) hash(j *job, e *executor) {
	if j.chainOf == e.info.BlockTokens {
		return
	}
	j.chainOf = e.info.BlockTokens
	j.chain, j.root = nil, kvcache.Hash{}
	if c.cfg.PrefixCaching && e.info.NumBlocks > 0 {
		keys := kvcache.Keys{Salt: j.submit.Salt}
		j.chain, j.root = c.hasher.Chain(j.submit.Tokens, j.chainOf, keys), c.hasher.Root(keys)
	}
}

// enqueue puts a job in an executor's queue.
func (c *Core) enqueue(j *job, e *executor) {
	c.hash(j, e)
	j.executor, j.state = e, stateWaiting
	j.paged = j.pages(c.cfg.FullKV, e.info.BlockTokens) > 0
	j.predicted = e.expected(j)
	if c.cfg.UserFairness && !j.paced {
		j.aged, j.paced = c.users.pace(j.submit.User, j.aged, e.cost.Seconds(j.predicted)), true
	}
	if !j.started {
		cached, _ := e.queue.useful(e.queue.reach(j))
		j.cachedAtArrival = cached * j.chainOf
	}
	e.queue.push(j)
	e.pool.places.add(j, e)
}

// expected is the work that a job would be on an executor, with what is cached there now, or will be on
// the device once the jobs there that begin as it does have run.
func (e *executor) expected(j *job) cost.Work {
	if j.continuing() {
		return cost.Alone(len(j.seq), len(j.seq)-1)
	}
	chain := j.chain[:j.usable()]
	found := e.queue.reach(j)
	cached, loads := e.queue.useful(found)
	n := e.queue.shared(chain, found.device)
	if e.running != nil {
		for _, other := range e.running.items {
			if other.chainOf == j.chainOf {
				n = max(n, commonBlocks(chain, other.chain))
			}
		}
	}
	if n >= cached {
		cached, loads = n, 0
	}
	w := cost.Alone(len(j.seq), cached*j.chainOf)
	w.Loads = float64(loads)
	return w
}

// adopt gives a new executor the orphans of its model and, when users have homes, the waiting jobs
// whose home it is.
func (c *Core) adopt(e *executor) {
	orphans := e.pool.orphans
	e.pool.orphans = nil
	c.placeAll(orphans)
	if c.cfg.Routing == RouteUser {
		c.bringHome(e)
	}
	c.dispatch(e)
}

// bringHome moves the jobs that wait elsewhere, not started, to the executor that is their user's.
func (c *Core) bringHome(e *executor) {
	var moving []*job
	for _, other := range e.pool.serving {
		if other == e {
			continue
		}
		for j := range other.queue.all() {
			if user := hashName(j.submit.User); j.lease == nil && j.submit.User != "" && home(user, e) > home(user, other) {
				moving = append(moving, j)
			}
		}
	}
	moving = jobsInOrder(slices.Values(moving))
	for _, j := range moving {
		j.executor.take(j)
	}
	c.placeAll(moving)
}

// steal moves the newest job of the most loaded executor of the model to one that has nothing to do,
// if it would be done here before all the work there.
func (c *Core) steal(e *executor) {
	if c.cfg.Routing == RouteUser || e.pool.waiting == 0 || !slices.Contains(e.pool.serving, e) {
		return
	}
	var from *executor
	var most float64
	for _, other := range e.pool.serving {
		if other.queue.size == 0 || other.running == nil {
			continue
		}
		if load := other.load(c.now); load > most {
			from, most = other, load
		}
	}
	if from == nil {
		return
	}
	j := from.queue.newest
	for j != nil && j.lease != nil {
		j = j.older // its pages are there
	}
	if j != nil && c.unfit(j, e) == nil && e.cost.Seconds(cost.Alone(len(j.seq), 0)) < most {
		from.take(j)
		c.enqueue(j, e)
	}
}

// take removes a job from the executor's queue.
func (e *executor) take(j *job) {
	e.queue.remove(j)
	if e.blocked == j {
		e.blocked, j.blocked = nil, false
	}
}
