package queue

import "github.com/prefillonly/prefillonly/kvcache"

// tree holds the jobs that wait to be computed on one executor by the blocks that their prompts begin with, in a
// radix tree, and follows which of those blocks are resident: on the device, or in host memory.
//
// The jobs whose resident prefixes end at the same block are a group: what the cache saves them is
// the same, so a block that comes or goes changes the order between groups and none within. A node of
// which no block is resident belongs to its parent's group. So a heap of groups over heaps of nodes
// gives the next job, and a change of one block moves one node, however many jobs wait below it.
type tree struct {
	saved   func(Reach) float64       // what so many cached blocks take off a job's key
	changed func(j *Job, found Reach) // told of each job whose resident prefix has changed; may be nil
	tiers   *tiers                    // nil without host memory: resident is on the device
	root    *node                     // no blocks
	first   map[kvcache.Hash]*node    // by the first of their own blocks
	missing map[kvcache.Hash]*node    // those resident in part, by their first block that is not
	present map[kvcache.Hash]*node    // those that lead a group, by their last block that is
	groups  minHeap[group]
}

// node is a run of blocks that all jobs below it begin with, and that no job ends or branches within.
type node struct {
	parent   *node
	rep      *Job          // one of the jobs below: its chain spells the blocks up to here
	start    int           // blocks before the node's own
	depth    int           // and with them
	resident int           // leading ones of its own that are in the cache; all of the parent's are if any is
	device   int           // leading ones of these that are on the device, kept where there are tiers; likewise
	slots    minHeap[slot] // the jobs that end here and the nodes that go on
	best     *Job          // to be run first among slots, nodes that lead groups of their own left out
	slot     int           // position among the parent's
	leaders  []*node       // those of slots that lead groups of their own
	leader   int           // position among the parent's leaders if it is one
	position int           // among the groups if it leads one
	saved    float64       // what the cache takes off the keys of its group
}

// leadsGroup says whether the node has a group: the jobs here and below, down to nodes that lead others.
func (n *node) leadsGroup() bool { return n.resident > 0 || n.parent == nil }

// groupLeader is the node that leads the one to which this belongs.
func (n *node) groupLeader() *node {
	for !n.leadsGroup() {
		n = n.parent
	}
	return n
}

// cachedBlocks is the number of blocks that the group of a node has in the cache.
func (n *node) cachedBlocks() int { return n.start + n.resident }

// ownBlocks are the node's own.
func (n *node) ownBlocks() []kvcache.Hash { return n.rep.Chain[n.start:n.depth] }

// isEarlier orders jobs within a group: by key, ties by order of submission, no job last.
func isEarlier(a, b *Job) bool {
	if a == nil || b == nil {
		return a != nil
	}
	return a.key < b.key || a.key == b.key && a.Order < b.Order
}

// slot is a job that ends at a node, or one of the nodes that go on from there.
type slot struct {
	job *Job
	on  *node // nil for a job
}

// bestJob is the job to be run first of what counts for the node's own group; nil if nothing does.
func (s slot) bestJob() *Job {
	switch {
	case s.on == nil:
		return s.job
	case s.on.leadsGroup():
		return nil
	}
	return s.on.best
}

func (s slot) before(other slot) bool { return isEarlier(s.bestJob(), other.bestJob()) }

func (s slot) moved(to int) {
	if s.on != nil {
		s.on.slot = to
	} else {
		s.job.slot = to
	}
}

// group is a node that leads one.
type group struct{ *node }

func (g group) before(other group) bool {
	a, b := g.best, other.best
	if a == nil || b == nil {
		return a != nil
	}
	x, y := a.key-g.saved, b.key-other.saved
	return x < y || x == y && a.Order < b.Order
}

func (g group) moved(to int) { g.node.position = to }

func newTree(host bool, saved func(Reach) float64, changed func(*Job, Reach)) *tree {
	t := &tree{
		saved: saved, changed: changed, root: &node{},
		first: map[kvcache.Hash]*node{}, missing: map[kvcache.Hash]*node{}, present: map[kvcache.Hash]*node{},
	}
	if host {
		t.tiers = newTiers()
	}
	t.groups.push(group{t.root})
	return t
}

// minJob returns the job of the smallest key, with what the cache saves taken off; nil when none waits.
func (t *tree) minJob() *Job { return t.groups[0].best }

