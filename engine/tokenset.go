package engine

import (
	"math/bits"
	"slices"
)

// TokenSet is a set of tokens in the smaller of two forms: ids, ascending, or bits. The zero is the empty set. A TokenSet
// is not changed once it is made.
type TokenSet struct {
	ids  []TokenID // ascending; nil where bits are
	bits []uint32  // bit i%32 of word i/32 is token i; the last word is not 0
}

// NewTokenSet makes a set of ids in any order.
func NewTokenSet(ids ...TokenID) TokenSet {
	if len(ids) == 0 {
		return TokenSet{}
	}
	if !slices.IsSorted(ids) {
		ids = slices.Sorted(slices.Values(ids))
	}
	ids = slices.Compact(slices.Clone(ids))
	if words := int(ids[len(ids)-1]/32) + 1; words < len(ids) {
		return TokenSet{bits: bitsOf(ids, words)}
	}
	return TokenSet{ids: ids}
}

// TokenSetOfBits makes a set of the tokens whose bits are set, and keeps them.
func TokenSetOfBits(words []uint32) TokenSet {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	if n := countBits(words); n <= len(words) {
		return TokenSet{ids: idsOf(words, n)}
	}
	return TokenSet{bits: words}
}

func bitsOf(ids []TokenID, words int) []uint32 {
	all := make([]uint32, words)
	for _, id := range ids {
		all[id/32] |= 1 << (id % 32)
	}
	return all
}

func countBits(words []uint32) (n int) {
	for _, w := range words {
		n += bits.OnesCount32(w)
	}
	return n
}

// idsOf lists the n bits that are set.
func idsOf(words []uint32, n int) []TokenID {
	if n == 0 {
		return nil
	}
	ids := make([]TokenID, 0, n)
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			ids = append(ids, TokenID(32*i+bits.TrailingZeros32(w)))
		}
	}
	return ids
}

// Len is how many tokens the set has.
func (s TokenSet) Len() int { return len(s.ids) + countBits(s.bits) }

// Empty says that it has none.
func (s TokenSet) Empty() bool { return len(s.ids)+len(s.bits) == 0 }

// Last is the greatest token of a set that is not empty.
func (s TokenSet) Last() TokenID {
	if n := len(s.bits); n > 0 {
		return TokenID(32*n - 1 - bits.LeadingZeros32(s.bits[n-1]))
	}
	return s.ids[len(s.ids)-1]
}

// Has says whether the set has id.
func (s TokenSet) Has(id TokenID) bool {
	if i := int(id / 32); i < len(s.bits) {
		return s.bits[i]>>(id%32)&1 == 1
	}
	_, found := slices.BinarySearch(s.ids, id)
	return found
}

// Nth is the n-th least token, from 0.
func (s TokenSet) Nth(n int) TokenID {
	for i, w := range s.bits {
		count := bits.OnesCount32(w)
		if n >= count {
			n -= count
			continue
		}
		for ; n > 0; n-- {
			w &= w - 1
		}
		return TokenID(32*i + bits.TrailingZeros32(w))
	}
	return s.ids[n]
}

// IDs are the tokens, ascending. They are not to be changed.
func (s TokenSet) IDs() []TokenID {
	if s.bits != nil {
		return idsOf(s.bits, countBits(s.bits))
	}
	return s.ids
}

// Bits are those of the set as TokenSetOfBits takes them; nil if it is a set of ids. They are not to be changed.
func (s TokenSet) Bits() []uint32 { return s.bits }

// With is the set and ids.
func (s TokenSet) With(ids ...TokenID) TokenSet {
	switch {
	case len(ids) == 0:
		return s
	case s.bits == nil:
		return NewTokenSet(append(slices.Clone(s.ids), ids...)...)
	}
	words := slices.Clone(s.bits)
	if more := int(slices.Max(ids)/32) + 1 - len(words); more > 0 {
		if more > len(words)+len(ids) { // far beyond: bits would be the larger form
			return NewTokenSet(append(s.IDs(), ids...)...)
		}
		words = append(words, make([]uint32, more)...)
	}
	for _, id := range ids {
		words[id/32] |= 1 << (id % 32)
	}
	return TokenSetOfBits(words)
}

// Below is the set without the tokens from n on.
func (s TokenSet) Below(n int) TokenSet {
	switch {
	case s.Empty() || int64(s.Last()) < int64(n):
		return s
	case s.bits == nil:
		at, _ := slices.BinarySearch(s.ids, TokenID(n))
		return NewTokenSet(s.ids[:at]...)
	}
	words := slices.Clone(s.bits[:(n+31)/32])
	if n%32 > 0 {
		words[n/32] &= 1<<(n%32) - 1
	}
	return TokenSetOfBits(words)
}
