package kvcache

import "slices"

// Request says what one sequence needs of the cache.
type Request struct {
	Chain    []Hash   // the sequence's full blocks
	Reuse    int      // at most this many leading blocks are read from the cache
	Load     bool     // of these, host memory's are read too
	Fill     int      // this many leading blocks are worth having after the pass
	Shared   int      // this many leading blocks are known to be wanted by others as well
	Pages    int      // pages the sequence must hold, from its first token on; 0: as many of Fill as find room
	Sequence Sequence // of which Chain are the full blocks
	Lowest   bool     // the sequence takes the place of what others read only where it must; see EvictReuse
	// Wanted says whether a waiting sequence would read this block, were it to start now. Such
	// blocks are the last that EvictReuse evicts. Nil: none is.
	Wanted func(Hash) bool
}

// Lease is a sequence's hold on pages. Its fields are read only to the holder.
type Lease struct {
	Pages    []Page // of the sequence from its first token on: reused ones, loaded ones, then owned ones
	Reused   int    // leading pages that were resident already; they must not be written
	Loads    []Copy // of the pages that follow: to be copied from host memory before they are read
	Part     Part   // of the block that follows; none where there are loads
	chain    []Hash
	sequence Sequence
	fill     int    // pages Reused..fill-1 become matchable by Commit
	lowest   bool   // of Request.Lowest
	partial  bool   // the page after the chain's blocks holds the prompt's last tokens, and is kept by Commit
	pinned   []Page // resident pages this lease pins
	hosts    []Page // of host memory, pinned until the loads are done
	epoch    uint64
	closed   bool
}

// Cached is the number of leading pages that hold their block when the loads are done.
func (l *Lease) Cached() int { return l.Reused + len(l.Loads) }

// Acquire pins the resident prefix of the chain, takes pages for what of it is to be loaded from host
// memory, and for what the pass is to fill. With Pages = 0 it takes what room and policy allow and
// discards the rest of the suffix; otherwise it takes exactly Pages, or fails with a nil Lease and
// changes nothing. The slices of Moves are the caller's.
func (x *Index) Acquire(r Request) (*Lease, Moves) {
	if !r.Lowest {
		x.clock += uint64(max(1, len(r.Chain)))
	}
	resident := x.Match(r.Chain)
	reused := min(resident, r.Reuse)
	have := x.leadingPages(r.Chain[:reused])
	if r.Pages > 0 && r.Pages-reused > x.Available()-x.countUnpinned(have) {
		return nil, Moves{}
	}
	l := &Lease{Reused: reused, fill: reused, chain: r.Chain, sequence: r.Sequence, lowest: r.Lowest, epoch: x.epoch}
	l.Pages = append(make([]Page, 0, max(len(r.Chain)+1, r.Pages)), have...)
	for _, p := range have {
		x.pinPage(p)
		x.promotePage(p, l)
	}
	l.pinned = append(make([]Page, 0, len(r.Chain)+1), have...)
	take := taker{index: x, request: &r, most: cap(l.Pages) - reused}
	if reused == resident {
		x.load(l, &take)
	}
	if len(l.Loads) == 0 { // a part pinned before the loads could hold the last page that they need
		x.pinPart(l, &r)
	}
	if reused == resident && !r.Lowest {
		x.adaptSegments(r.Chain[l.fill:max(l.fill, min(r.Fill, len(r.Chain)))])
	}
	if r.Pages > 0 {
		for len(l.Pages) < r.Pages {
			l.Pages = append(l.Pages, take.mustTakePage())
		}
		l.fill = max(l.fill, min(r.Fill, len(r.Chain), r.Pages))
		l.partial = l.fill == len(r.Chain) && r.Pages > len(r.Chain) && x.tailTokens(l) != nil
		return l, take.finalMoves()
	}
	// A block that is resident but may not be reused is filled beside itself: that is worth it for those that follow alone.
	if again, anew := resident-reused, min(r.Fill, len(r.Chain))-resident; again == 0 || anew > 0 && (anew >= again || r.Shared > resident) {
		x.fillLease(l, &take)
	}
	return l, take.finalMoves()
}

