package kvcache

import "encoding/binary"

// ghosts remembers the last hashes that were evicted or discarded, and when they were last used,
// oldest forgotten first. It holds 64 bits of each: a collision makes a stranger look familiar, no
// more.
type ghosts struct {
	ring []ghost
	next int
	at   map[uint64]int // position in ring
}

type ghost struct {
	key    uint64 // 0: an empty place
	used   uint64 // the index's clock when the block was last used
	reused bool   // a second sequence had come with it
}

func newGhosts(n int) ghosts {
	return ghosts{ring: make([]ghost, n), at: make(map[uint64]int)}
}

func ghostKey(h Hash) uint64 { return binary.LittleEndian.Uint64(h[:8]) | 1 }

// add remembers a hash as the newest.
func (g *ghosts) add(h Hash, used uint64, reused bool) {
	if len(g.ring) == 0 {
		return
	}
	k := ghostKey(h)
	if old := g.ring[g.next].key; old != 0 && g.at[old] == g.next {
		delete(g.at, old)
	}
	g.ring[g.next] = ghost{k, used, reused}
	g.at[k] = g.next
	g.next = (g.next + 1) % len(g.ring)
}

// seen returns what is remembered of a hash, if it is.
func (g *ghosts) seen(h Hash) (ghost, bool) {
	i, ok := g.at[ghostKey(h)]
	if !ok {
		return ghost{}, false
	}
	return g.ring[i], true
}

// age is how many blocks were evicted or discarded since a hash that is remembered.
func (g *ghosts) age(h Hash) int {
	return (g.next - g.at[ghostKey(h)] + len(g.ring)) % len(g.ring)
}
