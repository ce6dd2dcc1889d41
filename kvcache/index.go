// Package kvcache is the logical prefix index of one executor: which blocks of which prompts are
// resident in its pages or kept in host memory, who holds them, and which go when room is needed; it is
// pure and has a single writer.
//
// A page is free, held privately by one lease, or resident: its block is matchable by hash. A
// resident page is pinned by the leases that read it, and evictable when none does. Blocks go leaf
// first, so a resident block's parent is resident too, and the resident part of a chain is a prefix
// of it that a binary search finds. Where there is host memory for them, evicted blocks go on there, and
// the part of a chain that is in either tier is a prefix of it too.
package kvcache

import (
	"fmt"
	"sort"

	"github.com/prefillonly/prefillonly/engine"
)

// Page is the number of a page of the executor's KV pool, from 0.
type Page uint32

// Config sizes an Index.
type Config struct {
	BlockTokens int      // tokens in a block, at least 1
	NumBlocks   int      // pages; 0 caches nothing
	HostBlocks  int      // pages of host memory for evicted blocks; 0 forgets them
	Eviction    Eviction // empty is EvictReuse
}

// Validate names the first field that is out of range.
func (c Config) Validate() error {
	switch {
	case c.BlockTokens < 1:
		return fmt.Errorf("kvcache: BlockTokens is %d, want at least 1", c.BlockTokens)
	case c.NumBlocks < 0 || c.NumBlocks >= int(none):
		return fmt.Errorf("kvcache: NumBlocks is %d, want 0 to %d", c.NumBlocks, none-1)
	case c.HostBlocks < 0 || c.HostBlocks >= int(none):
		return fmt.Errorf("kvcache: HostBlocks is %d, want 0 to %d", c.HostBlocks, none-1)
	case c.Eviction != "" && c.Eviction != EvictReuse && c.Eviction != EvictLRU:
		return fmt.Errorf("kvcache: eviction is %q, want %q or %q", c.Eviction, EvictReuse, EvictLRU)
	}
	return nil
}

// none is the page number that stands for no page.
const none Page = 1<<31 - 1

type pageState uint8

const (
	pageFree     pageState = iota
	pagePrivate            // owned by one lease, not matchable
	pageResident           // matchable by its hash
)

type page struct {
	hash       Hash   // of a resident page
	parent     Page   // resident page of the block before, none for a first block
	next, prev Page   // neighbours in the recency list while unpinned; see segments
	used       uint64 // the index's clock when it was last unpinned, or wanted
	children   int32  // resident pages whose parent this is
	pins       int32  // leases that hold this resident page
	state      pageState
	segment    segment // of a resident page
	reused     bool    // a second sequence has come with it, here or before it was evicted
	partial    bool    // a resident page that holds part of a block: found by its family alone

	before Hash             // of a page of a family: what comes before its tokens
	tokens []engine.TokenID // that a page of a family holds; of another none, in memory for the next
}

// Index is the prefix index of one executor. It is not safe for concurrent use.
type Index struct {
	cfg       Config
	pages     []page
	free      []Page // stack; its top is used next
	byHash    table  // resident pages that hold whole blocks
	families  families
	room      []Page // see leadingPages
	segments  segments
	ghosts    ghosts
	strangers strangers
	host      *host  // nil without a second tier
	clock     uint64 // counts the blocks that were asked for
	unpinned  int    // resident pages that no lease holds
	partial   int    // resident pages that hold part of a block
	newcomers int    // pages that are not for protected blocks
	epoch     uint64 // counts Reset; leases of an older epoch are void
}

// New makes an empty Index.
func New(cfg Config) (*Index, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Eviction == "" {
		cfg.Eviction = EvictReuse
	}
	x := &Index{cfg: cfg}
	x.Reset()
	return x, nil
}

// Reset forgets all blocks and voids all leases: the executor's pages are gone.
func (x *Index) Reset() {
	n := x.cfg.NumBlocks
	x.epoch++
	x.pages = make([]page, n)
	x.free = make([]Page, n)
	for i := range x.free {
		x.free[i] = Page(n - 1 - i)
	}
	x.byHash = newTable(n)
	x.families, x.partial = newFamilies(n), 0
	x.segments = newSegments()
	x.ghosts = newGhosts(ghostsPerBlock * n)
	x.strangers = strangers{}
	x.unpinned = 0
	if x.cfg.HostBlocks > 0 {
		x.host = newHost(x.cfg.HostBlocks)
	}
	x.newcomers = n // which is LRU, until misses show that it is not enough
}

// Match returns how many leading blocks of the chain are resident.
func (x *Index) Match(chain []Hash) int {
	if len(chain) == 0 || !x.isResident(chain[0]) {
		return 0
	}
	return 1 + sort.Search(len(chain)-1, func(i int) bool { return !x.isResident(chain[i+1]) })
}

// Reach returns how many leading blocks of the chain are resident, and how many are so or in host
// memory.
func (x *Index) Reach(chain []Hash) (resident, all int) {
	resident = x.Match(chain)
	all = resident
	if x.host != nil {
		all += x.host.matchChain(chain[resident:])
	}
	return resident, all
}

