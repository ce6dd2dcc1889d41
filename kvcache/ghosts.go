package kvcache

import "encoding/binary"

// ghosts remembers the last hashes that were evicted or discarded, and when they were last used,
// oldest forgotten first. It holds 64 bits of each: a collision makes a stranger look familiar, no
// more.
type ghosts struct {
	ring []ghost
	next int
	at   table   // positions in ring
	late []ghost // to be remembered before anybody asks
}

// mostLate bounds the hashes that are yet to be remembered.
const mostLate = 4096

type ghost struct {
	key    uint64 // 0: an empty place
	used   uint64 // the index's clock when the block was last used
	reused bool   // a second sequence had come with it
}

func newGhosts(n int) ghosts {
	return ghosts{ring: make([]ghost, n), at: newTable(n)}
}

func ghostKey(h Hash) uint64 { return binary.LittleEndian.Uint64(h[:8]) | 1 }

// addHash remembers a hash as the newest. It takes effect when somebody asks next: for what is evicted for a prompt that is
// after its pass has begun.
func (g *ghosts) addHash(h Hash, used uint64, reused bool) {
	if len(g.ring) == 0 {
		return
	}
	if len(g.late) == mostLate {
		g.catchUp()
	}
	g.late = append(g.late, ghost{ghostKey(h), used, reused})
}

// catchUp remembers what was added since the last question.
func (g *ghosts) catchUp() {
	for _, one := range g.late {
		g.rememberGhost(one)
	}
	g.late = g.late[:0]
}

func (g *ghosts) rememberGhost(one ghost) {
	if old := g.ring[g.next].key; old != 0 {
		if at, i := g.findKey(old); at == uint32(g.next) {
			g.at.removeSlot(i)
		}
	}
	if at, i := g.findKey(one.key); at != nowhere {
		g.at.slots[i].at = uint32(g.next) + 1
	} else {
		g.at.putEntry(g.at.hashKey(one.key), g.next)
	}
	g.ring[g.next] = one
	if g.next++; g.next == len(g.ring) {
		g.next = 0
	}
}

// findKey is where a key stands in the ring, and which slot says so; nowhere if it does not.
func (g *ghosts) findKey(key uint64) (at uint32, slot int) {
	hash := g.at.hashKey(key)
	for at, slot = g.at.nextWithHash(hash, g.at.homeSlot(hash)); at != nowhere && g.ring[at].key != key; {
		at, slot = g.at.nextWithHash(hash, slot+1)
	}
	return at, slot
}

// findHash returns what is remembered of a hash, if it is.
func (g *ghosts) findHash(h Hash) (ghost, bool) {
	g.catchUp()
	at, _ := g.findKey(ghostKey(h))
	if at == nowhere {
		return ghost{}, false
	}
	return g.ring[at], true
}

// evictionsSince is how many blocks were evicted or discarded since a hash that is remembered.
func (g *ghosts) evictionsSince(h Hash) int {
	g.catchUp()
	at, _ := g.findKey(ghostKey(h))
	return (g.next - int(at) + len(g.ring)) % len(g.ring)
}
