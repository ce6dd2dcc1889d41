package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"github.com/prefillonly/prefillonly/kernels/ref"
	"github.com/prefillonly/prefillonly/kvcache"
)

// eachOffloader runs the test on backends that make copies late: the reference, the processor, and the
// GPU's on the host, one and two.
func eachOffloader(t *testing.T, test func(t *testing.T, b kernels.Backend)) {
	t.Run("ref", func(t *testing.T) { test(t, &kerneltest.Offloading{Backend: ref.New()}) })
	t.Run("cpu", func(t *testing.T) { test(t, &kerneltest.Offloading{Backend: cpuBackend(t, "")}) })
	t.Run("simt", func(t *testing.T) {
		b := cuda.New(simt.New())
		t.Cleanup(b.Close)
		test(t, b)
	})
	t.Run("ranks", func(t *testing.T) {
		test(t, ranksOf(t, 2, func() (kernels.Rank, error) { return cuda.New(simt.New()), nil }))
	})
}

func newTiered(t *testing.T, b kernels.Backend, pages, host int) *Model {
	t.Helper()
	m := newModel(t, "qwen3", b, bitsOptions)
	if err := m.NewPages(pages); err != nil {
		t.Fatal(err)
	}
	if err := m.NewHostPages(host); err != nil {
		t.Fatal(err)
	}
	return m
}

