package queue

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// CheckIntegrity compares a queue with what a look at every job and every block says, and returns the
// first difference.
func (q *Queue) CheckIntegrity(now float64) error {
	var next *Job
	var least float64
	n := 0
	for j := range q.All() {
		n++
		if j.Continues() {
			continue
		}
		fresh := q.Reach(j)
		if got := q.orderOf(j).tree.residentReach(j); got != fresh {
			return fmt.Errorf("job %d is taken to have %+v blocks in the cache, has %+v", j.Order, got, fresh)
		}
		cached, loads := q.Useful(fresh)
		rank := q.policy.Key(j, q.cost) - q.savedTokens(cached*j.ChainOf, loads)
		if q.aging != nil {
			rank = q.aging.Score(j.class, j.key, now)
		}
		if next == nil || rank < least || rank == least && j.Order < next.Order {
			next, least = j, rank
		}
	}
	if got := q.First(now, nil); got != next {
		return fmt.Errorf("the next job is taken to be %+v, is %+v", got, next)
	}
	if n != q.size {
		return fmt.Errorf("%d jobs wait, counted %d", n, q.size)
	}
	if err := q.checkPrefixes(); err != nil {
		return err
	}
	for _, o := range []*order{q.plain, q.paged} {
		for i, g := range o.tree.groups {
			if g.position != i || !g.leadsGroup() {
				return fmt.Errorf("group %d is taken to be at %d; leads: %v", i, g.position, g.leadsGroup())
			}
		}
		if _, err := o.tree.check(o.tree.root); err != nil {
			return err
		}
	}
	return nil
}

// checkPrefixes holds wanted and shared to their words, for every prefix of every waiting job.
func (q *Queue) checkPrefixes() error {
	ends := map[kvcache.Hash]bool{}
	begins := map[kvcache.Hash]bool{}
	for j := range q.All() {
		if j.Continues() {
			continue
		}
		for _, h := range j.Chain[:j.Usable()] {
			begins[h] = true
		}
		if n := q.index.Match(j.Chain[:j.Usable()]); n > 0 {
			ends[j.Chain[n-1]] = true
		}
	}
	for j := range q.All() {
		common := 0
		for _, h := range j.Chain {
			if q.Wanted(h) != ends[h] {
				return fmt.Errorf("block %v is wanted: %v, want %v", h, q.Wanted(h), ends[h])
			}
			if begins[h] {
				common++
			}
		}
		if got := q.Shared(j.Chain, 0); got != common {
			return fmt.Errorf("%d blocks of job %d are shared, want %d", got, j.Order, common)
		}
	}
	return nil
}

// check holds a node and those below it to their invariants, and counts the nodes.
func (t *tree) check(n *node) (nodes int, err error) {
	nodes = 1
	if n != t.root {
		switch blocks := n.ownBlocks(); {
		case len(blocks) == 0 || t.first[blocks[0]] != n:
			return 0, fmt.Errorf("node of blocks %d to %d is not found by its first", n.start, n.depth)
		case n.resident > 0 && t.present[blocks[n.resident-1]] != n:
			return 0, fmt.Errorf("node of blocks %d to %d is not found by its last resident block", n.start, n.depth)
		case n.resident > 0 && n.resident < len(blocks) && t.missing[blocks[n.resident]] != n:
			return 0, fmt.Errorf("node of blocks %d to %d is not found by the block it misses", n.start, n.depth)
		case n.resident > 0 && n.parent.cachedBlocks() < n.parent.depth:
			return 0, fmt.Errorf("node of blocks %d to %d is resident, its parent is not", n.start, n.depth)
		case len(n.slots) < 2 && n.slots[0].on != nil:
			return 0, fmt.Errorf("node of blocks %d to %d has one node below it and no job", n.start, n.depth)
		case n.rep.node == nil || n.rep.Chain[n.depth-1] != blocks[len(blocks)-1]:
			return 0, fmt.Errorf("node of blocks %d to %d is spelt by a job that does not wait below", n.start, n.depth)
		}
	}
	best := []*Job{nil}
	leading := 0
	for i, s := range n.slots {
		best = append(best, s.bestJob())
		if s.on == nil {
			if s.job.node != n || s.job.slot != i {
				return 0, fmt.Errorf("job %d is not where it is taken to be", s.job.Order)
			}
			continue
		}
		if s.on.parent != n || s.on.slot != i || s.on.start != n.depth {
			return 0, fmt.Errorf("node of blocks %d to %d is not where it is taken to be", s.on.start, s.on.depth)
		}
		if s.on.leadsGroup() {
			if leading++; n.leaders[s.on.leader] != s.on {
				return 0, fmt.Errorf("node of blocks %d to %d is not among the leaders where it is taken to be", s.on.start, s.on.depth)
			}
		}
		below, err := t.check(s.on)
		if err != nil {
			return 0, err
		}
		nodes += below
	}
	slices.SortFunc(best, func(a, b *Job) int {
		if isEarlier(a, b) {
			return -1
		}
		return 1
	})
	if n.best != best[0] {
		return 0, fmt.Errorf("node of blocks %d to %d: the best job is taken to be %+v, is %+v", n.start, n.depth, n.best, best[0])
	}
	if leading != len(n.leaders) {
		return 0, fmt.Errorf("node of blocks %d to %d: %d nodes lead groups, counted %d", n.start, n.depth, leading, len(n.leaders))
	}
	if n == t.root && nodes != len(t.first)+1 {
		return 0, fmt.Errorf("%d nodes, %d are found by their first block", nodes, len(t.first)+1)
	}
	return nodes, nil
}
