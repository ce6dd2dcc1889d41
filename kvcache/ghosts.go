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
	key  uint64 // 0: an empty place
	used uint64 // the index's clock when the block was last used
}

func newGhosts(n int) ghosts {
	return ghosts{ring: make([]ghost, n), at: make(map[uint64]int)}
}

func ghostKey(h Hash) uint64 { return binary.LittleEndian.Uint64(h[:8]) | 1 }

// add remembers a hash as the newest.
func (g *ghosts) add(h Hash, used uint64) {
	if len(g.ring) == 0 {
		return
	}
	k := ghostKey(h)
	if old := g.ring[g.next].key; old != 0 && g.at[old] == g.next {
		delete(g.at, old)
	}
	g.ring[g.next] = ghost{k, used}
	g.at[k] = g.next
	g.next = (g.next + 1) % len(g.ring)
}

// seen says whether a hash is remembered, and when it was last used.
func (g *ghosts) seen(h Hash) (used uint64, ok bool) {
	i, ok := g.at[ghostKey(h)]
	if !ok {
		return 0, false
	}
	return g.ring[i].used, true
}
