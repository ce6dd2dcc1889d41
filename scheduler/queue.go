package scheduler

import (
	"container/heap"
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// jobHeap is a heap of jobs by key, ties by order of submission.
type jobHeap []*job

func (h jobHeap) Len() int { return len(h) }
func (h jobHeap) Less(a, b int) bool {
	return h[a].key < h[b].key || h[a].key == h[b].key && h[a].order < h[b].order
}
func (h jobHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].heapIndex, h[b].heapIndex = a, b
}
func (h *jobHeap) Push(x any) {
	j := x.(*job)
	j.heapIndex = len(*h)
	*h = append(*h, j)
}
func (h *jobHeap) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return j
}

// A job waits for two events that change its resident prefix: its next missing block is stored, or
// its last present one is evicted.
const (
	waitMissing = iota
	waitPresent
	numWaits
)

// waitLink is a job's place in one list of waiters.
type waitLink struct {
	next, prev *job
	hash       kvcache.Hash
	listed     bool
}

// waiters are the jobs that wait for an event of one kind, in lists by block.
type waiters struct {
	kind  int
	heads map[kvcache.Hash]*job
}

func (w *waiters) add(j *job, h kvcache.Hash) {
	head := w.heads[h]
	j.links[w.kind] = waitLink{next: head, hash: h, listed: true}
	if head != nil {
		head.links[w.kind].prev = j
	}
	w.heads[h] = j
}

func (w *waiters) remove(j *job) {
	l := j.links[w.kind]
	if !l.listed {
		return
	}
	switch {
	case l.prev != nil:
		l.prev.links[w.kind].next = l.next
	case l.next != nil:
		w.heads[l.hash] = l.next
	default:
		delete(w.heads, l.hash)
	}
	if l.next != nil {
		l.next.links[w.kind].prev = l.prev
	}
	j.links[w.kind] = waitLink{}
}

// queue holds the jobs that wait for one executor, in the order of the policy, and follows the
// executor's index: a job's key is computed anew when the resident part of its prefix changes, and
// only then.
type queue struct {
	policy    policy
	aging     agingPolicy // policy, if its order changes with time alone; else nil
	index     *kvcache.Index
	heaps     []jobHeap // one, or one a class of the aging policy
	classes   []int     // classes of heaps, ascending
	missing   waiters
	present   waiters
	newest    *job // the last one pushed; older ones are linked from it
	size      int
	total     *int    // jobs waiting in all queues of the pool
	predicted float64 // tokens of work, with prefixes shared by several jobs counted once
}

func newQueue(p policy, index *kvcache.Index, total *int) *queue {
	q := &queue{
		policy: p, index: index, total: total,
		missing: waiters{waitMissing, map[kvcache.Hash]*job{}},
		present: waiters{waitPresent, map[kvcache.Hash]*job{}},
	}
	if q.aging, _ = p.(agingPolicy); q.aging == nil {
		q.heaps = make([]jobHeap, 1)
	}
	return q
}

// push adds a job whose executor is set.
func (q *queue) push(j *job) {
	q.watch(j)
	q.place(j)
	if j.older = q.newest; j.older != nil {
		j.older.newer = j
	}
	q.newest = j
	q.size++
	*q.total++
	q.predicted += j.predicted
}

// remove takes a job out.
func (q *queue) remove(j *job) {
	q.missing.remove(j)
	q.present.remove(j)
	heap.Remove(&q.heaps[q.heapOf(j.class)], j.heapIndex)
	if j.newer != nil {
		j.newer.older = j.older
	} else {
		q.newest = j.older
	}
	if j.older != nil {
		j.older.newer = j.newer
	}
	j.older, j.newer = nil, nil
	q.size--
	*q.total--
	q.predicted -= j.predicted
	if q.size == 0 {
		q.predicted = 0 // sheds what rounding has left
	}
}

