package kvcache

import (
	"container/heap"
	"fmt"
	"sort"
)

// Copy is a block's way between a page of the device and a page of host memory.
type Copy struct{ Device, Host Page }

// Save is the copy of an evicted block to host memory.
type Save struct {
	Copy
	Block    Hash
	Replaced Hash // the block that had to leave the page; zero if it was free
}

// Moves is what an Acquire changes of the blocks that were there. All saves are to be done, in order,
// before any load and before a page of the lease is written; none may be left out, even where the
// pass that they are for is not run.
type Moves struct {
	Evicted []Hash // from the device, leaves first
	Saves   []Save // of those that host memory did not hold yet
	Lost    []Hash // now in neither tier, in the order in which they went; without host memory the list of Evicted
}

// host is the second tier: pages of host memory with blocks that the device had to evict. It keeps
// them when they are loaded again, so that the next eviction is free. Blocks go leaf first, the least
// recently used leaf before others, so that what is in one of the two tiers is a prefix of each chain.
type host struct {
	pages  []hostPage
	free   []Page
	byHash table
	above  map[Hash]int32 // pages whose parent is on the device alone, by that parent
	leaves []Page         // heap by hostPage.used: no page's parent, and not pinned
}

type hostPage struct {
	hash     Hash
	parent   Hash
	used     uint64 // the index's clock when the block was last used on the device, or loaded
	children int32  // pages whose parent this is
	pins     int32  // leases that load it
	leaf     int    // position among leaves, notLeaf if it is not there
}

const notLeaf = -1

func newHost(n int) *host {
	t := &host{pages: make([]hostPage, n), free: make([]Page, n), byHash: newTable(n), above: make(map[Hash]int32)}
	for i := range t.free {
		t.free[i] = Page(n - 1 - i)
	}
	return t
}

// matchChain returns how many blocks of the chain are here, given that the first one is not on the device:
// then none of the others is, and those in host memory are the leading ones.
func (t *host) matchChain(chain []Hash) int {
	return sort.Search(len(chain), func(i int) bool { return !t.hasBlock(chain[i]) })
}

func (t *host) hasBlock(h Hash) bool {
	return t.findPage(&h) != none
}

// findPage is the page of a block; none if it is not here.
func (t *host) findPage(h *Hash) Page {
	hash := t.byHash.slotHash(h)
	for at, i := t.byHash.nextWithHash(hash, t.byHash.homeSlot(hash)); at != nowhere; at, i = t.byHash.nextWithHash(hash, i+1) {
		if t.pages[at].hash == *h {
			return Page(at)
		}
	}
	return none
}

// forget takes a page out of byHash.
func (t *host) forget(p Page) {
	t.byHash.dropEntry(t.byHash.slotHash(&t.pages[p].hash), uint32(p))
}

// saveBlock finds a page for a block that the device evicts, at the expense of the oldest leaf if there is
// no free one. It fails when all pages are pinned, or above pinned ones.
func (t *host) saveBlock(h, parent Hash, used uint64) (p Page, replaced Hash, ok bool) {
	if len(t.free) == 0 {
		if len(t.leaves) == 0 {
			return none, replaced, false
		}
		replaced = t.dropLeaf(t.leaves[0])
	}
	p = t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.pages[p] = hostPage{hash: h, parent: parent, used: used, children: t.above[h], leaf: notLeaf}
	delete(t.above, h)
	t.byHash.putEntry(t.byHash.slotHash(&h), int(p))
	if up := t.findPage(&parent); up != none {
		t.pages[up].children++
		t.updateLeaf(up)
	} else if parent != RootHash {
		t.above[parent]++
	}
	t.updateLeaf(p)
	return p, replaced, true
}

// dropLeaf frees a leaf's page.
func (t *host) dropLeaf(p Page) Hash {
	pg := &t.pages[p]
	heap.Remove((*leafHeap)(t), pg.leaf)
	t.forget(p)
	if up := t.findPage(&pg.parent); up != none {
		parent := &t.pages[up]
		parent.children--
		parent.used = max(parent.used, pg.used)
		t.updateLeaf(up)
	} else if t.above[pg.parent]--; t.above[pg.parent] <= 0 {
		delete(t.above, pg.parent)
	}
	t.free = append(t.free, p)
	return pg.hash
}

