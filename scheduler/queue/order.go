package queue

import "slices"

// order holds jobs that are to be computed as the policy orders them.
//
// What a change of the cache costs does not depend on how many jobs wait, as the policy's keys are
// kept without what the cache saves; see tree. Under an Aging policy alone each job whose resident
// prefix changes finds its class anew.
type order struct {
	queue   *Queue
	tree    *tree
	heaps   []minHeap[classed] // of the aging policy, one a class
	classes []int              // classes of heaps, ascending
}

func newOrder(q *Queue) *order {
	o := &order{queue: q}
	if q.aging != nil {
		o.tree = newTree(q.index.HostBlocks() > 0, q.savedByPrefix, o.reclassifyJob)
	} else {
		o.tree = newTree(q.index.HostBlocks() > 0, q.savedByPrefix, nil)
	}
	return o
}

func (o *order) pushJob(j *Job) {
	found := o.queue.Reach(j)
	j.key = o.queue.policy.Key(j, o.queue.cost)
	j.Found(o.queue.Useful(found))
	o.tree.insertJob(j, j.Chain[:j.Usable()], found)
	if o.queue.aging != nil {
		o.classifyJob(j)
	}
}

func (o *order) removeJob(j *Job) {
	o.tree.removeJob(j)
	if o.queue.aging != nil {
		o.heaps[o.heapOf(j.class)].remove(j.heapIndex)
	}
}

// minJob is the job that comes first; nil if there is none.
func (o *order) minJob(now float64) *Job {
	if o.queue.aging != nil {
		return o.minAgedJob(now)
	}
	return o.tree.minJob()
}

// minAgedJob compares the first jobs of the aging policy's classes.
func (o *order) minAgedJob(now float64) *Job {
	var best *Job
	var bestScore float64
	for _, h := range o.heaps {
		if len(h) == 0 {
			continue
		}
		j := h[0].Job
		score := o.queue.aging.Score(j.class, j.key, now)
		if best == nil || score < bestScore || score == bestScore && j.Order < best.Order {
			best, bestScore = j, score
		}
	}
	return best
}

// classed is a job in the heap of its class.
type classed struct{ *Job }

func (c classed) before(other classed) bool { return isEarlier(c.Job, other.Job) }
func (c classed) moved(to int)              { c.heapIndex = to }

// classifyJob puts a job in the heap of its class.
func (o *order) classifyJob(j *Job) {
	j.class = o.queue.aging.Class(j, o.queue.cost)
	o.heaps[o.heapOf(j.class)].push(classed{j})
}

// reclassifyJob follows a change of a job's resident prefix.
func (o *order) reclassifyJob(j *Job, found Reach) {
	j.Found(o.queue.Useful(found))
	if o.queue.aging.Class(j, o.queue.cost) != j.class {
		o.heaps[o.heapOf(j.class)].remove(j.heapIndex)
		o.classifyJob(j)
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
