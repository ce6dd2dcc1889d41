package scheduler

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestPeersThatAreGoneAreForgotten: peers of ever new names come, and are lost, without the Core growing.
func TestPeersThatAreGoneAreForgotten(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	comeAndGo := func(from, to int) {
		for i := from; i < to; i++ {
			name := PeerID(fmt.Sprintf("frontend-of-a-rather-long-name-%0100d", i))
			w.frontend(name)
			w.step(name, &wire.Lost{})
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	comeAndGo(0, 1000)
	before := heap()
	comeAndGo(1000, 21_000)
	if grown := heap() - before; grown > 200_000 {
		t.Errorf("20,000 peers that are gone hold %d bytes", grown)
	}
	runtime.KeepAlive(w)
}

// TestEpochOfALostPeer: a peer that was lost is told so when it comes back, by an epoch that it has not seen;
// the others keep theirs.
func TestEpochOfALostPeer(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	epoch := func(name PeerID) uint64 {
		out := w.core.Step(w.now, name, &wire.Hello{Role: wire.RoleFrontend, Name: string(name), Epoch: 1})
		return pick[*wire.Welcome](out)[0].Epoch
	}
	a, b := epoch("a"), epoch("b")
	seen := map[uint64]bool{a: true}
	for range 3 {
		w.step("a", &wire.Lost{})
		again := epoch("a")
		if seen[again] {
			t.Fatalf("the epoch %d was known to the peer before it was lost", again)
		}
		if seen[again] = true; epoch("a") != again || epoch("b") != b {
			t.Error("an epoch changes although nothing was lost")
		}
	}
}