// pass runs one item after the saves and loads given.
func pass(t *testing.T, m *Model, saves, loads []wire.Copy, item wire.TokenItem) *engine.Answer {
	t.Helper()
	if len(saves) > 0 {
		if err := m.Save(saves); err != nil {
			t.Fatal(err)
		}
	}
	p, err := m.Begin(&wire.Run{Saves: saves, Loads: loads, Items: itemsOf(item)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return resultsOf(p)[0].Answer
}

// copies pairs blocks of the device from one on, or down from it, with pages of host memory.
func copies(device, step, host, n int) []wire.Copy {
	list := make([]wire.Copy, n)
	for i := range list {
		list[i] = wire.Copy{Device: wire.BlockID(device + i*step), Host: wire.BlockID(host + i)}
	}
	return list
}

// TestLoadedPagesKeepTheirBits saves a prompt's pages, lets another prompt overwrite them, and loads
// them elsewhere.
func TestLoadedPagesKeepTheirBits(t *testing.T) { eachOffloader(t, loadedPages) }

func loadedPages(t *testing.T, b kernels.Backend) {
	m := newTiered(t, b, 24, 20)
	tokens, other := goldenPrompt(200, m.spec.Vocab), goldenPrompt(300, m.spec.Vocab)[90:]
	ask := engine.Ask{Top: 20, Labels: []engine.TokenID{3, 1}}
	want := answer(t, m, wire.TokenItem{Tokens: tokens, Ask: ask})
	wantOther := answer(t, m, wire.TokenItem{Tokens: other, Ask: ask})

	pass(t, m, nil, nil, wire.TokenItem{Tokens: tokens, Blocks: blockRange(0, 12)})
	// Every second page goes to host memory in another order than its neighbours.
	saves := append(copies(0, 1, 4, 6), copies(11, -1, 10, 6)...)
	equalAnswers(t, "overwriting what is saved", pass(t, m, saves, nil, wire.TokenItem{Tokens: other, Blocks: blockRange(0, 12), Ask: ask}), wantOther)
	loads := append(copies(12, 1, 4, 6), copies(23, -1, 10, 6)...)
	equalAnswers(t, "loaded", pass(t, m, nil, loads, wire.TokenItem{Tokens: tokens, Cached: 192, Blocks: blockRange(12, 12), Ask: ask}), want)
	equalAnswers(t, "cached after the load", answer(t, m, wire.TokenItem{Tokens: tokens, Cached: 192, Blocks: blockRange(12, 12), Ask: ask}), want)
	equalAnswers(t, "what was filled meanwhile", answer(t, m, wire.TokenItem{Tokens: other, Cached: 192, Blocks: blockRange(0, 12), Ask: ask}), wantOther)
}

// TestDroppedLoadsSpoilNothing drops a pass in the middle of its loads, and gives its pages to another.
func TestDroppedLoadsSpoilNothing(t *testing.T) { eachOffloader(t, droppedLoads) }

func droppedLoads(t *testing.T, b kernels.Backend) {
	m := newTiered(t, b, 24, 12)
	tokens, other := goldenPrompt(200, m.spec.Vocab), goldenPrompt(300, m.spec.Vocab)[90:]
	ask := engine.Ask{Top: 20}
	wantOther := answer(t, m, wire.TokenItem{Tokens: other, Ask: ask})
	pass(t, m, nil, nil, wire.TokenItem{Tokens: tokens, Blocks: blockRange(0, 12)})
	if err := m.Save(copies(0, 1, 0, 12)); err != nil {
		t.Fatal(err)
	}
	p, err := m.Begin(&wire.Run{Loads: copies(12, 1, 0, 12), Items: itemsOf(wire.TokenItem{Tokens: tokens, Cached: 192, Blocks: blockRange(12, 12)})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Step(); err != nil {
		t.Fatal(err)
	}
	p.Close()
	pass(t, m, nil, nil, wire.TokenItem{Tokens: other, Blocks: blockRange(12, 12)})
	equalAnswers(t, "cached in the dropped pass's pages", answer(t, m, wire.TokenItem{Tokens: other, Cached: 192, Blocks: blockRange(12, 12), Ask: ask}), wantOther)
}

// TestIndexAndPagesKeepTheBits lets the index of the prefix cache lead passes over two small tiers, and
// compares each answer with its prompt's alone and cold.
func TestIndexAndPagesKeepTheBits(t *testing.T) { eachOffloader(t, indexAndPages) }

func indexAndPages(t *testing.T, b kernels.Backend) {
	const streams, blockTokens = 4, 16
	m := newTiered(t, b, 9, 14)
	index, err := kvcache.New(kvcache.Config{BlockTokens: blockTokens, NumBlocks: 9, HostBlocks: 14})
	if err != nil {
		t.Fatal(err)
	}
	ask := engine.Ask{Top: 4}
	cold := map[[2]int]*engine.Answer{}
	random := rand.New(rand.NewPCG(5, 6))
	loaded := 0
	for round := range 60 {
		stream, n := random.IntN(streams), 1+random.IntN(110)
		tokens := goldenPrompt(300, m.spec.Vocab)[stream*7:][:n]
		if cold[[2]int{stream, n}] == nil {
			cold[[2]int{stream, n}] = answer(t, m, wire.TokenItem{Tokens: tokens, Ask: ask})
		}
		chain := new(kvcache.Hasher).Chain(tokens, blockTokens, "")
		lease, moves := index.Acquire(kvcache.Request{Chain: chain, Reuse: (n - 1) / blockTokens, Load: true, Fill: len(chain)})
		var saves, loads []wire.Copy
		for _, s := range moves.Saves {
			saves = append(saves, wire.Copy{Device: wire.BlockID(s.Device), Host: wire.BlockID(s.Host)})
		}
		for _, c := range lease.Loads {
			loads = append(loads, wire.Copy{Device: wire.BlockID(c.Device), Host: wire.BlockID(c.Host)})
		}
		item := wire.TokenItem{Tokens: tokens, Cached: lease.Cached() * blockTokens, Ask: ask}
		for _, p := range lease.Pages {
			item.Blocks = append(item.Blocks, wire.BlockID(p))
		}
		how := fmt.Sprintf("round %d, %d of %d tokens cached, %d blocks of them loaded", round, item.Cached, n, len(loads))
		equalAnswers(t, how, pass(t, m, saves, loads, item), cold[[2]int{stream, n}])
		index.Commit(lease)
		index.Release(lease)
		loaded += len(loads)
	}
	if loaded < 20 {
		t.Errorf("only %d blocks were ever loaded", loaded)
	}
}

// TestTieredRunnerSuite runs what every executor.Runner must pass on one with host memory.
func TestTieredRunnerSuite(t *testing.T) {
	eachOffloader(t, func(t *testing.T, b kernels.Backend) {
		runnertest.Run(t, func(t *testing.T) executor.Runner { return newRunner(t, b, []string{"qwen3"}, 8, 8) })
	})
}

func TestHostPagesAreChecked(t *testing.T) {
	m := newModel(t, "qwen3", ref.New(), bitsOptions)
	if err := m.NewHostPages(1); err == nil {
		t.Error("a backend without host memory gets pages there")
	}
	if err := m.Save(copies(0, 1, 0, 1)); err == nil {
		t.Error("a model without host memory saves a page")
	}
	m = newTiered(t, &kerneltest.Offloading{Backend: ref.New()}, 2, 2)
	if err := m.Save(copies(2, 1, 0, 1)); err == nil {
		t.Error("a page that there is not is saved")
	}
	if _, err := m.Begin(&wire.Run{Loads: copies(0, 1, 2, 1), Items: itemsOf(wire.TokenItem{Tokens: []engine.TokenID{1}})}); err == nil {
		t.Error("a page that there is not is loaded")
	}
	if info := m.Info(); info.Tokens.HostBlocks != 2 || info.Cost.Load <= 0 {
		t.Errorf("info %+v, want two pages and what a load takes", info)
	}
}
