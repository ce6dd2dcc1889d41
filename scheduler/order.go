package scheduler

import "slices"

// order holds jobs that are to be computed as the policy orders them.
//
// What a change of the cache costs does not depend on how many jobs wait, as the policy's keys are
// kept without what the cache saves; see tree. Under an agingPolicy alone each job whose resident
// prefix changes finds its class anew.
type order struct {
	queue   *queue
	tree    *tree
	heaps   []minHeap[classed] // of the aging policy, one a class
	classes []int              // classes of heaps, ascending
}

func newOrder(q *queue) *order {
	o := &order{queue: q}
	if q.aging != nil {
		o.tree = newTree(q.index.HostBlocks() > 0, q.saved, o.reclass)
	} else {
		o.tree = newTree(q.index.HostBlocks() > 0, q.saved, nil)
	}
	return o
}

func (o *order) push(j *job) {
	found := o.queue.reach(j)
	j.key = o.queue.policy.key(j)
	j.found(o.queue.useful(found))
	o.tree.insert(j, j.chain[:j.usable()], found)
	if o.queue.aging != nil {
		o.classify(j)
	}
}

func (o *order) remove(j *job) {
	o.tree.remove(j)
	if o.queue.aging != nil {
		o.heaps[o.heapOf(j.class)].remove(j.heapIndex)
	}
}

// min is the job that comes first; nil if there is none.
func (o *order) min(now float64) *job {
	if o.queue.aging != nil {
		return o.oldest(now)
	}
	return o.tree.min()
}

// oldest compares the first jobs of the aging policy's classes.
func (o *order) oldest(now float64) *job {
	var best *job
	var bestScore float64
	for _, h := range o.heaps {
		if len(h) == 0 {
			continue
		}
		j := h[0].job
		score := o.queue.aging.score(j.class, j.key, now)
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
func (o *order) classify(j *job) {
	j.class = o.queue.aging.class(j)
	o.heaps[o.heapOf(j.class)].push(classed{j})
}

// reclass follows a change of a job's resident prefix.
func (o *order) reclass(j *job, found reach) {
	j.found(o.queue.useful(found))
	if o.queue.aging.class(j) != j.class {
		o.heaps[o.heapOf(j.class)].remove(j.heapIndex)
		o.classify(j)
	}
}

// heapOf returns the position of a class's heap, made when it is the first of its class.
func (o *order) heapOf(class int) int {
	i, found := slices.BinarySearch(o.classes, class)
	if !found {
		o.classes = slices.Insert(o.classes, i, class)
		o.heaps = slices.Insert(o.heaps, i, nil)
	}
	return i
}
