package kvcache

// Eviction names a replacement policy.
type Eviction string

const (
	// EvictReuse keeps blocks that were read again before blocks that were only written: new blocks
	// are on probation until a second sequence reads them, or comes with them after they were
	// evicted (2Q, Johnson and Shasha, VLDB 1994, over trees of blocks). A sequence that nobody is
	// known to share takes room on probation only, so a long prompt that comes once cannot flush the
	// prefixes in use. One that comes back takes room from a protected block only if that was last
	// used longer ago than itself (as LIRS compares recencies, Jiang and Zhang, SIGMETRICS 2002), so
	// prefixes that come in turn, more than there is room for, do not flush each other. How many pages
	// may be protected follows from which blocks come again after they were turned away or evicted (as in
	// ARC, Megiddo and Modha, FAST 2003): none at first, nor where new users replace those who are gone. What is
	// new gives them room while two thirds of what was new before have come again, as what users bring does and a flood does not.
	//
	// Under both policies blocks that lowest sequences alone have stored or read go first and are not kept in host
	// memory. Such a sequence takes the place of those, then of blocks on probation, and of protected ones only for
	// pages that it must hold.
	EvictReuse Eviction = "reuse"
	// EvictLRU evicts the least recently used leaf, whatever for and whoever waits for it: the baseline.
	EvictLRU Eviction = "lru"
)

type segment uint8

const (
	lowest segment = iota // of lowest sequences alone
	probation
	protected
	numSegments
)

const (
	// newcomersPercent of all pages, at least, are for blocks on probation.
	newcomersPercent = 20
	// towardsProtected is how many pages the miss of a block in use gives to the protected: a flood is
	// to be answered in a few steps.
	towardsProtected = 4
	// towardsNewcomers is how many pages a new block gives to newcomers while such blocks come again: a user's first
	// request is to have made room for the profile of the next.
	towardsNewcomers = 2
	// ghostsPerBlock is how many evicted blocks are remembered for each page.
	ghostsPerBlock = 4
	// strangersPerBlock is how many new blocks are counted for each page before those of long ago weigh less.
	strangersPerBlock = 8
	// spareChances bounds how many wanted blocks one Acquire moves to the front in its search for
	// an unwanted one.
	spareChances = 16
)

// chooseSegment chooses the segment of a new block, and is told what is remembered of it. A child is never protected above its parent: it would
// outlive it in the order of recency.
func (x *Index) chooseSegment(g ghost, seen bool, parent Page) segment {
	if x.cfg.Eviction == EvictLRU || !seen {
		return probation
	}
	if x.segments.count[protected] >= x.protectedLimit() && !x.outdatesProtected(g.used) {
		return probation
	}
	if parent != none && x.pages[parent].segment != protected {
		return probation
	}
	return protected
}

// outdatesProtected says whether the oldest protected block that nobody holds was last used before that time.
func (x *Index) outdatesProtected(used uint64) bool {
	p := x.segments.tail[protected]
	return p != none && x.pages[p].used < used
}

// protectedLimit is how many pages may be protected; beyond it the oldest go back on probation.
func (x *Index) protectedLimit() int { return x.cfg.NumBlocks - x.newcomers }

// adaptSegments moves the border between the segments by the blocks that a sequence comes with and misses.
// Recency is enough for those that came once and would still be there under LRU, and more room for
// newcomers would have kept them, and for new ones while such blocks come again; it is not for those that were
// read again and had to go, nor for those that come back too late for LRU.
func (x *Index) adaptSegments(missing []Hash) {
	if x.cfg.Eviction == EvictLRU {
		return
	}
	n := x.cfg.NumBlocks
	for _, h := range missing {
		g, seen := x.ghosts.findHash(h)
		x.strangers.countBlock(seen, g.reused, n)
		switch {
		case !seen && x.strangers.comeAgain():
			x.newcomers += towardsNewcomers
		case !seen, g.reused && x.ghosts.evictionsSince(h) > n: // gone for long, as users between two sessions are
		case g.reused:
			x.newcomers -= towardsProtected
		case x.clock-g.used > uint64(n):
			x.newcomers--
		default:
			x.newcomers++
		}
		x.newcomers = min(max(x.newcomers, (n*newcomersPercent+99)/100), n)
	}
	x.shrinkProtected()
}

// strangers counts blocks that no sequence was known to have come with, and those of them that came a second time. The
// counts are halved now and then, so that they are of the new blocks of the last few turns of the cache.
type strangers struct{ first, second int }

// countBlock counts a block in a cache of so many pages: whether it has come before, and more than once.
func (s *strangers) countBlock(before, often bool, pages int) {
	switch {
	case !before:
		s.first++
	case !often:
		s.second++
	}
	if s.first > strangersPerBlock*pages {
		s.first /= 2
		s.second /= 2
	}
}

// comeAgain says whether two thirds of them come again: where floods take more than the last third, users who are new
// are not worth their room.
func (s *strangers) comeAgain() bool { return 3*s.second > 2*s.first }

// promotePage protects a pinned page that a second sequence reads; under EvictLRU it makes it like all others. What a lowest
// sequence reads stays what it is.
func (x *Index) promotePage(p Page, by *Lease) {
	if by.lowest {
		return
	}
	pg, to := &x.pages[p], protected
	if x.cfg.Eviction == EvictLRU {
		to = probation
	} else {
		x.strangers.countBlock(true, pg.reused, x.cfg.NumBlocks)
	}
	pg.reused = true
	if pg.segment < to {
		x.segments.count[pg.segment]--
		pg.segment = to
		x.segments.count[to]++
	}
}

