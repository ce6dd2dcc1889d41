package queue

import (
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// Reach is how many leading blocks of a prompt are in the cache of an executor.
type Reach struct {
	Device int
	All    int // there or in host memory
}

// tiers is what a tree keeps to follow which of the resident blocks are on the device. These are a
// prefix of each chain too, which ends in the node that leads to others, or within one.
//
// A block that goes from the device to host memory, or comes back, changes what is saved in each group
// below it: this costs time for each group, not for each job.
type tiers struct {
	ends map[kvcache.Hash]*node // nodes with blocks on the device, by the last of these
	next map[kvcache.Hash]*node // those of them that have others too, by the first of these
}

func newTiers() *tiers {
	return &tiers{ends: map[kvcache.Hash]*node{}, next: map[kvcache.Hash]*node{}}
}

func (t *tiers) listNode(n *node) {
	if t == nil || n.device == 0 {
		return // the tree finds it by its first block
	}
	t.ends[n.ownBlocks()[n.device-1]] = n
	if n.device < n.depth-n.start {
		t.next[n.ownBlocks()[n.device]] = n
	}
}

func (t *tiers) unlistNode(n *node) {
	if t == nil || n.device == 0 {
		return
	}
	delete(t.ends, n.ownBlocks()[n.device-1])
	if n.device < n.depth-n.start {
		delete(t.next, n.ownBlocks()[n.device])
	}
}

// isWanted says whether a waiting job's prefix on the device ends with this block.
func (t *tiers) isWanted(h kvcache.Hash) bool {
	n := t.ends[h]
	if n == nil || n.device < n.depth-n.start {
		return n != nil
	}
	return len(n.slots) > len(n.leaders) || slices.ContainsFunc(n.leaders, func(on *node) bool { return on.device == 0 })
}

// reachOf is how far the prefix of a node's group is resident.
func (t *tree) reachOf(n *node) Reach {
	all := n.cachedBlocks()
	if t.tiers == nil {
		return Reach{all, all}
	}
	for n.device == 0 && n.parent != nil {
		n = n.parent
	}
	return Reach{n.start + n.device, all}
}

// markLanded follows blocks that came to the device, in the order of their chain.
func (t *tree) markLanded(hashes []kvcache.Hash) {
	for t.tiers != nil && len(hashes) > 0 {
		n := t.tiers.next[hashes[0]]
		if n == nil {
			n = t.first[hashes[0]]
		}
		grown := 0
		if n != nil {
			grown = CommonBlocks(n.ownBlocks()[n.device:], hashes)
		}
		if grown > 0 {
			t.setDeviceBlocks(n, n.device+grown)
		}
		hashes = hashes[max(grown, 1):]
	}
}

// markEvicted follows blocks that left the device, leaves first; those that are lost as well have been
// followed before.
func (t *tree) markEvicted(hashes []kvcache.Hash) {
	for t.tiers != nil && len(hashes) > 0 {
		n := t.tiers.ends[hashes[0]]
		if n == nil {
			hashes = hashes[1:]
			continue
		}
		left, rest := withoutLeaves(n.ownBlocks()[:n.device], hashes)
		hashes = rest
		t.setDeviceBlocks(n, left)
	}
}

// setDeviceBlocks changes how many of a node's blocks are on the device.
func (t *tree) setDeviceBlocks(n *node, device int) {
	t.tiers.unlistNode(n)
	n.device = device
	t.tiers.listNode(n)
	t.recomputeSaved(n)
}

// recomputeSaved computes anew what is saved in the groups of a node and of those below it.
func (t *tree) recomputeSaved(n *node) {
	if !n.leadsGroup() {
		return
	}
	found := t.reachOf(n)
	n.saved = t.saved(found)
	t.groups.fix(n.position)
	if t.changed != nil {
		t.tell(n, found)
	}
	for _, on := range n.leaders {
		t.recomputeSaved(on)
	}
}
