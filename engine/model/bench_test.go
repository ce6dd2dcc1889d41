package model

import (
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
)

// qwen05B is the shape of Qwen2.5-0.5B.
func qwen05B() weights.Config {
	kvHeads, theta := 2, 1e6
	return weights.Config{
		Architectures: []string{"Qwen2ForCausalLM"},
		VocabSize:     151936, HiddenSize: 896, IntermediateSize: 4864,
		NumHiddenLayers: 24, NumAttentionHeads: 14, NumKeyValueHeads: &kvHeads,
		MaxPositionEmbeddings: 32768, RopeTheta: &theta, TieWordEmbeddings: true,
	}
}

func benchModel(b *testing.B, opts Options) *Model {
	b.Helper()
	backend := cputest.Open(b, cpu.Config{})
	m, err := New(qwen05B(), weights.Random{Seed: 1, Type: kernels.BF16}, backend, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.Close)
	return m
}

// scoring is what most requests are: two labels of the next token.
var scoring = engine.Ask{Allowed: []engine.TokenID{9454, 2753}, Labels: []engine.TokenID{9454, 2753}}

// BenchmarkPrefill runs prompts at Qwen2.5-0.5B's shape: cold, for two labels or for the whole
// vocabulary's top 5; twenty short suffixes on a resident prefix, together and alone.
func BenchmarkPrefill(b *testing.B) {
	m := benchModel(b, Options{MaxLen: 16384})
	if err := m.NewPages(8192 / m.opts.BlockTokens); err != nil {
		b.Fatal(err)
	}
	measure := func(name string, items ...wire.RunItem) {
		b.Run(name, func(b *testing.B) {
			tokens := 0
			for b.Loop() {
				tokens = 0
				for i, res := range run(b, m, items...) {
					if res.Err != nil {
						b.Fatal(res.Err)
					}
					tokens += len(items[i].Tokens) - items[i].Cached
				}
			}
			b.ReportMetric(float64(tokens*b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
	prompt := goldenPrompt(8192, m.spec.vocab)
	for _, n := range []int{150, 512, 2048, 8192} {
		measure(fmt.Sprintf("tokens=%d", n), wire.RunItem{Tokens: prompt[:n], Ask: scoring})
	}
	measure("tokens=150/top=5", wire.RunItem{Tokens: prompt[:150], Ask: engine.Ask{Top: 5}})
	measure("tokens=2048/echo", wire.RunItem{Tokens: prompt[:2048], Ask: engine.Ask{PromptLogprobs: true}})

	const prefix = 4096
	pages := blockRange(0, prefix/m.opts.BlockTokens)
	measure("prefix=4096/fill", wire.RunItem{Tokens: prompt[:prefix], Blocks: pages, Ask: scoring})
	var suffixes []wire.RunItem
	for i := range 20 {
		tokens := append(append([]engine.TokenID{}, prompt[:prefix]...), prompt[4100+i:4250+i]...)
		suffixes = append(suffixes, wire.RunItem{Tokens: tokens, Cached: prefix, Blocks: pages, Ask: scoring})
	}
	measure("prefix=4096/suffix=150/alone", suffixes[0])
	measure("prefix=4096/suffix=150/packed=20", suffixes...)
}

// BenchmarkMemory runs one prompt of 32,768 tokens beside a prefix cache of 64 MB and reports the
// peak resident memory above the weights, in 10^6 bytes.
func BenchmarkMemory(b *testing.B) {
	m := benchModel(b, Options{})
	plan := m.Plan()
	if err := m.NewPages(int(64_000_000 / plan.Block)); err != nil {
		b.Fatal(err)
	}
	resetPeak(b)
	item := wire.RunItem{Tokens: goldenPrompt(32768, m.spec.vocab), Blocks: blockRange(0, m.pages.count), Ask: scoring}
	for b.Loop() {
		answer(b, m, item)
	}
	b.ReportMetric(float64(len(item.Tokens)*b.N)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(float64(peakResident(b)-plan.Weights)/1e6, "MB_above_weights")
	b.ReportMetric(float64(plan.Weights)/1e6, "MB_weights")
	b.ReportMetric(float64(plan.Work)/1e6, "MB_planned_work")
}