// min returns the job to run next, nil when none waits.
func (q *queue) min(now float64) *job {
	var best *job
	var bestScore float64
	for i := range q.heaps {
		if len(q.heaps[i]) == 0 {
			continue
		}
		j := q.heaps[i][0]
		if q.aging == nil {
			return j
		}
		score := q.aging.score(j.class, j.key, now)
		if best == nil || score < bestScore || score == bestScore && j.order < best.order {
			best, bestScore = j, score
		}
	}
	return best
}

// place computes a job's key and puts it in its heap.
func (q *queue) place(j *job) {
	j.key = q.policy.key(j)
	if q.aging != nil {
		j.class = q.aging.class(j)
	}
	heap.Push(&q.heaps[q.heapOf(j.class)], j)
}

// heapOf returns the position of a class's heap, made when it is the first of its class.
func (q *queue) heapOf(class int) int {
	if q.aging == nil {
		return 0
	}
	i, found := slices.BinarySearch(q.classes, class)
	if !found {
		q.classes = slices.Insert(q.classes, i, class)
		q.heaps = slices.Insert(q.heaps, i, nil)
	}
	return i
}

// watch matches a job's prefix and lists it under the blocks whose coming or going changes that.
func (q *queue) watch(j *job) {
	if j.continuing() {
		return // its pages are its own
	}
	usable := j.usable()
	j.cached = q.index.Match(j.chain[:usable])
	if j.cached < usable {
		q.missing.add(j, j.chain[j.cached])
	}
	if j.cached > 0 {
		q.present.add(j, j.chain[j.cached-1])
	}
}

// stored follows blocks that became matchable, evicted those that went.
func (q *queue) stored(hashes []kvcache.Hash)  { q.rekey(&q.missing, hashes) }
func (q *queue) evicted(hashes []kvcache.Hash) { q.rekey(&q.present, hashes) }

// rekey matches anew the jobs that wait for one of the blocks.
func (q *queue) rekey(w *waiters, hashes []kvcache.Hash) {
	for _, h := range hashes {
		for j, next := w.heads[h], (*job)(nil); j != nil; j = next {
			next = j.links[w.kind].next
			q.missing.remove(j)
			q.present.remove(j)
			q.watch(j)
			key, class := q.policy.key(j), j.class
			if q.aging != nil {
				class = q.aging.class(j)
			}
			if class == j.class {
				j.key = key
				heap.Fix(&q.heaps[q.heapOf(class)], j.heapIndex)
				continue
			}
			heap.Remove(&q.heaps[q.heapOf(j.class)], j.heapIndex)
			q.place(j)
		}
	}
}

// firstHolder returns the waiting job of the smallest key that holds pages, nil if none does.
func (q *queue) firstHolder() *job {
	var best *job
	for _, h := range q.heaps {
		for _, j := range h {
			if j.lease != nil && (best == nil || j.key < best.key || j.key == best.key && j.order < best.order) {
				best = j
			}
		}
	}
	return best
}

// wanted says whether a waiting job would read this block and none after it.
func (q *queue) wanted(h kvcache.Hash) bool { return q.present.heads[h] != nil }

// shared returns how many leading blocks of a chain, of which resident are so, some waiting job other
// than self begins with too. It looks at a few of those that miss the same block next.
func (q *queue) shared(chain []kvcache.Hash, resident int, self *job) int {
	if resident >= len(chain) || q.size == 0 {
		return resident
	}
	const look = 4
	best := resident
	other := q.missing.heads[chain[resident]]
	for n := 0; other != nil && n < look; other, n = other.links[waitMissing].next, n+1 {
		if other != self {
			best = max(best, commonBlocks(chain, other.chain))
		}
	}
	return best
}

// commonBlocks is the number of leading blocks that two chains share; as hashes are chained, equal
// hashes mean equal prefixes, and a binary search finds the last.
func commonBlocks(a, b []kvcache.Hash) int {
	lo, hi := 0, min(len(a), len(b))
	if hi == 0 || a[0] != b[0] {
		return 0
	}
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if a[mid-1] == b[mid-1] {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}
