package kvcache

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// table finds where things with a key are kept: their places in a list of the owner's, who compares the keys. It is open
// addressing with linear probing, at most half full, in 8 bytes an entry, so that of a large cache most lookups touch one
// line of memory, and one of what is not there no other.
type table struct {
	slots []slot
	count int
	shift int    // of a hash to its home
	odd   uint64 // random, so that nobody can choose keys that fall together; what is found does not depend on it
}

type slot struct {
	hash uint32
	at   uint32 // the place, and 1; 0: empty
}

// nowhere is the place of what is not there.
const nowhere = ^uint32(0)

// newTable makes one for so many things at most.
func newTable(most int) table {
	width := max(bits.Len(uint(max(2*most-1, 0))), 1)
	return table{
		slots: make([]slot, 1<<width), shift: 32 - width,
		odd: maphash.Bytes(maphash.MakeSeed(), nil) | 1,
	}
}

// hashKey spreads 64 bits of a key (multiply-shift, Dietzfelbinger et al., 1997).
func (t *table) hashKey(key uint64) uint32 { return uint32(key * t.odd >> 32) }

// slotHash is the hash of a block's.
func (t *table) slotHash(h *Hash) uint32 { return t.hashKey(binary.LittleEndian.Uint64(h[:])) }

// homeSlot is the slot where a hash is looked for first.
func (t *table) homeSlot(hash uint32) int { return int(hash >> t.shift) }

// nextWithHash looks for a thing of this hash, from a slot on: its place and slot, or nowhere. Others may have the same hash.
func (t *table) nextWithHash(hash uint32, i int) (at uint32, found int) {
	for last := len(t.slots) - 1; ; i++ {
		i &= last
		if s := t.slots[i]; s.at == 0 || s.hash == hash {
			return s.at - 1, i
		}
	}
}

// putEntry adds a thing that is not there.
func (t *table) putEntry(hash uint32, at int) {
	i := t.homeSlot(hash)
	for t.slots[i].at != 0 {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = slot{hash, uint32(at) + 1}
	t.count++
}

// dropEntry takes out the thing of this hash whose place it is, which is there.
func (t *table) dropEntry(hash uint32, place uint32) {
	at, i := t.nextWithHash(hash, t.homeSlot(hash))
	for at != place {
		at, i = t.nextWithHash(hash, i+1)
	}
	t.removeSlot(i)
}

// removeSlot empties a slot, and moves those up that were put behind it for want of it.
func (t *table) removeSlot(i int) {
	last := len(t.slots) - 1
	for j := (i + 1) & last; t.slots[j].at != 0; j = (j + 1) & last {
		if from := t.homeSlot(t.slots[j].hash); (j-from)&last >= (j-i)&last {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = slot{}
	t.count--
}
