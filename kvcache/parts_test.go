package kvcache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// writer drives an index with sequences of few different tokens beside an oracle that knows what each
// page holds: all tokens up to the page's last one, and their salt.
type writer struct {
	t      *testing.T
	x      *Index
	rng    *rand.Rand
	hasher Hasher
	wrote  map[Page]written
	open   []open
}

type written struct {
	salt   string
	prefix []engine.TokenID
}

type open struct {
	*Lease
	written
}

func newWriter(t *testing.T, seed uint64) *writer {
	rng := rand.New(rand.NewPCG(seed, 1))
	x, err := New(Config{
		BlockTokens: 4, NumBlocks: rng.IntN(24), HostBlocks: []int{0, rng.IntN(20)}[rng.IntN(2)], Eviction: []Eviction{EvictReuse, EvictLRU}[rng.IntN(2)],
	})
	if err != nil {
		t.Fatal(err)
	}
	return &writer{t: t, x: x, rng: rng, wrote: map[Page]written{}}
}

func (w *writer) sequence() written {
	s := written{[]string{"", "a"}[w.rng.IntN(2)], make([]engine.TokenID, 1+w.rng.IntN(18))}
	for i := range s.prefix {
		s.prefix[i] = engine.TokenID(w.rng.IntN(2))
	}
	return s
}

func (w *writer) step() {
	if w.rng.IntN(2) == 0 || len(w.open) == 0 {
		w.acquire(w.sequence())
		return
	}
	i := w.rng.IntN(len(w.open))
	l := w.open[i]
	if w.rng.IntN(2) == 0 {
		for b, p := range l.Pages {
			if b >= l.Reused {
				w.wrote[p] = written{l.salt, l.prefix[:min((b+1)*4, len(l.prefix))]}
			}
		}
		w.x.Commit(l.Lease)
		return
	}
	w.x.Release(l.Lease)
	w.open = slices.Delete(w.open, i, i+1)
}

func (w *writer) acquire(s written) {
	chain := w.hasher.Chain(s.prefix, 4, s.salt)
	r := Request{
		Chain: chain, Reuse: (len(s.prefix) - 1) / 4, Load: w.rng.IntN(2) == 0, Fill: len(chain),
		Sequence: Sequence{Tokens: s.prefix, Root: w.hasher.Root(s.salt), Most: len(s.prefix) - 1},
	}
	if w.rng.IntN(4) == 0 {
		r.Pages = (len(s.prefix) + 3 + w.rng.IntN(5)) / 4
	}
	best := w.nearest(s, min(w.x.Match(chain), r.Reuse))
	l, _ := w.x.Acquire(r)
	if l == nil {
		return
	}
	w.open = append(w.open, open{l, s})
	if l.Part.Tokens == 0 {
		if best > 0 && r.Pages == 0 && len(l.Loads) == 0 {
			w.t.Fatalf("no part of %v is found, a page holds %d tokens of it", s, best)
		}
		return
	}
	holds, want := w.wrote[l.Part.Page], s.prefix[:4*l.Reused+l.Part.Tokens]
	if len(want) >= len(s.prefix) || holds.salt != s.salt || len(holds.prefix) < len(want) || !slices.Equal(holds.prefix[:len(want)], want) {
		w.t.Fatalf("the part of %v is to be %v of page %d, which holds %v", s, want, l.Part.Page, holds)
	}
	if l.Part.Tokens != best {
		w.t.Fatalf("the part of %v is %d tokens, a page holds %d of it", s, l.Part.Tokens, best)
	}
}

// nearest looks at every resident page.
func (w *writer) nearest(s written, blocks int) (best int) {
	for i := range w.x.pages {
		holds := w.wrote[Page(i)]
		if w.x.pages[i].state != pageResident || holds.salt != s.salt || (len(holds.prefix)-1)/4 != blocks {
			continue
		}
		if n := commonTokens(holds.prefix, s.prefix[:len(s.prefix)-1]); n > 4*blocks {
			best = max(best, n-4*blocks)
		}
	}
	return best
}

// TestParts holds the parts that sequences read to what the pages were written with, and to the best
// there is, over random histories.
func TestParts(t *testing.T) {
	for seed := range uint64(*histories / 30) {
		w := newWriter(t, seed)
		for range 80 {
			w.step()
		}
		var leases []*Lease
		for _, o := range w.open {
			leases = append(leases, o.Lease)
		}
		if err := w.x.CheckIntegrity(leases); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// prompt is tokens from, from+1, ... up to to.
func prompt(from, to int) (ids []engine.TokenID) {
	for i := from; i < to; i++ {
		ids = append(ids, engine.TokenID(i))
	}
	return ids
}

func lease(t *testing.T, x *Index, h *Hasher, salt string, tokens []engine.TokenID) *Lease {
	t.Helper()
	chain := h.Chain(tokens, 64, salt)
	l, _ := x.Acquire(Request{
		Chain: chain, Reuse: (len(tokens) - 1) / 64, Fill: len(chain),
		Sequence: Sequence{Tokens: tokens, Root: h.Root(salt), Most: len(tokens) - 1},
	})
	x.Commit(l)
	x.Release(l)
	return l
}

// TestPartialBlock: 403 tokens over a prompt of 400 read all 400; another salt reads nothing; and no
// page is spent on the three tokens that differ.
func TestPartialBlock(t *testing.T) {
	x, err := New(Config{BlockTokens: 64, NumBlocks: 100})
	if err != nil {
		t.Fatal(err)
	}
	var h Hasher
	lease(t, x, &h, "", prompt(0, 400))
	for i, c := range []struct {
		salt   string
		tokens []engine.TokenID
		cached int
	}{
		{"", append(prompt(0, 400), 7, 7, 7), 400},
		{"", append(prompt(0, 400), 8, 8, 8), 400},
		{"", prompt(0, 400), 399},
		{"", prompt(0, 384), 383},
		{"", append(prompt(0, 30), 9, 9), 30},
		{"another", prompt(0, 400), 0},
		{"another", prompt(0, 30), 29},
	} {
		before := x.Used()
		l := lease(t, x, &h, c.salt, c.tokens)
		if got := 64*l.Cached() + l.Part.Tokens; got != c.cached {
			t.Errorf("case %d: %d of %d tokens are read, want %d", i, got, len(c.tokens), c.cached)
		}
		if i < 5 && x.Used() != before {
			t.Errorf("case %d: %d pages more for tokens that are there", i, x.Used()-before)
		}
	}
}

// A lease's part must not hold the page that a load needs: the sequence would compute a whole block for a few tokens.
func TestLoadsGoBeforeAPart(t *testing.T) {
	x := newTiers(t, 3, 8)
	var hasher Hasher
	tokens := []engine.TokenID{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}
	other := append(slices.Clone(tokens[:8]), 3, 3, 3, 4)
	run := func(tokens []engine.TokenID, reuse int) *Lease {
		chain := hasher.Chain(tokens, 4, "")
		l, _ := x.Acquire(Request{Chain: chain, Reuse: reuse, Fill: len(chain), Load: true, Sequence: Sequence{Tokens: tokens, Root: hasher.Root(""), Most: 4 * reuse}})
		x.Commit(l)
		x.Release(l)
		return l
	}
	run(tokens, 0)
	run(other, 2) // the third block of tokens goes to host memory
	if l := run(tokens, 3); len(l.Loads) != 1 || l.Part.Tokens != 0 {
		t.Errorf("%d loads and a part of %d tokens, want 1 and none", len(l.Loads), l.Part.Tokens)
	}
}