func (x *Index) isResident(h Hash) bool { return x.findPage(&h) != none }

// findPage is the page of a resident block; none if it is not there.
func (x *Index) findPage(h *Hash) Page {
	hash := x.byHash.slotHash(h)
	for at, i := x.byHash.nextWithHash(hash, x.byHash.homeSlot(hash)); at != nowhere; at, i = x.byHash.nextWithHash(hash, i+1) {
		if x.pages[at].hash == *h {
			return Page(at)
		}
	}
	return none
}

// forget takes a page out of byHash.
func (x *Index) forget(p Page) {
	x.byHash.dropEntry(x.byHash.slotHash(&x.pages[p].hash), uint32(p))
}

// Blocks is the number of pages.
func (x *Index) Blocks() int { return x.cfg.NumBlocks }

// HostBlocks is the number of pages of host memory.
func (x *Index) HostBlocks() int { return x.cfg.HostBlocks }

// Used is the number of pages that are resident or held.
func (x *Index) Used() int { return x.cfg.NumBlocks - len(x.free) }

// Available is the number of pages that a lease could still take: free or evictable.
func (x *Index) Available() int { return len(x.free) + x.unpinned }

// Stored says that blocks became matchable.
type Stored struct {
	Parent Hash   // of the first one; RootHash if it is the first of its chain
	First  int    // its position in the chain
	Hashes []Hash // in chain order; a view of the lease's chain
}

// insertBlock makes a private page of a lease resident, pinned once, and found by its hash.
func (x *Index) insertBlock(p Page, h Hash, parent Page, by *Lease) {
	s := lowest
	g, seen := x.ghosts.findHash(h)
	if !by.lowest {
		s = x.chooseSegment(g, seen, parent)
	}
	x.makeResident(p, parent, s)
	x.pages[p].hash, x.pages[p].reused = h, seen
	x.byHash.putEntry(x.byHash.slotHash(&h), int(p))
}

// makeResident makes a private page resident, pinned once.
func (x *Index) makeResident(p, parent Page, s segment) {
	x.pages[p] = page{parent: parent, next: none, prev: none, state: pageResident, segment: s, pins: 1, tokens: x.pages[p].tokens[:0]}
	if parent != none {
		x.pages[parent].children++
	}
	x.segments.count[s]++
}

// evictPage removes an unpinned leaf, one of so many at most, gives it its place in host memory and leaves its page private.
func (x *Index) evictPage(p Page, m *Moves, most int) {
	h, parent, whole := x.removeLeaf(p)
	if whole {
		if m.Evicted == nil {
			m.Evicted = make([]Hash, 0, most)
		}
		m.Evicted = append(m.Evicted, h)
		if x.host != nil {
			x.saveToHost(p, parent, m)
		}
	}
}

// removeLeaf makes the page of an unpinned leaf private, and returns its block and the one before it. What is
// no whole block has no hash, and nobody outside the index knows of it.
func (x *Index) removeLeaf(p Page) (h, parent Hash, whole bool) {
	pg := &x.pages[p]
	x.segments.unlinkPage(x.pages, p)
	x.segments.count[pg.segment]--
	x.leaveFamily(p)
	parent = RootHash
	if pg.parent != none {
		x.pages[pg.parent].children--
		parent = x.pages[pg.parent].hash
	}
	pg.state, pg.parent = pagePrivate, none
	x.unpinned--
	if pg.partial {
		pg.partial = false
		x.partial--
		return Hash{}, parent, false
	}
	x.forget(p)
	if pg.segment != lowest {
		x.ghosts.addHash(pg.hash, pg.used, pg.reused)
	}
	return pg.hash, parent, true
}

// saveToHost gives an evicted block its place in host memory.
func (x *Index) saveToHost(p Page, parent Hash, m *Moves) {
	pg := &x.pages[p]
	if copied := x.host.findPage(&pg.hash); copied != none {
		x.host.touchPage(copied, pg.used)
		return
	}
	if pg.segment == lowest {
		m.Lost = append(m.Lost, pg.hash)
		return
	}
	to, replaced, ok := x.host.saveBlock(pg.hash, parent, pg.used)
	if !ok {
		m.Lost = append(m.Lost, pg.hash)
		return
	}
	if replaced != (Hash{}) && !x.isResident(replaced) {
		m.Lost = append(m.Lost, replaced)
	}
	m.Saves = append(m.Saves, Save{Copy{Device: p, Host: to}, pg.hash, replaced})
}

func (x *Index) pinPage(p Page) {
	if x.pages[p].pins == 0 {
		x.segments.unlinkPage(x.pages, p)
		x.unpinned--
	}
	x.pages[p].pins++
}

func (x *Index) unpinPage(p Page) {
	x.pages[p].pins--
	if x.pages[p].pins == 0 {
		x.pages[p].used = x.clock
		x.segments.pushFront(x.pages, p)
		x.unpinned++
		x.shrinkProtected()
	}
}
