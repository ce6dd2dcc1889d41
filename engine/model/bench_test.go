package model

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/catalog"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/ref"
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
var scoring = engine.Ask{Allowed: engine.NewTokenSet(9454, 2753), Labels: []engine.TokenID{9454, 2753}}

// BenchmarkPrefill runs prompts at Qwen2.5-0.5B's shape: cold, for two labels or for the whole
// vocabulary's top 5; twenty short suffixes on a resident prefix, together and alone.
func BenchmarkPrefill(b *testing.B) {
	m := benchModel(b, Options{MaxLen: 16384})
	if err := m.NewPages(8192 / m.opts.BlockTokens); err != nil {
		b.Fatal(err)
	}
	measure := func(name string, items ...wire.TokenItem) {
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
	prompt := goldenPrompt(8192, m.spec.Vocab)
	for _, n := range []int{150, 512, 2048, 8192} {
		measure(fmt.Sprintf("tokens=%d", n), wire.TokenItem{Tokens: prompt[:n], Ask: scoring})
	}
	measure("tokens=150/top=5", wire.TokenItem{Tokens: prompt[:150], Ask: engine.Ask{Top: 5}})
	measure("tokens=2048/echo", wire.TokenItem{Tokens: prompt[:2048], Ask: engine.Ask{PromptLogprobs: true}})

	const prefix = 4096
	pages := blockRange(0, prefix/m.opts.BlockTokens)
	measure("prefix=4096/fill", wire.TokenItem{Tokens: prompt[:prefix], Blocks: pages, Ask: scoring})
	var suffixes []wire.TokenItem
	for i := range 20 {
		tokens := append(append([]engine.TokenID{}, prompt[:prefix]...), prompt[4100+i:4250+i]...)
		suffixes = append(suffixes, wire.TokenItem{Tokens: tokens, Cached: prefix, Blocks: pages, Ask: scoring})
	}
	measure("prefix=4096/suffix=150/alone", suffixes[0])
	measure("prefix=4096/suffix=150/packed=20", suffixes...)
}

// BenchmarkQuestions runs what questions about one text take, at Qwen2.5-0.5B's shape and with the instruction set that
// -isa names, by time passed and by that of the processor (medians): the text with the first of them and 63 more of 20 tokens each behind
// the text's pages, as a multiple of the first alone; and 32 of 3 tokens one by one, as a multiple of all in one pass.
func BenchmarkQuestions(b *testing.B) {
	backend := cputest.Open(b, cpu.Config{ISA: *isa})
	m, err := New(qwen05B(), weights.Random{Seed: 1, Type: kernels.BF16}, backend, Options{MaxLen: 16384})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	const text = 4096
	if err := m.NewPages(text / m.opts.BlockTokens); err != nil {
		b.Fatal(err)
	}
	pages, prompt := blockRange(0, text/m.opts.BlockTokens), goldenPrompt(8192, m.spec.Vocab)
	questions := func(n, each int) []wire.TokenItem {
		items := make([]wire.TokenItem, n)
		for i := range items {
			tokens := append(prompt[:text:text], prompt[text+each*i:text+each*(i+1)]...)
			items[i] = wire.TokenItem{Tokens: tokens, Cached: text, Blocks: pages, Ask: engine.Ask{Top: 1, Labels: scoring.Labels}}
		}
		return items
	}
	first, many, short := questions(1, 20), questions(64, 20)[1:], questions(32, 3)
	first[0].Cached = 0
	var all, gain [2][]float64 // by time passed, by the processor's
	for b.Loop() {
		one, more := timeOf(b, m, first), timeOf(b, m, many)
		var apart [2]float64
		for i := range short {
			t := timeOf(b, m, short[i:i+1])
			apart[0], apart[1] = apart[0]+t[0], apart[1]+t[1]
		}
		together := timeOf(b, m, short)
		for i := range one {
			all[i] = append(all[i], (one[i]+more[i])/one[i])
			gain[i] = append(gain[i], apart[i]/together[i])
		}
	}
	for i, by := range []string{"", "_processor"} {
		slices.Sort(all[i])
		slices.Sort(gain[i])
		b.ReportMetric(all[i][len(all[i])/2], "times_one"+by)
		b.ReportMetric(gain[i][len(gain[i])/2], "short_gain"+by)
	}
}

// isa is the instruction set of BenchmarkQuestions.
var isa = flag.String("isa", "", "instruction set to measure; empty for the best")

// timeOf runs items in one pass, and returns the seconds that passed and those of the processor.
func timeOf(b *testing.B, m *Model, items []wire.TokenItem) [2]float64 {
	start, used := time.Now(), processorTime(b)
	run(b, m, items...)
	return [2]float64{time.Since(start).Seconds(), (processorTime(b) - used).Seconds()}
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
	item := wire.TokenItem{Tokens: goldenPrompt(32768, m.spec.Vocab), Blocks: blockRange(0, m.pages.count), Ask: scoring}
	for b.Loop() {
		answer(b, m, item)
	}
	b.ReportMetric(float64(len(item.Tokens)*b.N)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(float64(peakResident(b)-plan.Weights)/1e6, "MB_above_weights")
	b.ReportMetric(float64(plan.Weights)/1e6, "MB_weights")
	b.ReportMetric(float64(plan.Work)/1e6, "MB_planned_work")
}

// BenchmarkFineTune has two checkpoints of Qwen2.5-0.5B's shape in files, of which one layer of 24 differs, and
// reports what they take together and one by one, in 10^6 bytes, and how long each step takes: to register the
// second (hashing both, and with the hashes kept), to load the first by chunks, and the second beside it or alone.
func BenchmarkFineTune(b *testing.B) {
	backend := cputest.Open(b, cpu.Config{})
	dirs := []string{b.TempDir(), b.TempDir()}
	for i, dir := range dirs {
		writeRandom(b, dir, i)
	}
	cache := b.TempDir()
	for b.Loop() {
		for _, name := range []string{"register_hashing", "register_again"} {
			known := catalog.New(cache)
			models := [2]*Model{}
			st := store.New(backend)
			var hashed int64
			for i, dir := range dirs {
				checkpoint, err := weights.Open(dir)
				if err != nil {
					b.Fatal(err)
				}
				start, used := time.Now(), processorTime(b)
				if err := known.Add(b.Context(), checkpoint, func(_, total int64) { hashed = total }); err != nil {
					b.Fatal(err)
				}
				if i == 1 {
					b.ReportMetric(1e3*time.Since(start).Seconds(), name+"_ms")
					if hashed > 0 {
						b.ReportMetric(float64(hashed)/1e6, "MB_hashed")
						b.ReportMetric(float64(hashed)/1e6/(processorTime(b)-used).Seconds(), "MB/processor-s_hashed")
					}
				}
				if models[i], err = Open(qwen05B(), checkpoint, st, Options{MaxLen: 4096}); err != nil {
					b.Fatal(err)
				}
			}
			load := func(m *Model, what string) {
				start, used := time.Now(), processorTime(b)
				for i := range m.Chunks() {
					if err := m.LoadChunk(i); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(1e3*time.Since(start).Seconds(), what+"_ms")
				b.ReportMetric(1e3*(processorTime(b)-used).Seconds(), what+"_processor_ms")
			}
			load(models[1], "load_alone")
			alone := st.Bytes()
			models[1].Close()
			load(models[0], "load_first")
			b.ReportMetric(float64(st.Bytes())/1e6, "MB_first")
			load(models[1], "load_second")
			b.ReportMetric(float64(st.Bytes())/1e6, "MB_together")
			b.ReportMetric(float64(st.Bytes())/float64(alone), "of_one")
			models[0].Close()
			models[1].Close()
		}
	}
}

// processorTime is what the process has used of all processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// writeRandom writes a checkpoint of Qwen2.5-0.5B's shape, which differs from others in layer 11 alone.
func writeRandom(b *testing.B, dir string, variant int) {
	b.Helper()
	m, err := describeModel(qwen05B(), ref.New(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	var tensors []kernels.HostTensor
	for _, c := range m.weightChunks() {
		for _, p := range c.Parts {
			for _, t := range p.Tensors {
				random := weights.Random{Seed: 1, Type: kernels.BF16}
				if c.Name == "layer 11" {
					random.Seed += uint64(variant)
				}
				tensor, err := random.Tensor(t.Name, t.Shape...)
				if err != nil {
					b.Fatal(err)
				}
				tensors = append(tensors, tensor)
			}
		}
	}
	file := filepath.Join(dir, "model.safetensors")
	if err := weights.WriteFile(file, tensors); err != nil {
		b.Fatal(err)
	}
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		b.Fatal(err)
	}
}
