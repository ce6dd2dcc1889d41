package kvcache

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var histories = flag.Int("histories", 30_000, "random histories that the property test runs")

// chooser is where a history's choices come from: a random source or a fuzzer's bytes.
type chooser interface{ IntN(n int) int }

// choices turns a fuzzer's bytes into choices; when they run out every choice is 0.
type choices struct{ data []byte }

func (c *choices) IntN(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := int(c.data[0])
	c.data = c.data[1:]
	return b % n
}

// history drives an index at random beside a dumb oracle: what is in each page of both tiers, as the
// leases and moves tell it, and which of that may be read.
type history struct {
	t        testing.TB
	x        *Index
	rng      chooser
	device   []Hash        // content of the device's pages
	memory   []Hash        // content of the pages of host memory
	resident map[Hash]bool // on the device
	kept     map[Hash]bool // in host memory
	open     []*Lease
}

func newHistory(t testing.TB, rng chooser) *history {
	c := Config{
		BlockTokens: 4, NumBlocks: rng.IntN(24), HostBlocks: []int{0, rng.IntN(6), rng.IntN(60)}[rng.IntN(3)],
		Eviction: []Eviction{EvictReuse, EvictLRU}[rng.IntN(2)],
	}
	x, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{t: t, x: x, rng: rng}
	h.forget()
	return h
}

func (h *history) forget() {
	h.device, h.memory = make([]Hash, h.x.cfg.NumBlocks), make([]Hash, h.x.cfg.HostBlocks)
	h.resident, h.kept, h.open = map[Hash]bool{}, map[Hash]bool{}, nil
}

func (h *history) chain() []Hash {
	labels := make([]uint16, 1+h.rng.IntN(7))
	for i := range labels {
		labels[i] = uint16(h.rng.IntN(3))
	}
	return testChain(labels...)
}

func (h *history) step() {
	switch op := h.rng.IntN(20); {
	case op < 10:
		h.acquire()
	case op < 19 && len(h.open) > 0:
		i := h.rng.IntN(len(h.open))
		if h.rng.IntN(2) == 0 {
			h.commit(h.open[i])
			return
		}
		h.x.Release(h.open[i])
		h.open = append(h.open[:i], h.open[i+1:]...)
	case op == 19 && h.rng.IntN(50) == 0:
		h.x.Reset()
		h.forget()
	case op == 19 && h.rng.IntN(5) == 0:
		h.clear()
	}
}

// clear drops what is not held, and checks that nothing else is and that all of that is told.
func (h *history) clear() {
	cleared := h.x.Clear()
	var lost []Hash
	for _, b := range cleared.Host {
		if !h.kept[b] {
			h.t.Fatalf("block %v was dropped from host memory, where it was not", b)
		}
		delete(h.kept, b)
		h.memory[slices.Index(h.memory, b)] = Hash{}
		if !h.resident[b] {
			lost = append(lost, b)
		}
	}
	for _, b := range cleared.Device {
		if !h.resident[b] {
			h.t.Fatalf("block %v was dropped from the device, where it was not", b)
		}
		delete(h.resident, b)
		if !h.kept[b] {
			lost = append(lost, b)
		}
	}
	if !slices.Equal(lost, cleared.Lost) {
		h.t.Fatalf("lost %v, told %v", lost, cleared.Lost)
	}
	if len(h.open) == 0 && (len(h.resident) > 0 || len(h.kept) > 0 || cleared.Held > 0) {
		h.t.Fatalf("nothing is held; %d blocks stay on the device, %d in host memory, %d pages held", len(h.resident), len(h.kept), cleared.Held)
	}
}

// commit lets a pass fill its pages.
func (h *history) commit(l *Lease) {
	for i := l.Cached(); i < min(len(l.Pages), len(l.chain)); i++ {
		h.device[l.Pages[i]] = l.chain[i]
	}
	for _, b := range h.x.Commit(l).Hashes {
		if h.resident[b] {
			h.t.Fatalf("block %v stored twice", b)
		}
		h.resident[b] = true
	}
}

func (h *history) request(chain []Hash) Request {
	r := Request{
		Chain: chain, Reuse: h.rng.IntN(len(chain) + 1), Load: h.rng.IntN(4) > 0,
		Fill: h.rng.IntN(len(chain) + 1), Shared: h.rng.IntN(3), Lowest: h.rng.IntN(4) == 0,
	}
	if h.rng.IntN(3) == 0 {
		r.Pages = len(chain) + h.rng.IntN(3)
	}
	if h.rng.IntN(2) == 0 {
		r.Wanted = func(b Hash) bool { return b[3]&1 == 0 }
	}
	return r
}

