package scheduler

import (
	"hash/fnv"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

const (
	// localityWeight is how much the work of a job weighs against the work before it when its
	// executor is chosen by prefix. At 1 each job would finish soonest, and a prefix would be
	// computed on every executor in turn; above 1 the executors' total work counts too.
	localityWeight = 2
	// unknownRate stands for the seconds a token of an executor that has run nothing yet: fast, so
	// that it is tried.
	unknownRate = 1e-4
)

// place finds an executor for a job that has none and puts it in that one's queue, or among the
// orphans of its model, or refuses it when no executor could ever run it. It returns the executor,
// which the caller dispatches; nil if there is none.
func (c *Core) place(j *job) *executor {
	if len(j.pool.executors) == 0 {
		j.state, j.orphaned = stateOrphan, c.now
		j.pool.orphans = append(j.pool.orphans, j)
		return nil
	}
	candidates, err := c.candidates(j)
	if err != nil {
		c.fail(j, err)
		return nil
	}
	e := c.route(j, candidates)
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

// candidates lists the executors that can run a job. Executors whose checkpoint differs from the
// first one's would answer differently, and get no work.
func (c *Core) candidates(j *job) ([]*executor, *engine.Error) {
	var fit []*executor
	var refusal *engine.Error
	for _, e := range j.pool.executors {
		if e.info.Fingerprint != j.pool.executors[0].info.Fingerprint {
			continue
		}
		err := checkFor(e, j.submit)
		if need := j.pages(c.cfg.FullKV, e.info.BlockTokens); err == nil && need > e.info.NumBlocks {
			err = engine.Errorf(engine.CodeTooLong, "%d prompt tokens and %d to generate need %d KV blocks of %d tokens, the cache has %d",
				len(j.submit.Tokens), j.submit.MaxTokens, need, e.info.BlockTokens, e.info.NumBlocks)
		}
		if err == nil {
			fit = append(fit, e)
		} else if refusal == nil {
			refusal = err
		}
	}
	if len(fit) == 0 {
		return nil, refusal
	}
	return fit, nil
}

// route chooses among the executors that can run a job.
func (c *Core) route(j *job, candidates []*executor) *executor {
	if len(candidates) == 1 {
		return candidates[0]
	}
	if c.cfg.Routing == RouteUser && j.submit.User != "" {
		return home(j.submit.User, candidates)
	}
	best, least := candidates[0], math.Inf(1)
	for _, e := range candidates {
		score := e.load(c.now)
		if c.cfg.Routing == RoutePrefix {
			c.hash(j, e)
			score += localityWeight * e.cost.tokens(len(j.seq), e.expected(j))
		}
		if score *= e.perToken(); score < least {
			best, least = e, score
		}
	}
	return best
}

// home is a user's executor by rendezvous hashing: when one dies its users alone move, and they
// come back when it does.
func home(user string, candidates []*executor) *executor {
	var best *executor
	var most uint64
	for _, e := range candidates {
		h := fnv.New64a()
		h.Write([]byte(user))
		h.Write([]byte{0})
		h.Write([]byte(e.peer.name.name))
		if w := mix(h.Sum64()); best == nil || w > most {
			best, most = e, w
		}
	}
	return best
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
	j.chain = nil
	if c.cfg.PrefixCaching && e.info.NumBlocks > 0 {
		j.chain = c.hasher.Chain(j.submit.Tokens, j.chainOf, kvcache.Keys{Salt: j.submit.Salt})
	}
}

// enqueue puts a job in an executor's queue.
func (c *Core) enqueue(j *job, e *executor) {
	c.hash(j, e)
	j.executor, j.state = e, stateWaiting
	j.predicted = e.cost.tokens(len(j.seq), e.expected(j))
	if c.cfg.UserFairness && !j.paced {
		j.aged, j.paced = c.users.pace(j.submit.User, j.aged, e.cost.seconds(j.predicted)), true
	}
	if !j.started {
		j.cachedAtArrival = e.index.Match(j.chain[:j.usable()]) * j.chainOf
	}
	e.queue.push(j)
}

// expected is the number of a job's tokens that are cached on an executor now, or will be once the
// jobs there that begin as it does have run.
func (e *executor) expected(j *job) int {
	if j.continuing() {
		return len(j.seq) - 1
	}
	usable := j.usable()
	chain := j.chain[:usable]
	n := e.queue.shared(chain, e.index.Match(chain), j)
	if e.running != nil {
		for _, other := range e.running.items {
			if other.chainOf == j.chainOf {
				n = max(n, commonBlocks(chain, other.chain))
			}
		}
	}
	return n * j.chainOf
}

// perToken is the predicted time of a token.
func (e *executor) perToken() float64 {
	if e.cost.rate == 0 {
		return unknownRate
	}
	return e.cost.rate
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
	for _, other := range e.pool.executors {
		if other == e {
			continue
		}
		for _, h := range other.queue.heaps {
			for _, j := range h {
				if j.lease == nil && j.submit.User != "" && home(j.submit.User, e.pool.executors) == e {
					moving = append(moving, j)
				}
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
	if c.cfg.Routing == RouteUser {
		return
	}
	var from *executor
	for _, other := range e.pool.executors {
		if other != e && other.queue.size > 0 && (from == nil || other.load(c.now) > from.load(c.now)) {
			from = other
		}
	}
	if from == nil || from.running == nil || from.info.Fingerprint != e.info.Fingerprint {
		return
	}
	j := from.queue.newest
	for j != nil && j.lease != nil {
		j = j.older // its pages are there
	}
	if j == nil || checkFor(e, j.submit) != nil || j.pages(c.cfg.FullKV, e.info.BlockTokens) > e.info.NumBlocks {
		return
	}
	if e.perToken()*e.cost.tokens(len(j.seq), 0) < from.perToken()*from.load(c.now) {
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