// load takes pages for the blocks that follow the lease's and are in host memory. It does so whatever
// the policy: what has to go for them goes to host memory, and costs a copy to have again.
func (x *Index) load(l *Lease, take *taker) {
	r := take.request
	if x.host == nil || !r.Load {
		return
	}
	until := min(r.Reuse, len(r.Chain))
	if r.Pages > 0 {
		until = min(until, r.Pages)
	}
	chain := r.Chain[l.fill:max(until, l.fill)]
	chain = chain[:x.host.matchChain(chain)]
	for _, h := range chain { // before room is made, at the expense of others
		p := x.host.findPage(&h)
		x.host.pinPage(p)
		l.hosts = append(l.hosts, p)
	}
	for _, from := range l.hosts {
		p, ok := take.forLoad()
		if !ok {
			break
		}
		l.Pages = append(l.Pages, p)
		l.Loads = append(l.Loads, Copy{Device: p, Host: from})
		l.fill++
	}
	for _, p := range l.hosts[len(l.Loads):] {
		x.host.unpinPage(p, 0)
	}
	l.hosts = l.hosts[:len(l.Loads)]
}

// loaded says that the lease's loads are done, or never will be.
func (x *Index) loaded(l *Lease) {
	for _, p := range l.hosts {
		x.host.unpinPage(p, x.clock)
	}
	l.hosts = nil
}

// fillLease takes pages for the chain's blocks in order until room or policy ends it, and remembers the
// discarded ones as seen.
func (x *Index) fillLease(l *Lease, take *taker) {
	want := min(take.request.Fill, len(l.chain))
	for l.fill < want {
		p, ok := take.tryTakePage(l.fill)
		if !ok {
			break
		}
		l.Pages = append(l.Pages, p)
		l.fill++
	}
	for i := want - 1; i >= l.fill && !l.lowest; i-- {
		_, seen := x.ghosts.findHash(l.chain[i])
		x.ghosts.addHash(l.chain[i], x.clock, seen)
	}
	if l.fill == len(l.chain) && x.tailTokens(l) != nil {
		if p, ok := take.takeNewcomerPage(); ok {
			l.Pages = append(l.Pages, p)
			l.partial = true
		}
	}
}

// leadingPages is the pages of a chain whose blocks are all resident, found from the last one upwards; the list is good until the
// next call.
func (x *Index) leadingPages(chain []Hash) []Page {
	x.room = slices.Grow(x.room[:0], len(chain))[:len(chain)]
	if len(chain) == 0 {
		return nil
	}
	p := x.findPage(&chain[len(chain)-1])
	for i := len(chain) - 1; i >= 0; i-- {
		x.room[i] = p
		p = x.pages[p].parent
	}
	return x.room
}

func (x *Index) countUnpinned(pages []Page) (n int) {
	for _, p := range pages {
		if x.pages[p].pins == 0 {
			n++
		}
	}
	return n
}

// Commit says that the pass is done and its pages are loaded and filled: the blocks become matchable. Where
// another lease has stored the same block meanwhile, this one keeps its own copy to itself. A
// second Commit of a lease, or one of an older epoch, does nothing.
func (x *Index) Commit(l *Lease) Stored {
	if l.closed || l.epoch != x.epoch {
		return Stored{}
	}
	x.loaded(l)
	parent, parentHash := none, RootHash
	if l.Reused > 0 {
		parent, parentHash = l.Pages[l.Reused-1], l.chain[l.Reused-1]
	}
	i := l.Reused
	for ; i < l.fill; i++ {
		twin := x.findPage(&l.chain[i])
		if twin == none {
			break
		}
		x.pinPage(twin)
		x.promotePage(twin, l)
		l.pinned = append(l.pinned, twin)
		parent, parentHash = twin, l.chain[i]
	}
	s := Stored{Parent: parentHash, First: i, Hashes: l.chain[i:l.fill]}
	for ; i < l.fill; i++ {
		p := l.Pages[i]
		x.insertBlock(p, l.chain[i], parent, l)
		if l.sequence.Tokens != nil {
			x.joinFamily(p, l.sequence.before(l.chain, i), l.sequence.tokensOfBlock(i, x.cfg.BlockTokens))
		}
		l.pinned = append(l.pinned, p)
		parent = p
	}
	if l.partial {
		x.commitTail(l, parent)
	}
	l.fill, l.partial = l.Reused, false
	x.shrinkProtected()
	return s
}

// Release ends a lease: its private pages are free, its pins are off, deepest first, so that a
// leaf is always older than its parent. A second Release, or one of an older epoch, does nothing.
func (x *Index) Release(l *Lease) {
	if l.closed || l.epoch != x.epoch {
		return
	}
	l.closed = true
	x.loaded(l)
	for i := len(l.Pages) - 1; i >= 0; i-- {
		if p := l.Pages[i]; x.pages[p].state == pagePrivate {
			x.pages[p].state = pageFree
			x.free = append(x.free, p)
		}
	}
	for i := len(l.pinned) - 1; i >= 0; i-- {
		x.unpinPage(l.pinned[i])
	}
}