// reach counts the leading blocks of a chain on the device and in either tier, one by one.
func (h *history) reach(chain []Hash) (resident, all int) {
	for resident < len(chain) && h.resident[chain[resident]] {
		resident++
	}
	for all = resident; all < len(chain) && h.kept[chain[all]]; {
		all++
	}
	return resident, all
}

func (h *history) acquire() {
	chain := h.chain()
	r := h.request(chain)
	resident, all := h.reach(chain)
	if gotResident, gotAll := h.x.Reach(chain); gotResident != resident || gotAll != all || h.x.Match(chain) != resident {
		h.t.Fatalf("%d blocks match and %d are in either tier, the oracle says %d and %d", gotResident, gotAll, resident, all)
	}
	l, m := h.x.Acquire(r)
	h.move(&m)
	if l == nil {
		if r.Pages == 0 || len(m.Evicted)+len(m.Saves) > 0 {
			h.t.Fatalf("a lease of %d pages refused after moving %+v", r.Pages, m)
		}
		return
	}
	if l.Reused != min(resident, r.Reuse) || r.Pages > 0 && len(l.Pages) != r.Pages {
		h.t.Fatalf("lease %+v for %+v with %d resident", l, r, resident)
	}
	if most := max(0, min(all, r.Reuse)-resident); len(l.Loads) > most || len(l.Loads) > 0 && !r.Load ||
		r.Pages > 0 && r.Load && len(l.Loads) < most {
		h.t.Fatalf("%d loads for %+v with %d resident, %d in either tier", len(l.Loads), r, resident, all)
	}
	h.open = append(h.open, l)
	for _, c := range l.Loads {
		h.device[c.Device] = h.memory[c.Host]
	}
	for i, p := range l.Pages[:l.Cached()] {
		if h.device[p] != chain[i] {
			h.t.Fatalf("page %d is to be read as %v and holds %v", p, chain[i], h.device[p])
		}
	}
	h.scribble(l)
}

// scribble overwrites the pages that a pass may write, as it may be abandoned.
func (h *history) scribble(l *Lease) {
	for _, p := range l.Pages[l.Cached():] {
		h.device[p] = Hash{}
	}
}

// move follows what an Acquire says that it moved.
func (h *history) move(m *Moves) {
	gone := map[Hash]bool{}
	for _, b := range m.Evicted {
		if !h.resident[b] {
			h.t.Fatalf("block %v evicted but not resident", b)
		}
		delete(h.resident, b)
		gone[b] = true
	}
	for _, s := range m.Saves {
		if old := h.memory[s.Host]; h.kept[old] != (s.Replaced == old && old != Hash{}) {
			h.t.Fatalf("page %d of host memory held %v, %v is said to be replaced", s.Host, old, s.Replaced)
		} else if h.kept[old] {
			delete(h.kept, old)
			gone[old] = true
		}
		if h.device[s.Device] != s.Block || h.kept[s.Block] {
			h.t.Fatalf("page %d is to be saved as %v and holds %v; saved before: %v", s.Device, s.Block, h.device[s.Device], h.kept[s.Block])
		}
		h.memory[s.Host] = s.Block
		h.kept[s.Block] = true
	}
	for _, b := range m.Lost {
		if !gone[b] || h.resident[b] || h.kept[b] {
			h.t.Fatalf("block %v is said to be lost, but did not go, or is there", b)
		}
		delete(gone, b)
	}
	for b := range gone {
		if !h.resident[b] && !h.kept[b] {
			h.t.Fatalf("block %v went without being called lost", b)
		}
	}
}

func (h *history) check() {
	if err := h.x.CheckIntegrity(h.open); err != nil {
		h.t.Fatal(err)
	}
	if len(h.resident) != h.x.byHash.count {
		h.t.Fatalf("%d blocks resident, the oracle has %d", h.x.byHash.count, len(h.resident))
	}
	if h.x.host != nil && len(h.kept) != h.x.host.byHash.count {
		h.t.Fatalf("%d blocks in host memory, the oracle has %d", h.x.host.byHash.count, len(h.kept))
	}
}

func TestAgainstOracle(t *testing.T) {
	loads, saves := 0, 0
	for seed := range *histories {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		h := newHistory(t, rng)
		for range 40 {
			h.step()
			h.check()
			for _, l := range h.open {
				loads += len(l.Loads)
			}
		}
		saves += len(h.kept)
		if t.Failed() {
			t.Fatalf("in history %d", seed)
		}
	}
	if loads < *histories/4 || saves < *histories/4 {
		t.Errorf("%d loads and %d saves: too few to tell", loads, saves)
	}
}

// FuzzIndex lets the fuzzer choose what leases do.
func FuzzIndex(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte("acquire, commit, release; then do it again with less room and more in common"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data}
		h := newHistory(t, c)
		for n := 0; len(c.data) > 0 && n < 1000; n++ {
			h.step()
			h.check()
		}
	})
}
