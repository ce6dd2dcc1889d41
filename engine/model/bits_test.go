package model

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// bitsOptions are small, so that short prompts cross chunks and blocks.
var bitsOptions = Options{MaxLen: 512, ChunkRows: 48, BlockTokens: 16, MaxItems: 8, SpareRows: 512}

// blockRange names pages [from, from+n).
func blockRange(from, n int) []wire.BlockID {
	ids := make([]wire.BlockID, n)
	for i := range ids {
		ids[i] = wire.BlockID(from + i)
	}
	return ids
}

func equalAnswers(t *testing.T, how string, got, want *engine.Answer) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: other bits than cold and alone: token %d %v, want %d %v", how, got.Token, got.Labels, want.Token, want.Labels)
	}
}

// TestSameBits checks for every model that an answer depends on the prompt alone: not on chunks,
// on what was cached, on what else is in the pass, nor on passes in between.
func TestSameBits(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		names := goldenModels
		if _, several := b.(severalRanks); several {
			names = sharedModels()
		}
		for _, name := range names {
			t.Run(name, func(t *testing.T) { sameBits(t, name, b) })
		}
	})
}

func sameBits(t *testing.T, name string, b kernels.Backend) {
	m := newModel(t, name, b, bitsOptions)
	if err := m.NewPages(48); err != nil {
		t.Fatal(err)
	}
	tokens := goldenPrompt(200, m.spec.Vocab)
	ask := engine.Ask{Top: 20, Labels: []engine.TokenID{3, 1}}
	want := answer(t, m, wire.TokenItem{Tokens: tokens, Ask: ask})

	for _, rows := range []int{1, 17, 512} {
		opts := bitsOptions
		opts.ChunkRows = rows
		other := newModel(t, name, b, opts)
		equalAnswers(t, fmt.Sprintf("chunks of %d rows", rows), answer(t, other, wire.TokenItem{Tokens: tokens, Ask: ask}), want)
	}

	equalAnswers(t, "filling pages", answer(t, m, wire.TokenItem{Tokens: tokens, Blocks: blockRange(5, 12), Ask: ask}), want)
	for _, cached := range []int{16, 112, 192} {
		how := fmt.Sprintf("%d tokens cached", cached)
		equalAnswers(t, how, answer(t, m, wire.TokenItem{Tokens: tokens, Cached: cached, Blocks: blockRange(5, cached/16), Ask: ask}), want)
	}

	answer(t, m, wire.TokenItem{Tokens: tokens[:180], Blocks: blockRange(20, 13)})
	for n := 181; n < 200; n++ {
		answer(t, m, wire.TokenItem{Tokens: tokens[:n], Cached: n - 1, Blocks: blockRange(20, 13)})
	}
	equalAnswers(t, "continued a token at a time", answer(t, m, wire.TokenItem{Tokens: tokens, Cached: 199, Blocks: blockRange(20, 13), Ask: ask}), want)

	packed := run(t, m,
		wire.TokenItem{Tokens: goldenPrompt(37, m.spec.Vocab)[4:], Ask: engine.Ask{Allowed: engine.NewTokenSet(9, 2)}},
		wire.TokenItem{Tokens: tokens, Ask: ask},
		wire.TokenItem{Tokens: tokens, Cached: 192, Blocks: blockRange(5, 12), Ask: ask},
		wire.TokenItem{Tokens: tokens[:61], Blocks: blockRange(40, 2), Ask: engine.Ask{PromptLogprobs: true}},
		wire.TokenItem{Tokens: tokens, Cached: 112, Blocks: blockRange(5, 7), Ask: ask})
	for _, i := range []int{1, 2, 4} {
		equalAnswers(t, fmt.Sprintf("packed as item %d", i), packed[i].Answer, want)
	}
}

// TestPausedPassesKeepTheirBits steps passes in a random order and drops some half-way.
func TestPausedPassesKeepTheirBits(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) { pausedPasses(t, "qwen3", b) })
	t.Run("experts", func(t *testing.T) { pausedPasses(t, "qwen3moe", cpuBackend(t, "")) })
}

func pausedPasses(t *testing.T, name string, b kernels.Backend) {
	m := newModel(t, name, b, bitsOptions)
	if err := m.NewPages(24); err != nil {
		t.Fatal(err)
	}
	vocab := m.spec.Vocab
	ask := engine.Ask{Top: 5}
	items := []wire.TokenItem{
		{Tokens: goldenPrompt(300, vocab), Ask: ask},
		{Tokens: goldenPrompt(150, vocab)[7:], Blocks: blockRange(0, 9), Ask: ask},
		{Tokens: goldenPrompt(333, vocab)[50:], Blocks: blockRange(9, 3), Ask: ask},
		{Tokens: goldenPrompt(60, vocab)[9:], Ask: engine.Ask{Top: 3, PromptLogprobs: true, PromptTop: 2}},
	}
	var want []result
	for _, it := range items {
		want = append(want, run(t, m, it)...)
	}
	random, paused := rand.New(rand.NewPCG(1, 2)), 0 // before a step of the LM head
	for round := range 10 {
		m.pace.Took(1, time.Second) // steps are the least
		open := map[int]*Pass{}
		for i, it := range items {
			p, err := m.Begin(&wire.Run{Items: itemsOf(it)})
			if err != nil {
				t.Fatal(err)
			}
			open[i] = p
		}
		dropped := round % (len(items) + 3) // some rounds drop none
		for len(open) > 0 {
			i := random.IntN(len(items))
			p := open[i]
			if p == nil {
				continue
			}
			done := toBoundary(t, p)
			if p.hasQuestions() {
				paused++
			}
			if done && !reflect.DeepEqual(resultsOf(p)[0], want[i]) {
				t.Errorf("round %d item %d: other bits than alone", round, i)
			}
			if i == dropped && p.layer == 1 { // inside a layer
				if _, err := p.Step(); err != nil {
					t.Fatal(err)
				}
			}
			if done || i == dropped && p.layer == 1 {
				p.Close()
				delete(open, i)
			}
		}
		if free, all := m.work.residual.Left(), residualSlots(m.opts); free != all {
			t.Fatalf("%d of %d slots of the residual stream are free after all passes closed", free, all)
		}
	}
	if paused < 10 {
		t.Errorf("passes stood still %d times before a step of the LM head, want 10 at least", paused)
	}
}

