package model

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// goldenSeed is tools/golden/golden.py's.
const goldenSeed = 1

// goldenModels are the directories of testdata that the reference backend is fast enough for.
var goldenModels = []string{"cohere", "cohere2", "ernie4_5", "gemma", "gemma2", "gemma3", "glm", "glm4", "gpt_neox", "granite", "llama2", "llama3", "llama-bias", "mistral", "mixtral", "olmo2", "olmo3", "phi3", "qwen2", "qwen2-window", "qwen2moe", "qwen3", "qwen3-wide", "qwen3-yarn", "qwen3moe", "smollm3", "starcoder2"}

// isMixture says that a golden model has experts, which the processor alone computes.
func isMixture(name string) bool { return strings.Contains(name, "moe") || name == "mixtral" }

// realShape has Qwen2.5-0.5B's matrices, in six layers.
const realShape = "qwen2-real"

// golden is a golden.json: what transformers computes.
type golden struct {
	Worst     float64   `json:"bf16_worst"` // of transformers' own bfloat16 run at these positions
	Mean      float64   `json:"bf16_mean"`
	Prompt    []float64 `json:"prompt"` // logprobs of the prompt's tokens, from its second on
	Positions []struct {
		Length   int              `json:"length"`
		IDs      []engine.TokenID `json:"ids"`
		Logprobs []float64        `json:"logprobs"`
	} `json:"positions"`
}

func readGolden(t testing.TB, name string) golden { return readGoldenFile(t, name, "golden.json") }

func readGoldenFile(t testing.TB, name, file string) golden {
	t.Helper()
	var g golden
	readJSON(t, filepath.Join("testdata", name, file), &g)
	return g
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goldenSource is the configuration and the weights of a directory of testdata.
func goldenSource(t testing.TB, name string) (weights.Config, weights.Random) {
	t.Helper()
	config, err := weights.ReadConfig(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var stored struct{ DType string }
	readJSON(t, filepath.Join("testdata", name, "config.json"), &stored)
	if q := config.QuantizationConfig; q != nil {
		return config, weights.Random{Seed: goldenSeed, Type: q.Linear("model.layers.0.mlp.up_proj").Type, Head: q.Linear(architecture.LMHead).Quantized()}
	}
	types := map[string]kernels.DType{"bfloat16": kernels.BF16, "float16": kernels.F16, "float32": kernels.F32}
	return config, weights.Random{Seed: goldenSeed, Type: types[stored.DType]}
}

func newModel(t testing.TB, name string, b kernels.Backend, opts Options) *Model {
	t.Helper()
	config, source := goldenSource(t, name)
	m, err := New(config, source, b, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// goldenPrompt is the first n tokens of tools/golden/golden.py's prompt.
func goldenPrompt(n, vocab int) []engine.TokenID {
	hash := fnv.New64a()
	hash.Write([]byte("prompt"))
	mix := func(z uint64) uint64 {
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	key := mix(goldenSeed ^ hash.Sum64())
	tokens := make([]engine.TokenID, n)
	for i := range tokens {
		tokens[i] = engine.TokenID(mix(key+uint64(i)*0x9e3779b97f4a7c15) % uint64(vocab))
	}
	return tokens
}

// itemsOf makes a run's items, of jobs that count from 0.
func itemsOf(items ...wire.TokenItem) []wire.RunItem {
	list := make([]wire.RunItem, len(items))
	for i := range items {
		list[i] = wire.RunItem{Job: engine.JobID(i), Work: &items[i]}
	}
	return list
}

// result is a wire.ItemResult of tokens.
type result struct {
	Job engine.JobID
	engine.TokenOutput
	Err *engine.Error
}

func resultsOf(p *Pass) []result {
	var list []result
	for _, r := range p.Results() {
		one := result{Job: r.Job, Err: r.Err}
		if r.Err == nil {
			one.TokenOutput = *r.Output.(*engine.TokenOutput)
		}
		list = append(list, one)
	}
	return list
}

// run takes items through one pass.
func run(t testing.TB, m *Model, items ...wire.TokenItem) []result {
	t.Helper()
	p, err := m.Begin(&wire.Run{Items: itemsOf(items...)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return resultsOf(p)
}

// toBoundary steps a pass to the next layer, or to its end.
func toBoundary(t testing.TB, p *Pass) (done bool) {
	t.Helper()
	for {
		done, err := p.Step()
		if err != nil {
			t.Fatal(err)
		}
		if done || p.Boundary() {
			return done
		}
	}
}

// answer runs one item that must succeed.
func answer(t testing.TB, m *Model, item wire.TokenItem) *engine.Answer {
	t.Helper()
	res := run(t, m, item)[0]
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	return res.Answer
}

// distance is how far off a model is from transformers in float32.
type distance struct{ worst, sum, count float64 }

func (d *distance) add(got float32, want float64) {
	off := math.Abs(float64(got) - want)
	if math.IsNaN(off) {
		off = math.Inf(1)
	}
	d.worst, d.sum, d.count = max(d.worst, off), d.sum+off, d.count+1
}

func (d *distance) mean() float64 { return d.sum / d.count }

// measure compares the five likeliest tokens after each golden length with transformers'.
func measure(t *testing.T, m *Model, g golden) distance {
	t.Helper()
	var d distance
	longest := goldenPrompt(g.Positions[len(g.Positions)-1].Length, m.spec.Vocab)
	for i, p := range g.Positions {
		if p.Length > 1000 && i < len(g.Positions)-1 {
			continue // the longest covers them
		}
		got := answer(t, m, wire.TokenItem{Tokens: longest[:p.Length], Ask: engine.Ask{Labels: p.IDs}})
		for j, l := range got.Labels {
			d.add(l.Logprob, p.Logprobs[j])
		}
	}
	return d
}

// TestReferenceEqualsTransformers checks every architecture on the reference backend, from 1 to
// 4,000 tokens.
func TestReferenceEqualsTransformers(t *testing.T) {
	for _, name := range goldenModels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := readGolden(t, name)
			m := newModel(t, name, ref.New(), Options{})
			d := measure(t, m, g)
			t.Logf("worst %.2g, mean %.2g", d.worst, d.mean())
			if d.worst > 1e-4 {
				t.Errorf("logprobs are up to %.2g off, want 1e-4", d.worst)
			}

			tokens := goldenPrompt(len(g.Prompt)+1, m.spec.Vocab)
			res := run(t, m, wire.TokenItem{Tokens: tokens, Ask: engine.Ask{Top: 5, PromptLogprobs: true, PromptTop: 5}})[0]
			for i, want := range g.Prompt {
				if off := math.Abs(float64(res.Prompt[i].Logprob) - want); !(off < 1e-4) {
					t.Errorf("prompt logprob %d is %.2g off", i+1, off)
				}
			}
			for _, p := range g.Positions {
				if p.Length >= len(tokens) {
					continue
				}
				for i, entry := range res.Prompt[p.Length-1].Top {
					if entry.ID != p.IDs[i] || !(math.Abs(float64(entry.Logprob)-p.Logprobs[i]) < 1e-4) {
						t.Errorf("after %d tokens rank %d is %v, want %d %g", p.Length, i, entry, p.IDs[i], p.Logprobs[i])
					}
				}
			}
		})
	}
}
