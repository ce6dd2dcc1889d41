// Package queue orders the jobs that wait for one model on one executor: those that are to be computed by a
// policy, which may heed what the cache holds of their prompts, and those that generate in turns. A Rotation gives flows their
// turns; a DeadlineHeap says which job expires next.
package queue

import (
	"iter"

	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// Queue holds jobs that wait, and follows the index in which their prefixes are cached: those of which a
// prompt is to be computed in the order of the policy, and those that go on from a token in turns. A turn
// is one token, whatever the policy.
type Queue struct {
	Predicted cost.Work // of all, with prefixes shared by several jobs counted once

	policy      Policy
	aging       Aging       // policy, if its order changes with time alone; else nil
	cost        *cost.Model // of the model on the executor
	index       *kvcache.Index
	blockTokens int
	plain       *order // of the jobs that can run whatever others hold
	paged       *order // of those that need pages of their own
	generating  Rotation[Flow, *Job]
	newest      *Job // the last one pushed; older ones are linked from it
	size        int
}

// New makes an empty Queue over an index of blocks of so many tokens.
func New(p Policy, m *cost.Model, index *kvcache.Index, blockTokens int) *Queue {
	q := &Queue{policy: p, cost: m, index: index, blockTokens: blockTokens}
	q.aging, _ = p.(Aging)
	q.plain, q.paged = newOrder(q), newOrder(q)
	return q
}

// Len is the number of jobs that wait.
func (q *Queue) Len() int { return q.size }

// Generating is the number of them that go on from a token.
func (q *Queue) Generating() int { return q.generating.Len() }

// savedByPrefix is what a prefix in the cache takes off the key of any job.
func (q *Queue) savedByPrefix(r Reach) float64 {
	cached, loads := q.Useful(r)
	return q.savedTokens(cached*q.blockTokens, loads)
}

func (q *Queue) savedTokens(cached, loads int) float64 {
	if p, ok := q.policy.(Calibrated); ok {
		return p.Saved(q.cost, cached) - q.cost.Load*float64(loads)
	}
	return 0
}

// Useful is what of a prefix in the cache is worth having; see cost.Model.
func (q *Queue) Useful(r Reach) (cached, loads int) {
	return q.cost.Useful(r.Device, r.All, q.blockTokens)
}

// Reach looks a job's prefix up in the index.
func (q *Queue) Reach(j *Job) (r Reach) {
	r.Device, r.All = q.index.Reach(j.Chain[:j.Usable()])
	return r
}

// Push adds a job. What decides its order, with Predicted, does not change until it is taken out, but by Change.
func (q *Queue) Push(j *Job) {
	if j.Continues() {
		j.Loads = 0
		j.turn = q.generating.Push(j.Flow, j)
	} else {
		q.orderOf(j).pushJob(j)
	}
	if j.older = q.newest; j.older != nil {
		j.older.newer = j
	}
	q.newest = j
	q.size++
	q.Predicted.Add(j.Predicted)
}

// orderOf is where a job that is to be computed waits.
func (q *Queue) orderOf(j *Job) *order {
	if j.Paged {
		return q.paged
	}
	return q.plain
}

// Remove takes a job out, with what it finds of the cache as it is now.
func (q *Queue) Remove(j *Job) {
	if j.turn != nil {
		q.generating.Remove(j.turn)
	} else {
		q.Find(j)
		q.orderOf(j).removeJob(j)
	}
	if j.newer != nil {
		j.newer.older = j.older
	} else {
		q.newest = j.older
	}
	if j.older != nil {
		j.older.newer = j.newer
	}
	j.node, j.turn, j.older, j.newer = nil, nil, nil, nil
	q.size--
	q.Predicted.Subtract(j.Predicted)
	if q.size == 0 {
		q.Predicted = cost.Work{} // sheds what rounding has left
	}
}

// Change changes what decides the order of a job that waits to be computed, or its Predicted.
func (q *Queue) Change(j *Job, change func()) {
	q.orderOf(j).removeJob(j)
	q.Predicted.Subtract(j.Predicted)
	change()
	q.orderOf(j).pushJob(j)
	q.Predicted.Add(j.Predicted)
}

// Find sets what a pass starting now would have from the cache, of a job that waits to be computed.
func (q *Queue) Find(j *Job) {
	j.Found(q.Useful(q.orderOf(j).tree.residentReach(j)))
	if s := j.Compared(); j.Loads == 0 && s.Tokens != nil {
		j.Part = q.index.Part(&s, j.Chain, j.Cached).Tokens
	}
}

// Turn returns the job whose turn it is to generate a token; nil when none is to.
func (q *Queue) Turn() *Job {
	j, _ := q.generating.First()
	return j
}

// All yields the waiting jobs, those pushed last first.
func (q *Queue) All() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for j := q.newest; j != nil; {
			older := j.older // j may be taken out
			if !yield(j) {
				return
			}
			j = older
		}
	}
}