// TestRandomPassesKeepTheirBits packs random items of three prompts, with as much cached as earlier
// passes have left and some more blocks to fill, and compares each with its prompt alone and cold.
func TestRandomPassesKeepTheirBits(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		const streams, blocksEach, blockTokens = 3, 10, 16
		m := newModel(t, "qwen2-window", b, bitsOptions)
		if err := m.NewPages(streams * blocksEach); err != nil {
			t.Fatal(err)
		}
		ask := engine.Ask{Top: 4, Labels: []engine.TokenID{0}}
		prompt := func(stream, n int) []engine.TokenID { return goldenPrompt(300, m.spec.Vocab)[stream*7:][:n] }
		cold := map[[2]int]*engine.Answer{}
		filled := make([]int, streams) // blocks
		random := rand.New(rand.NewPCG(7, 8))
		for round := range 40 {
			var items []wire.TokenItem
			var of [][2]int
			filling := make([]bool, streams)
			for range 1 + random.IntN(5) {
				stream, n := random.IntN(streams), 1+random.IntN(200)
				cached := random.IntN(1 + min(filled[stream], (n-1)/blockTokens))
				blocks := cached
				if cached == filled[stream] && !filling[stream] { // never rewrite what others read
					blocks, filling[stream] = min(blocksEach, cached+random.IntN(5)), true
				}
				items = append(items, wire.TokenItem{Tokens: prompt(stream, n), Cached: cached * blockTokens, Blocks: blockRange(stream*blocksEach, blocks), Ask: ask})
				of = append(of, [2]int{stream, n})
			}
			results := run(t, m, items...)
			for i, key := range of {
				if cold[key] == nil {
					cold[key] = answer(t, m, wire.TokenItem{Tokens: prompt(key[0], key[1]), Ask: ask})
				}
				equalAnswers(t, fmt.Sprintf("round %d item %d", round, i), results[i].Answer, cold[key])
			}
			for i, it := range items {
				if whole := min(len(it.Blocks), of[i][1]/blockTokens); whole > filled[of[i][0]] {
					filled[of[i][0]] = whole
				}
			}
		}
		if slices.Max(filled) < 5 {
			t.Errorf("only %v blocks were ever filled", filled)
		}
	})
}

// TestThreadsKeepTheBits checks that the number of threads does not matter.
func TestThreadsKeepTheBits(t *testing.T) {
	var answers []*engine.Answer
	for _, threads := range []int{1, 2, 3} {
		m := newModel(t, "llama3", cpuThreads(t, "", threads), bitsOptions)
		answers = append(answers, answer(t, m, wire.TokenItem{Tokens: goldenPrompt(300, m.spec.Vocab), Ask: engine.Ask{Top: 20}}))
	}
	equalAnswers(t, "two threads", answers[1], answers[0])
	equalAnswers(t, "three threads", answers[2], answers[0])
}

// TestKnownScores: scores behind ones that are known have the bits of those of the whole prompt, whatever of it is cached.
func TestKnownScores(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		m := newModel(t, "qwen3", b, bitsOptions)
		if err := m.NewPages(48); err != nil {
			t.Fatal(err)
		}
		tokens, ask := goldenPrompt(200, m.spec.Vocab), engine.Ask{Top: 2, PromptLogprobs: true, PromptTop: 3}
		want := run(t, m, wire.TokenItem{Tokens: tokens, Blocks: blockRange(5, 12), Ask: ask})[0]
		for _, c := range []struct{ known, cached int }{{64, 0}, {64, 48}, {192, 176}, {16, 0}, {199, 192}, {200, 192}} {
			item := wire.TokenItem{Tokens: tokens, Known: c.known, Cached: c.cached, Blocks: blockRange(5, 12), Ask: ask}
			got := run(t, m, item)[0]
			if got.Err != nil || !reflect.DeepEqual(got.Prompt, want.Prompt[c.known-1:]) && len(got.Prompt) > 0 || len(got.Prompt) != 200-c.known || !reflect.DeepEqual(got.Answer, want.Answer) {
				t.Errorf("%d known, %d cached: %d scores, %v", c.known, c.cached, len(got.Prompt), got.Err)
			}
		}
		for _, c := range []struct{ known, cached int }{{48, 48}, {-1, 0}} {
			if got := run(t, m, wire.TokenItem{Tokens: tokens, Known: c.known, Cached: c.cached, Blocks: blockRange(5, 12), Ask: ask})[0]; got.Err == nil {
				t.Errorf("%d known, %d cached: there is no row that the next score is of, and %d came", c.known, c.cached, len(got.Prompt))
			}
		}
	})
}
