package kvcache

import "encoding/binary"

// ghosts remembers the last hashes that were evicted or discarded, oldest forgotten first. It holds
// 64 bits of each: a collision makes a stranger look familiar, no more.
type ghosts struct {
	ring []uint64
	next int
	at   map[uint64]int // position in ring
}

func newGhosts(n int) ghosts {
	return ghosts{ring: make([]uint64, n), at: make(map[uint64]int)}
}

func ghostKey(h Hash) uint64 { return binary.LittleEndian.Uint64(h[:8]) | 1 }

// add remembers a hash as the newest.
func (g *ghosts) add(h Hash) {
	if len(g.ring) == 0 {
		return
	}
	k := ghostKey(h)
	if old := g.ring[g.next]; old != 0 && g.at[old] == g.next {
		delete(g.at, old)
	}
	g.ring[g.next] = k
	g.at[k] = g.next
	g.next = (g.next + 1) % len(g.ring)
}

func (g *ghosts) has(h Hash) bool {
	_, ok := g.at[ghostKey(h)]
	return ok
}
