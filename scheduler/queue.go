package scheduler

import (
	"cmp"
	"iter"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/rotation"
)

// queue holds the jobs that wait for one executor, and follows the executor's index: those of which a
// prompt is to be computed in the order of the policy, and those that go on from a token in turns. A turn
// is one token, whatever the policy; see executor.passedOver for how the two share the executor.
type queue struct {
	policy      policy
	aging       agingPolicy // policy, if its order changes with time alone; else nil
	cost        *cost.Model // of the executor
	index       *kvcache.Index
	blockTokens int
	plain       *order // of the jobs that can run whatever others hold
	paged       *order // of those that need pages of their own
	generating  rotation.Queue[flow, *job]
	newest      *job // the last one pushed; older ones are linked from it
	size        int
	total       *int      // jobs waiting in all queues of the pool
	predicted   cost.Work // of all, with prefixes shared by several jobs counted once
}

// flow is whose turn it is to generate: a user's, where fairness is among users, or else a job's.
type flow struct {
	user string
	job  engine.JobID
}

func newQueue(p policy, cost *cost.Model, index *kvcache.Index, blockTokens int, total *int) *queue {
	q := &queue{policy: p, cost: cost, index: index, blockTokens: blockTokens, total: total}
	q.aging, _ = p.(agingPolicy)
	q.plain, q.paged = newOrder(q), newOrder(q)
	return q
}

// saved is what a prefix in the cache takes off the key of any job.
func (q *queue) saved(r reach) float64 {
	cached, loads := q.useful(r)
	return q.savedTokens(cached*q.blockTokens, loads)
}

func (q *queue) savedTokens(cached, loads int) float64 {
	if p, ok := q.policy.(calibratedPolicy); ok {
		return p.saved(q.cost, cached) - q.cost.Load*float64(loads)
	}
	return 0
}

// useful is what of a prefix in the cache is worth having; see cost.Model.
func (q *queue) useful(r reach) (cached, loads int) {
	return q.cost.Useful(r.device, r.all, q.blockTokens)
}

// reach looks a job's prefix up in the index.
func (q *queue) reach(j *job) (r reach) {
	r.device, r.all = q.index.Reach(j.chain[:j.usable()])
	return r
}

// push adds a job whose executor is set.
func (q *queue) push(j *job) {
	if j.continuing() {
		j.loads = 0
		j.turn = q.generating.Push(j.flow, j)
	} else {
		q.orderOf(j).push(j)
	}
	if j.older = q.newest; j.older != nil {
		j.older.newer = j
	}
	q.newest = j
	q.size++
	*q.total++
	q.predicted.Add(j.predicted)
}

// orderOf is where a job that is to be computed waits.
func (q *queue) orderOf(j *job) *order {
	if j.paged {
		return q.paged
	}
	return q.plain
}

// remove takes a job out, with job.cached and job.loads as they are now.
func (q *queue) remove(j *job) {
	if j.turn != nil {
		q.generating.Remove(j.turn)
	} else {
		q.find(j)
		q.orderOf(j).remove(j)
	}
	if j.newer != nil {
		j.newer.older = j.older
	} else {
		q.newest = j.older
	}
	if j.older != nil {
		j.older.newer = j.newer
	}
	j.leave()
	q.size--
	*q.total--
	q.predicted.Subtract(j.predicted)
	if q.size == 0 {
		q.predicted = cost.Work{} // sheds what rounding has left
	}
}

// find sets how many leading blocks, and how many tokens after them, a pass starting now would have from
// the cache, of a job that waits to be computed.
func (q *queue) find(j *job) {
	j.found(q.useful(q.orderOf(j).tree.reach(j)))
	if s := j.sequence(); j.loads == 0 && s.Tokens != nil {
		j.part = q.index.Part(&s, j.chain, j.cached).Tokens
	}
}

// turn returns the job whose turn it is to generate a token; nil when none is to.
func (q *queue) turn() *job {
	j, _ := q.generating.First()
	return j
}

// all yields the waiting jobs, those pushed last first.
func (q *queue) all() iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for j := q.newest; j != nil; {
			older := j.older // j may be taken out
			if !yield(j) {
				return
			}
			j = older
		}
	}
}

// min returns the job that the policy runs next, with job.cached and job.loads as they are now; nil when
// none waits to be computed. If there is one that is blocked for want of pages, it stands for all that need
// pages: none of them goes before it.
func (q *queue) min(now float64, blocked *job) *job {
	best, rival := q.plain.min(now), blocked
	if rival == nil {
		rival = q.paged.min(now)
	}
	if best == nil || rival != nil && q.sooner(rival, best, now) {
		best = rival
	}
	if best != nil {
		q.find(best)
	}
	return best
}

// minPlain is min among the jobs that need no pages.
func (q *queue) minPlain(now float64) *job {
	best := q.plain.min(now)
	if best != nil {
		q.find(best)
	}
	return best
}

// sooner says whether the policy runs one waiting job before another.
func (q *queue) sooner(a, b *job, now float64) bool {
	x, y := q.rank(a, now), q.rank(b, now)
	return x < y || x == y && a.order < b.order
}

// rank is by what the policy orders jobs in the end; the smallest runs next.
func (q *queue) rank(j *job, now float64) float64 {
	if q.aging != nil {
		return q.aging.score(j.class, j.key, now)
	}
	return j.key - j.node.group().saved
}

// stored follows blocks that became matchable.
func (q *queue) stored(hashes []kvcache.Hash) {
	q.plain.tree.stored(hashes)
	q.paged.tree.stored(hashes)
}

// evicted follows blocks that left the device, of which those lost, or others, are not in host memory.
func (q *queue) evicted(hashes, lost []kvcache.Hash) {
	for _, o := range []*order{q.plain, q.paged} {
		o.tree.lost(lost)
		o.tree.evicted(hashes)
	}
}

// wanted says whether a waiting job would read this block and none after it.
func (q *queue) wanted(h kvcache.Hash) bool { return q.plain.tree.wanted(h) || q.paged.tree.wanted(h) }

// shared returns how many leading blocks of a chain, of which resident are so, some waiting job
// begins with too.
func (q *queue) shared(chain []kvcache.Hash, resident int) int {
	return max(resident, q.plain.tree.shared(chain), q.paged.tree.shared(chain))
}

// begins says whether a waiting job's prompt begins with a block.
func (q *queue) begins(h kvcache.Hash) bool {
	return q.plain.tree.first[h] != nil || q.paged.tree.first[h] != nil
}

// jobsInOrder sorts jobs by order of submission.
func jobsInOrder(jobs iter.Seq[*job]) []*job {
	return slices.SortedFunc(jobs, func(a, b *job) int { return cmp.Compare(a.order, b.order) })
}
