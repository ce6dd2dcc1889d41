package kvcache

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// testChain makes a chain from block labels: equal labels up to a block mean equal hashes.
func testChain(labels ...uint16) []Hash {
	var chain []Hash
	var path []byte
	for _, label := range labels {
		path = binary.LittleEndian.AppendUint16(path, label)
		chain = append(chain, fnvHash(path))
	}
	return chain
}

func fnvHash(path []byte) (h Hash) {
	for lane := range 4 {
		sum := uint64(14695981039346656037) + uint64(lane)*0x9e3779b97f4a7c15
		for _, b := range path {
			sum = (sum ^ uint64(b)) * 1099511628211
		}
		binary.LittleEndian.PutUint64(h[lane*8:], sum)
	}
	return h
}

func run(label uint16, n int) []uint16 {
	labels := make([]uint16, n)
	for i := range labels {
		labels[i] = label
	}
	return labels
}

func newIndex(t testing.TB, blocks int, e Eviction) *Index {
	t.Helper()
	x, err := New(Config{BlockTokens: 4, NumBlocks: blocks, Eviction: e})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// pass runs one sequence through: acquire, commit, release. It returns the blocks reused.
func pass(x *Index, chain []Hash) int {
	l, _ := x.Acquire(Request{Chain: chain, Reuse: len(chain), Fill: len(chain)})
	x.Commit(l)
	x.Release(l)
	return l.Reused
}

func TestBlocksBecomeMatchableAtCommit(t *testing.T) {
	x := newIndex(t, 8, EvictReuse)
	chain := testChain(1, 2, 3)
	l, moves := x.Acquire(Request{Chain: chain, Reuse: 3, Fill: 3})
	if len(l.Pages) != 3 || l.Reused != 0 || len(moves.Evicted) != 0 {
		t.Fatalf("lease %+v, evicted %v; want three new pages", l, moves.Evicted)
	}
	if n := x.Match(chain); n != 0 {
		t.Errorf("%d blocks match while the pass runs, want 0", n)
	}
	s := x.Commit(l)
	if s.Parent != RootHash || s.First != 0 || len(s.Hashes) != 3 || x.Match(chain) != 3 {
		t.Errorf("commit stored %+v, %d match; want 3 blocks under the root", s, x.Match(chain))
	}
	x.Release(l)
	if n := x.Match(testChain(1, 2, 9)); n != 2 {
		t.Errorf("a chain that differs in its third block matches %d, want 2", n)
	}
}

func TestAbandonedPassLeavesNothing(t *testing.T) {
	x := newIndex(t, 4, EvictReuse)
	l, _ := x.Acquire(Request{Chain: testChain(1, 2), Reuse: 2, Fill: 2})
	x.Release(l)
	x.Release(l)
	if x.Used() != 0 || x.Match(testChain(1)) != 0 {
		t.Errorf("%d pages used, %d blocks match after a release without commit", x.Used(), x.Match(testChain(1)))
	}
	if s := x.Commit(l); s.Hashes != nil {
		t.Errorf("a released lease stored %v", s)
	}
}

func TestSuffixIsDiscardedUnderPressure(t *testing.T) {
	x := newIndex(t, 4, EvictReuse)
	l, _ := x.Acquire(Request{Chain: testChain(run(1, 9)...), Reuse: 9, Fill: 9})
	if len(l.Pages) != 4 {
		t.Fatalf("a chain of 9 got %d of 4 pages", len(l.Pages))
	}
	other, _ := x.Acquire(Request{Chain: testChain(2), Reuse: 1, Fill: 1})
	if other == nil || len(other.Pages) != 0 {
		t.Errorf("with all pages held, a sequence that needs none got %+v, want an empty lease", other)
	}
	if must, _ := x.Acquire(Request{Chain: testChain(3), Pages: 1}); must != nil {
		t.Errorf("with all pages held, a sequence that needs one got %+v", must)
	}
}

func TestTwinKeepsItsCopy(t *testing.T) {
	x := newIndex(t, 8, EvictReuse)
	chain := testChain(1, 2, 3)
	a, _ := x.Acquire(Request{Chain: chain[:2], Reuse: 2, Fill: 2})
	b, _ := x.Acquire(Request{Chain: chain, Reuse: 3, Fill: 3})
	x.Commit(a)
	s := x.Commit(b)
	if s.First != 2 || s.Parent != chain[1] || len(s.Hashes) != 1 {
		t.Errorf("the second of two equal passes stored %+v, want its third block alone", s)
	}
	if err := x.CheckIntegrity([]*Lease{a, b}); err != nil {
		t.Error(err)
	}
	x.Release(a)
	x.Release(b)
	if x.Used() != 3 {
		t.Errorf("%d pages are used by three blocks", x.Used())
	}
}

func TestResetVoidsLeases(t *testing.T) {
	x := newIndex(t, 4, EvictReuse)
	l, _ := x.Acquire(Request{Chain: testChain(1), Reuse: 1, Fill: 1})
	x.Reset()
	x.Commit(l)
	x.Release(l)
	if err := x.CheckIntegrity(nil); err != nil || x.Used() != 0 {
		t.Errorf("after a reset %d pages are used, integrity %v", x.Used(), err)
	}
}

func TestWantedBlocksGoLast(t *testing.T) {
	x := newIndex(t, 4, EvictReuse)
	old, young := testChain(1, 1), testChain(2, 2)
	pass(x, old)
	pass(x, young)
	l, moves := x.Acquire(Request{Chain: testChain(3, 3), Reuse: 2, Fill: 2,
		Wanted: func(h Hash) bool { return h == old[1] }})
	removed := moves.Evicted
	if len(removed) != 2 || removed[0] != young[1] || removed[1] != young[0] {
		t.Errorf("evicted %v, want the two that nobody waits for, leaf first", removed)
	}
	x.Commit(l)
	x.Release(l)
	if x.Match(old) != 2 {
		t.Error("the wanted chain is gone")
	}
}

// TestLRUSparesNothing: the baseline does not look at who waits.
func TestLRUSparesNothing(t *testing.T) {
	for _, pages := range []int{0, 2} {
		x := newIndex(t, 4, EvictLRU)
		old, young := testChain(1, 1), testChain(2, 2)
		pass(x, old)
		pass(x, young)
		_, moves := x.Acquire(Request{Chain: testChain(3, 3), Fill: 2, Pages: pages,
			Wanted: func(h Hash) bool { return h == old[1] }})
		removed := moves.Evicted
		if len(removed) != 2 || removed[0] != old[1] || removed[1] != old[0] {
			t.Errorf("for %d pages %v went, want the oldest two, leaf first", pages, removed)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{BlockTokens: 0}, {BlockTokens: 1, NumBlocks: -1}, {BlockTokens: 1, HostBlocks: -1}, {BlockTokens: 1, Eviction: "mru"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// floodHits runs users' profiles, with one-off prompts between them when asked, and returns the
// share of profile blocks that were found.
func floodHits(t *testing.T, e Eviction, flood bool) float64 {
	const profile, users, cache, oneOff = 55, 12, 1000, 234
	x := newIndex(t, cache, e)
	rng := rand.New(rand.NewPCG(7, 7))
	hits, queries := 0, 0
	for i := range 3000 {
		u := uint16(rng.IntN(users))
		chain := testChain(append(run(u, profile), uint16(1000+i))...)
		reused := pass(x, chain)
		if i > 200 {
			hits += reused
			queries += profile
		}
		if flood && i%2 == 0 {
			pass(x, testChain(append([]uint16{uint16(10000 + i)}, run(99, oneOff-1)...)...))
		}
	}
	return 100 * float64(hits) / float64(queries)
}

func TestFloodOfOneOffPrompts(t *testing.T) {
	quiet, flooded := floodHits(t, EvictReuse, false), floodHits(t, EvictReuse, true)
	lruQuiet, lruFlooded := floodHits(t, EvictLRU, false), floodHits(t, EvictLRU, true)
	t.Logf("hit rate of profiles: reuse %.1f %% alone, %.1f %% in the flood; lru %.1f %%, %.1f %%", quiet, flooded, lruQuiet, lruFlooded)
	if quiet-flooded > 5 {
		t.Errorf("one-off prompts cost the profiles %.1f points of hit rate, at most 5 allowed", quiet-flooded)
	}
	if lruQuiet-lruFlooded < 5 {
		t.Errorf("the flood costs LRU only %.1f points: it is no flood", lruQuiet-lruFlooded)
	}
}