// touchPage notes a use.
func (t *host) touchPage(p Page, used uint64) {
	t.pages[p].used = max(t.pages[p].used, used)
	t.updateLeaf(p)
}

func (t *host) pinPage(p Page) {
	t.pages[p].pins++
	t.updateLeaf(p)
}

func (t *host) unpinPage(p Page, used uint64) {
	t.pages[p].pins--
	t.touchPage(p, used)
}

// updateLeaf puts a page where it belongs among the leaves, or takes it out.
func (t *host) updateLeaf(p Page) {
	pg := &t.pages[p]
	leaf := pg.children == 0 && pg.pins == 0
	switch {
	case leaf && pg.leaf == notLeaf:
		heap.Push((*leafHeap)(t), p)
	case leaf:
		heap.Fix((*leafHeap)(t), pg.leaf)
	case pg.leaf != notLeaf:
		heap.Remove((*leafHeap)(t), pg.leaf)
	}
}

// leafHeap is a host as the heap of its leaves.
type leafHeap host

func (h *leafHeap) Len() int { return len(h.leaves) }
func (h *leafHeap) Less(a, b int) bool {
	x, y := h.leaves[a], h.leaves[b]
	return h.pages[x].used < h.pages[y].used || h.pages[x].used == h.pages[y].used && x < y
}
func (h *leafHeap) Swap(a, b int) {
	h.leaves[a], h.leaves[b] = h.leaves[b], h.leaves[a]
	h.pages[h.leaves[a]].leaf, h.pages[h.leaves[b]].leaf = a, b
}
func (h *leafHeap) Push(p any) {
	h.pages[p.(Page)].leaf = len(h.leaves)
	h.leaves = append(h.leaves, p.(Page))
}
func (h *leafHeap) Pop() any {
	p := h.leaves[len(h.leaves)-1]
	h.leaves = h.leaves[:len(h.leaves)-1]
	h.pages[p].leaf = notLeaf
	return p
}

// check returns the first broken invariant; pins are those that the open leases hold.
func (t *host) check(pins []int32, onDevice func(Hash) bool) error {
	children, above := map[Hash]int32{}, map[Hash]int32{}
	held := t.heldPages()
	for _, p := range held {
		if found := t.findPage(&t.pages[p].hash); found != p {
			return fmt.Errorf("host page %d holds %v, which is found at page %d", p, t.pages[p].hash, found)
		}
		parent := t.pages[p].parent
		switch {
		case t.hasBlock(parent):
			children[parent]++
		case parent == RootHash:
		case onDevice(parent):
			above[parent]++
		default:
			return fmt.Errorf("host page %d outlived its parent", p)
		}
	}
	for parent, n := range above {
		if t.above[parent] != n {
			return fmt.Errorf("%d host pages follow device block %v, counted %d", n, parent, t.above[parent])
		}
	}
	leaves := 0
	for _, p := range held {
		pg := &t.pages[p]
		leaf := pg.children == 0 && pg.pins == 0
		if leaf {
			leaves++
		}
		if pg.children != children[pg.hash] || pg.pins != pins[p] || leaf != (pg.leaf != notLeaf) {
			return fmt.Errorf("host page %d counts %d children, %d pins, leaf %d; there are %d and %d", p, pg.children, pg.pins, pg.leaf, children[pg.hash], pins[p])
		}
	}
	if len(above) != len(t.above) || leaves != len(t.leaves) || len(held)+len(t.free) != len(t.pages) {
		return fmt.Errorf("host memory: %d parents on the device, counted %d; %d leaves, listed %d; %d blocks and %d free pages of %d",
			len(above), len(t.above), leaves, len(t.leaves), len(held), len(t.free), len(t.pages))
	}
	return nil
}

// heldPages lists the pages in which there is a block.
func (t *host) heldPages() (pages []Page) {
	for _, s := range t.byHash.slots {
		if s.at != 0 {
			pages = append(pages, Page(s.at-1))
		}
	}
	return pages
}