// First returns the job that the policy runs next; nil when none waits to be computed. If there is one that is
// blocked for want of pages, it stands for all that need pages: none of them goes before it.
func (q *Queue) First(now float64, blocked *Job) *Job {
	best, rival := q.plain.minJob(now), blocked
	if rival == nil {
		rival = q.paged.minJob(now)
	}
	if best == nil || rival != nil && q.isSooner(rival, best, now) {
		best = rival
	}
	return best
}

// FirstPlain is First among the jobs that need no pages.
func (q *Queue) FirstPlain(now float64) *Job { return q.plain.minJob(now) }

// Weigh gives by what a waiting job is compared with those of other queues.
func (q *Queue) Weigh(j *Job, s Scale) float64 {
	return q.policy.Weigh(j, q.policyRank(j, s.Now), s)
}

// isSooner says whether the policy runs one waiting job before another.
func (q *Queue) isSooner(a, b *Job, now float64) bool {
	x, y := q.policyRank(a, now), q.policyRank(b, now)
	return x < y || x == y && a.Order < b.Order
}

// policyRank is by what the policy orders jobs in the end; the smallest runs next.
func (q *Queue) policyRank(j *Job, now float64) float64 {
	if q.aging != nil {
		return q.aging.Score(j.class, j.key, now)
	}
	return j.key - j.node.groupLeader().saved
}

// Stored follows blocks that became matchable.
func (q *Queue) Stored(hashes []kvcache.Hash) {
	q.plain.tree.markStored(hashes)
	q.paged.tree.markStored(hashes)
}

// Evicted follows blocks that left the device, of which those lost, or others, are not in host memory.
func (q *Queue) Evicted(hashes, lost []kvcache.Hash) {
	for _, o := range []*order{q.plain, q.paged} {
		o.tree.markLost(lost)
		o.tree.markEvicted(hashes)
	}
}

// Wanted says whether a waiting job would read this block and none after it.
func (q *Queue) Wanted(h kvcache.Hash) bool {
	return q.plain.tree.isWanted(h) || q.paged.tree.isWanted(h)
}

// Shared returns how many leading blocks of a chain, of which resident are so, some waiting job
// begins with too.
func (q *Queue) Shared(chain []kvcache.Hash, resident int) int {
	return max(resident, q.plain.tree.sharedBlocks(chain), q.paged.tree.sharedBlocks(chain))
}

// Begins says whether a waiting job's prompt begins with a block.
func (q *Queue) Begins(h kvcache.Hash) bool {
	return q.plain.tree.first[h] != nil || q.paged.tree.first[h] != nil
}

// WeighTurn gives by what the job whose turn it is to generate is compared with those of other queues.
func (q *Queue) WeighTurn(s Scale) float64 {
	j := q.Turn()
	if q.aging != nil {
		j.class = q.aging.Class(j, q.cost)
	}
	return q.policy.Weigh(j, q.policy.Key(j, q.cost)-q.savedTokens(j.CachedTokens(), 0), s)
}