// residentReach is how far a waiting job's prefix is resident.
func (t *tree) residentReach(j *Job) Reach {
	return t.reachOf(j.node.groupLeader())
}

// isWanted says whether a waiting job's prefix on the device ends with this block.
func (t *tree) isWanted(h kvcache.Hash) bool {
	if t.tiers != nil {
		return t.tiers.isWanted(h)
	}
	n := t.present[h]
	return n != nil && n.best != nil
}

// sharedBlocks returns how many leading blocks of a chain some waiting job begins with too.
func (t *tree) sharedBlocks(chain []kvcache.Hash) int {
	common := 0
	for common < len(chain) {
		n := t.first[chain[common]]
		if n == nil {
			return common
		}
		common += CommonBlocks(n.ownBlocks(), chain[common:])
		if common < n.depth {
			return common
		}
	}
	return common
}

// insertJob adds a job whose blocks are those of chain, of which so many are resident.
func (t *tree) insertJob(j *Job, chain []kvcache.Hash, found Reach) {
	n := t.root
	for n.depth < len(chain) {
		on := t.first[chain[n.depth]]
		if on == nil {
			leaf := &node{parent: n, rep: j, start: n.depth, depth: len(chain)}
			leaf.resident = min(max(found.All-leaf.start, 0), leaf.depth-leaf.start)
			leaf.device = min(max(found.Device-leaf.start, 0), leaf.depth-leaf.start)
			t.attachNode(leaf)
			n = leaf
			break
		}
		if depth := n.depth + CommonBlocks(on.ownBlocks(), chain[n.depth:]); depth < on.depth {
			on = t.splitNode(on, depth)
		}
		n = on
	}
	t.addJobToNode(j, n)
}

// addJobToNode puts a job in its node.
func (t *tree) addJobToNode(j *Job, n *node) {
	j.node = n
	n.slots.push(slot{job: j})
	t.refreshBest(n)
}

// removeJob takes a job out. Its cost, like that of insert, grows with the number of its blocks at which
// others branch off or end.
func (t *tree) removeJob(j *Job) {
	n := j.node
	n.slots.remove(j.slot)
	t.refreshBest(n)
	if len(n.slots) == 0 && n != t.root {
		t.detachNode(n)
		n = n.parent
		t.refreshBest(n)
	}
	if n != t.root && len(n.slots) == 1 && n.slots[0].on != nil {
		n = t.mergeNode(n)
	}
	for ; n != t.root; n = n.parent {
		if n.rep == j {
			n.rep = n.slots[0].representativeJob()
		}
	}
}

// representativeJob is a job that passes through the node to which the slot belongs.
func (s slot) representativeJob() *Job {
	if s.on != nil {
		return s.on.rep
	}
	return s.job
}

// splitNode divides a node at a depth within it and returns the upper part.
func (t *tree) splitNode(n *node, depth int) *node {
	t.detachNode(n)
	upper := &node{parent: n.parent, rep: n.rep, start: n.start, depth: depth, resident: min(n.resident, depth-n.start), device: min(n.device, depth-n.start)}
	n.parent, n.start, n.resident, n.device = upper, depth, n.resident-upper.resident, n.device-upper.device
	t.attachNode(upper)
	t.attachNode(n)
	return upper
}

// mergeNode joins a node, at which no job ends, with the only one that goes on from it, and returns that.
func (t *tree) mergeNode(n *node) *node {
	on := n.slots[0].on
	t.detachNode(on)
	t.detachNode(n)
	on.parent, on.start, on.resident, on.device = n.parent, n.start, n.resident+on.resident, n.device+on.device
	t.attachNode(on)
	return on
}

// attachNode puts a node among its parent's slots, and into the maps and groups that its resident blocks
// ask for.
func (t *tree) attachNode(n *node) {
	t.first[n.ownBlocks()[0]] = n
	t.listNode(n)
	if n.leadsGroup() {
		t.startGroup(n)
	}
	n.parent.slots.push(slot{on: n})
	t.refreshBest(n.parent)
}

// detachNode undoes attach.
func (t *tree) detachNode(n *node) {
	delete(t.first, n.ownBlocks()[0])
	t.unlistNode(n)
	if n.leadsGroup() {
		t.endGroup(n)
	}
	n.parent.slots.remove(n.slot)
	t.refreshBest(n.parent)
}