// shrinkProtected moves the oldest unpinned protected pages back on probation, as its newest, while
// there are too many.
func (x *Index) shrinkProtected() {
	for x.segments.count[protected] > x.protectedLimit() {
		p := x.segments.tail[protected]
		if p == none {
			return
		}
		x.segments.unlinkPage(x.pages, p)
		x.pages[p].segment = probation
		x.segments.count[protected]--
		x.segments.count[probation]++
		x.segments.pushFront(x.pages, p)
	}
}

// taker takes pages for one Acquire.
type taker struct {
	index   *Index
	request *Request
	moves   Moves
	most    int // pages that it may have to take
	chances int
}

// finalMoves is what has been changed. Without host memory what is evicted is lost.
func (t *taker) finalMoves() Moves {
	if t.index.host == nil {
		t.moves.Lost = t.moves.Evicted
	}
	return t.moves
}

// tryTakePage takes a page for block i of the chain, if room and policy allow.
func (t *taker) tryTakePage(i int) (Page, bool) {
	x := t.index
	if p, ok := t.takeNewcomerPage(); ok || x.cfg.Eviction == EvictLRU || t.request.Lowest {
		return p, ok
	}
	if g, seen := x.ghosts.findHash(t.request.Chain[i]); i >= t.request.Shared && !(seen && x.outdatesProtected(g.used)) {
		return none, false
	}
	if p, ok := t.fromSegment(protected, true); ok || i >= t.request.Shared {
		return p, ok
	}
	return t.takeAnyPage() // wanted against wanted: the one that comes first has just been chosen
}

// takeNewcomerPage takes a page that is free, of lowest sequences or on probation.
func (t *taker) takeNewcomerPage() (Page, bool) {
	if p, ok := t.fromFree(); ok {
		return p, true
	}
	if p, ok := t.fromSegment(lowest, true); ok {
		return p, true
	}
	return t.fromSegment(probation, true)
}

// forLoad takes a page for a block that is in host memory.
func (t *taker) forLoad() (Page, bool) {
	if t.request.Lowest {
		return t.takeNewcomerPage()
	}
	return t.takeAnyPage()
}

// takeAnyPage takes a page whatever the policy, the least valuable first.
func (t *taker) takeAnyPage() (Page, bool) {
	if p, ok := t.fromFree(); ok {
		return p, true
	}
	for _, spare := range []bool{true, false} {
		for s := range numSegments {
			if p, ok := t.fromSegment(s, spare); ok {
				return p, true
			}
		}
	}
	return none, false
}

// mustTakePage takes a page that Available has promised.
func (t *taker) mustTakePage() Page {
	p, ok := t.takeAnyPage()
	if !ok {
		panic("kvcache: no page is left although enough were available")
	}
	return p
}

func (t *taker) fromFree() (Page, bool) {
	x := t.index
	if len(x.free) == 0 {
		return none, false
	}
	p := x.free[len(x.free)-1]
	x.free = x.free[:len(x.free)-1]
	x.pages[p].state = pagePrivate
	return p, true
}

// fromSegment evicts the segment's oldest leaf. With spare it passes over blocks that waiting
// sequences want, and gives their whole chain the recency of a use, as that use is near.
func (t *taker) fromSegment(s segment, spare bool) (Page, bool) {
	x := t.index
	for p := x.segments.tail[s]; p != none; {
		pg := &x.pages[p]
		before := pg.prev
		if pg.children > 0 {
			p = before
			continue
		}
		if spare && t.isWanted(pg.hash) {
			if t.chances++; t.chances > spareChances {
				return none, false
			}
			p = x.touchLeaf(p, before)
			continue
		}
		x.evictPage(p, &t.moves, t.most)
		return p, true
	}
	return none, false
}

func (t *taker) isWanted(h Hash) bool {
	return t.index.cfg.Eviction != EvictLRU && t.request.Wanted != nil && t.request.Wanted(h)
}

// touchLeaf moves an unpinned leaf and its unpinned ancestors to the fronts of their segments, the root
// last. It returns where a scan that stood at the leaf goes on: the nearest page, from before on,
// that was not moved.
func (x *Index) touchLeaf(leaf, before Page) Page {
	moved := 0
	for p := leaf; p != none && x.pages[p].pins == 0; p = x.pages[p].parent {
		if p == before {
			before = x.pages[p].prev
		}
		x.segments.unlinkPage(x.pages, p)
		x.pages[p].used = x.clock
		x.segments.pushFront(x.pages, p)
		moved++
	}
	if before == none || moved == 0 {
		return none
	}
	return before
}

// segments are the recency lists of unpinned resident pages, newest at the head, linked through
// page.next (towards the tail) and page.prev. count includes the pinned pages of a segment.
type segments struct {
	head, tail [numSegments]Page
	count      [numSegments]int
}

func newSegments() segments {
	s := segments{}
	for i := range s.head {
		s.head[i], s.tail[i] = none, none
	}
	return s
}

func (s *segments) pushFront(pages []page, p Page) {
	pg := &pages[p]
	head := &s.head[pg.segment]
	pg.prev, pg.next = none, *head
	if *head != none {
		pages[*head].prev = p
	} else {
		s.tail[pg.segment] = p
	}
	*head = p
}

func (s *segments) unlinkPage(pages []page, p Page) {
	pg := &pages[p]
	if pg.prev != none {
		pages[pg.prev].next = pg.next
	} else {
		s.head[pg.segment] = pg.next
	}
	if pg.next != none {
		pages[pg.next].prev = pg.prev
	} else {
		s.tail[pg.segment] = pg.prev
	}
	pg.next, pg.prev = none, none
}
