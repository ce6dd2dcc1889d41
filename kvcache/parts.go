package kvcache

import (
	"slices"
	"sort"

	"github.com/prefillonly/prefillonly/engine"
)

// Part is the leading tokens of a resident page that a sequence shares beyond the whole blocks that
// match: to be copied to the sequence's own block before that is read. A sequence that must hold pages gets
// one only if that leaves it enough.
type Part struct {
	Page   Page
	Tokens int // 0: none
}

// Sequence is the tokens behind a chain, by which blocks are compared that are not equal as a whole.
type Sequence struct {
	Tokens []engine.TokenID // the prompt; nil: parts of blocks are neither read nor kept
	Root   Hash             // of the chain's salt; see Hasher.Root
	Most   int              // at most this many leading tokens are read from the cache
}

// before names what comes before block i of a chain.
func (s *Sequence) before(chain []Hash, i int) Hash {
	if i == 0 {
		return s.Root
	}
	return chain[i-1]
}

// tokensOfBlock is the tokens of block i, the last of which may be partial.
func (s *Sequence) tokensOfBlock(i, blockTokens int) []engine.TokenID {
	return s.Tokens[min(i*blockTokens, len(s.Tokens)):min((i+1)*blockTokens, len(s.Tokens))]
}

// families holds the resident pages that follow one block, by what comes before them, and in the order
// of their tokens: then the page that shares most with a sequence is a neighbour of where that would
// stand. Most have one member, and are found like blocks.
type families struct {
	singles table           // the members of families of one
	others  map[Hash][]Page // of two or more
}

func newFamilies(pages int) families {
	return families{singles: newTable(pages), others: map[Hash][]Page{}}
}

// findFamilyOfOne is the member of a family of one, and the slot that says so; none if there is no such family.
func (x *Index) findFamilyOfOne(before *Hash) (p Page, slot int) {
	t := &x.families.singles
	hash := t.slotHash(before)
	at, slot := t.nextWithHash(hash, t.homeSlot(hash))
	for at != nowhere && x.pages[at].before != *before {
		at, slot = t.nextWithHash(hash, slot+1)
	}
	if at == nowhere {
		return none, slot
	}
	return Page(at), slot
}

// place is where a page with these tokens stands, or would stand, in a family.
func (x *Index) place(family []Page, tokens []engine.TokenID) int {
	return sort.Search(len(family), func(i int) bool {
		return slices.Compare(x.pages[family[i]].tokens, tokens) >= 0
	})
}

// joinFamily makes a resident page one of its family, with a copy of its tokens.
func (x *Index) joinFamily(p Page, before Hash, tokens []engine.TokenID) {
	pg, f := &x.pages[p], &x.families
	pg.before, pg.tokens = before, append(pg.tokens[:0], tokens...)
	family, many := f.others[before]
	if !many {
		only, slot := x.findFamilyOfOne(&before)
		if only == none {
			f.singles.putEntry(f.singles.slotHash(&before), int(p))
			return
		}
		f.singles.removeSlot(slot)
		family = []Page{only}
	}
	f.others[before] = slices.Insert(family, x.place(family, tokens), p)
}

// leaveFamily undoes join.
func (x *Index) leaveFamily(p Page) {
	pg, f := &x.pages[p], &x.families
	if len(pg.tokens) == 0 {
		return
	}
	if only, slot := x.findFamilyOfOne(&pg.before); only != none {
		f.singles.removeSlot(slot)
	} else {
		family := f.others[pg.before]
		at := x.place(family, pg.tokens)
		if family = slices.Delete(family, at, at+1); len(family) > 1 {
			f.others[pg.before] = family
		} else {
			delete(f.others, pg.before)
			f.singles.putEntry(f.singles.slotHash(&pg.before), int(family[0]))
		}
	}
	pg.before, pg.tokens = Hash{}, pg.tokens[:0]
}

// findNearestPart finds the page that shares most leading tokens with these.
func (x *Index) findNearestPart(before Hash, tokens []engine.TokenID) (best Part) {
	family := x.families.others[before]
	if only, _ := x.findFamilyOfOne(&before); only != none {
		family = []Page{only}
	}
	at := x.place(family, tokens)
	for _, p := range family[max(at-1, 0):min(at+1, len(family))] {
		if n := commonTokens(x.pages[p].tokens, tokens); n > best.Tokens {
			best = Part{p, n}
		}
	}
	return best
}

func commonTokens(a, b []engine.TokenID) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Part finds what of the block after the first blocks of a chain is on the device, as part of another
// one.
func (x *Index) Part(s *Sequence, chain []Hash, blocks int) Part {
	read := min(s.Most, len(s.Tokens)) - blocks*x.cfg.BlockTokens
	if read <= 0 {
		return Part{}
	}
	tokens := s.tokensOfBlock(blocks, x.cfg.BlockTokens)
	return x.findNearestPart(s.before(chain, blocks), tokens[:min(read, len(tokens))])
}

// pinPart finds a lease's part and holds it, until the lease is released.
func (x *Index) pinPart(l *Lease, r *Request) {
	part := x.Part(&r.Sequence, r.Chain, l.Reused)
	if part.Tokens == 0 {
		return
	}
	if r.Pages > 0 && x.pages[part.Page].pins == 0 && r.Pages-l.Reused > x.Available()-1 {
		return // it would take the last page that the sequence needs itself
	}
	l.Part = part
	x.pinPage(part.Page)
	l.pinned = append(l.pinned, part.Page)
	if part.Tokens >= x.cfg.BlockTokens/2 {
		x.promotePage(part.Page, l)
	}
}

// worthKeeping is how many tokens more than what is there already a partial block must hold to be worth
// a page.
func (x *Index) worthKeeping() int { return max(x.cfg.BlockTokens/8, 1) }

// tailTokens is the tokens after the last full block of a lease's chain, if they are worth a page.
func (x *Index) tailTokens(l *Lease) []engine.TokenID {
	tokens, known := l.sequence.tokensOfBlock(len(l.chain), x.cfg.BlockTokens), 0
	if l.Cached() == len(l.chain) {
		known = l.Part.Tokens
	}
	if len(tokens)-known < x.worthKeeping() {
		return nil
	}
	return tokens
}

// commitTail makes a lease's partial block one of the family of its parent, unless another page holds
// as much.
func (x *Index) commitTail(l *Lease, parent Page) {
	before, tokens := l.sequence.before(l.chain, len(l.chain)), x.tailTokens(l)
	if x.findNearestPart(before, tokens).Tokens == len(tokens) {
		return
	}
	p := l.Pages[len(l.chain)]
	s := probation
	if l.lowest {
		s = lowest
	}
	x.makeResident(p, parent, s)
	x.pages[p].partial = true
	x.partial++
	x.joinFamily(p, before, tokens)
	l.pinned = append(l.pinned, p)
}