// startGroup makes a node lead a group of its own, follow ends that.
func (t *tree) startGroup(n *node) {
	t.groups.push(group{n})
	p := n.parent
	n.leader = len(p.leaders)
	p.leaders = append(p.leaders, n)
}

func (t *tree) endGroup(n *node) {
	t.groups.remove(n.position)
	p, last := n.parent, len(n.parent.leaders)-1
	moved := p.leaders[last]
	p.leaders[n.leader], moved.leader = moved, n.leader
	p.leaders[last] = nil
	p.leaders = p.leaders[:last]
}

// listNode notes which blocks change a node's resident part, and what that saves.
func (t *tree) listNode(n *node) {
	if n.resident == 0 {
		return // first finds it
	}
	n.saved = t.saved(t.reachOf(n))
	t.present[n.ownBlocks()[n.resident-1]] = n
	if n.cachedBlocks() < n.depth {
		t.missing[n.ownBlocks()[n.resident]] = n
	}
	t.tiers.listNode(n)
}

func (t *tree) unlistNode(n *node) {
	if n.resident == 0 {
		return
	}
	delete(t.present, n.ownBlocks()[n.resident-1])
	if n.cachedBlocks() < n.depth {
		delete(t.missing, n.ownBlocks()[n.resident])
	}
	t.tiers.unlistNode(n)
}

// refreshBest follows a change among a node's slots up to its group.
func (t *tree) refreshBest(n *node) {
	for {
		var best *Job
		if len(n.slots) > 0 {
			best = n.slots[0].bestJob()
		}
		if best == n.best {
			return
		}
		n.best = best
		if n.leadsGroup() {
			t.groups.fix(n.position)
			return
		}
		n.parent.slots.fix(n.slot)
		n = n.parent
	}
}

// markStored follows blocks that came to the device, in the order of their chain.
func (t *tree) markStored(hashes []kvcache.Hash) {
	for rest := hashes; len(rest) > 0; {
		n := t.missing[rest[0]]
		if n == nil {
			n = t.first[rest[0]]
		}
		grown := 0
		if n != nil {
			grown = CommonBlocks(n.ownBlocks()[n.resident:], rest)
		}
		if grown > 0 { // else it was in host memory
			t.setResidentBlocks(n, n.resident+grown)
		}
		rest = rest[max(grown, 1):]
	}
	t.markLanded(hashes)
}

// markLost follows blocks that are not resident any more, leaves first.
func (t *tree) markLost(hashes []kvcache.Hash) {
	for len(hashes) > 0 {
		n := t.present[hashes[0]]
		if n == nil {
			hashes = hashes[1:]
			continue
		}
		left, rest := withoutLeaves(n.ownBlocks()[:n.resident], hashes)
		hashes = rest
		t.setResidentBlocks(n, left)
	}
}

// withoutLeaves takes from the end of blocks those that hashes, leaves first, begin with; it returns
// how many blocks are left, and the hashes after them.
func withoutLeaves(blocks, hashes []kvcache.Hash) (left int, rest []kvcache.Hash) {
	left = len(blocks)
	for left > 0 && len(hashes) > 0 && blocks[left-1] == hashes[0] {
		left--
		hashes = hashes[1:]
	}
	return left, hashes
}

// setResidentBlocks changes how many of a node's blocks are resident.
func (t *tree) setResidentBlocks(n *node, resident int) {
	led := n.leadsGroup()
	t.unlistNode(n)
	n.resident, n.device = resident, min(n.device, resident)
	t.listNode(n)
	switch {
	case led && n.leadsGroup():
		t.groups.fix(n.position)
	case led:
		t.endGroup(n)
	case n.leadsGroup():
		t.startGroup(n)
	}
	if led != n.leadsGroup() {
		n.parent.slots.fix(n.slot)
		t.refreshBest(n.parent)
	}
	if t.changed != nil {
		t.tell(n, t.reachOf(n))
	}
}

// tell calls changed for the jobs of a node's group.
func (t *tree) tell(n *node, found Reach) {
	for _, s := range n.slots {
		switch {
		case s.on == nil:
			t.changed(s.job, found)
		case !s.on.leadsGroup():
			t.tell(s.on, found)
		}
	}
}

// CommonBlocks is the number of leading blocks that two chains share; as hashes are chained, equal
// hashes mean equal prefixes, and a binary search finds the last.
func CommonBlocks(a, b []kvcache.Hash) int {
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
