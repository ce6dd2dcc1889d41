package scheduler

import (
	"cmp"
	"iter"
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// queue holds the jobs that wait for one executor, in the order of the policy, and follows the
// executor's index.
//
// What a change of the cache costs does not depend on how many jobs wait, as the policy's keys are
// kept without what the cache saves; see tree. Under an agingPolicy alone each job whose resident
// prefix changes finds its class anew.
type queue struct {
	policy      policy
	aging       agingPolicy // policy, if its order changes with time alone; else nil
	cost        *costModel  // of the executor
	index       *kvcache.Index
	blockTokens int
	tree        *tree
	heaps       []minHeap[classed] // of the aging policy, one a class
	classes     []int              // classes of heaps, ascending
	newest      *job               // the last one pushed; older ones are linked from it
	size        int
	total       *int // jobs waiting in all queues of the pool
	predicted   work // of all, with prefixes shared by several jobs counted once
}

func newQueue(p policy, cost *costModel, index *kvcache.Index, blockTokens int, total *int) *queue {
	q := &queue{policy: p, cost: cost, index: index, blockTokens: blockTokens, total: total}
	if q.aging, _ = p.(agingPolicy); q.aging != nil {
		q.tree = newTree(index.HostBlocks() > 0, q.saved, q.reclass)
	} else {
		q.tree = newTree(index.HostBlocks() > 0, q.saved, nil)
	}
	return q
}

// saved is what a prefix in the cache takes off the key of any job.
func (q *queue) saved(r reach) float64 {
	cached, loads := q.useful(r)
	return q.savedTokens(cached*q.blockTokens, loads)
}

func (q *queue) savedTokens(cached, loads int) float64 {
	if p, ok := q.policy.(calibratedPolicy); ok {
		return p.saved(q.cost, cached) - q.cost.load*float64(loads)
	}
	return 0
}

// useful is what of a prefix in the cache is worth having; see costModel.
func (q *queue) useful(r reach) (cached, loads int) { return q.cost.useful(r, q.blockTokens) }

// reach looks a job's prefix up in the index.
func (q *queue) reach(j *job) (r reach) {
	r.device, r.all = q.index.Reach(j.chain[:j.usable()])
	return r
}

// push adds a job whose executor is set.
func (q *queue) push(j *job) {
	j.key = q.policy.key(j)
	if j.continuing() {
		j.key -= q.savedTokens(j.cachedTokens(), 0)
		j.loads = 0
		q.tree.hold(j)
	} else {
		found := q.reach(j)
		j.cached, j.loads = q.useful(found)
		q.tree.insert(j, j.chain[:j.usable()], found)
	}
	if q.aging != nil {
		q.classify(j)
	}
	if j.older = q.newest; j.older != nil {
		j.older.newer = j
	}
	q.newest = j
	q.size++
	*q.total++
	q.predicted.add(j.predicted)
}

// remove takes a job out, with job.cached and job.loads as they are now.
func (q *queue) remove(j *job) {
	q.find(j)
	q.tree.remove(j)
	if q.aging != nil {
		q.heaps[q.heapOf(j.class)].remove(j.heapIndex)
	}
	if j.newer != nil {
		j.newer.older = j.older
	} else {
		q.newest = j.older
	}
	if j.older != nil {
		j.older.newer = j.newer
	}
	j.node, j.older, j.newer = nil, nil, nil
	q.size--
	*q.total--
	q.predicted.subtract(j.predicted)
	if q.size == 0 {
		q.predicted = work{} // sheds what rounding has left
	}
}

// find sets how many leading blocks of a waiting job a pass starting now would have from the cache.
func (q *queue) find(j *job) {
	if !j.continuing() {
		j.cached, j.loads = q.useful(q.tree.reach(j))
	}
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

// min returns the job to run next, with job.cached and job.loads as they are now; nil when none waits.
func (q *queue) min(now float64) *job {
	best := q.tree.min()
	if q.aging != nil {
		best = q.oldest(now)
	}
	if best != nil {
		q.find(best)
	}
	return best
}

// oldest compares the first jobs of the aging policy's classes.
func (q *queue) oldest(now float64) *job {
	var best *job
	var bestScore float64
	for _, h := range q.heaps {
		if len(h) == 0 {
			continue
		}
		j := h[0].job
		score := q.aging.score(j.class, j.key, now)
		if best == nil || score < bestScore || score == bestScore && j.order < best.order {
			best, bestScore = j, score
		}
	}
	return best
}

// classed is a job in the heap of its class.
type classed struct{ *job }

func (c classed) before(other classed) bool { return earlier(c.job, other.job) }
func (c classed) moved(to int)              { c.heapIndex = to }

// classify puts a job in the heap of its class.
func (q *queue) classify(j *job) {
	j.class = q.aging.class(j)
	q.heaps[q.heapOf(j.class)].push(classed{j})
}

// reclass follows a change of a job's resident prefix.
func (q *queue) reclass(j *job, found reach) {
	j.cached, j.loads = q.useful(found)
	if q.aging.class(j) != j.class {
		q.heaps[q.heapOf(j.class)].remove(j.heapIndex)
		q.classify(j)
	}
}

// heapOf returns the position of a class's heap, made when it is the first of its class.
func (q *queue) heapOf(class int) int {
	i, found := slices.BinarySearch(q.classes, class)
	if !found {
		q.classes = slices.Insert(q.classes, i, class)
		q.heaps = slices.Insert(q.heaps, i, nil)
	}
	return i
}

// stored follows blocks that became matchable.
func (q *queue) stored(hashes []kvcache.Hash) { q.tree.stored(hashes) }

// evicted follows blocks that left the device, of which those lost, or others, are not in host memory.
func (q *queue) evicted(hashes, lost []kvcache.Hash) {
	q.tree.lost(lost)
	q.tree.evicted(hashes)
}

// firstHolder returns the waiting job of the smallest key that holds pages, nil if none does.
func (q *queue) firstHolder() *job { return q.tree.held.best }

// wanted says whether a waiting job would read this block and none after it.
func (q *queue) wanted(h kvcache.Hash) bool { return q.tree.wanted(h) }

// shared returns how many leading blocks of a chain, of which resident are so, some waiting job
// begins with too.
func (q *queue) shared(chain []kvcache.Hash, resident int) int {
	return max(resident, q.tree.shared(chain))
}

// jobsInOrder sorts jobs by order of submission.
func jobsInOrder(jobs iter.Seq[*job]) []*job {
	return slices.SortedFunc(jobs, func(a, b *job) int { return cmp.Compare(a.order, b.order) })
}
