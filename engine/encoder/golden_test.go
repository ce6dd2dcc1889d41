package encoder

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// goldenSeed and reserved are tools/golden/golden_encoders.py's.
const (
	goldenSeed = 1
	reserved   = 5
)

var goldenModels = []string{"bert", "bert-bare", "embeddinggemma", "modernbert", "modernbert-mlm", "roberta", "xlm-roberta"}

// golden is a golden.json: what transformers computes.
type golden struct {
	Cases []struct {
		Length              int
		Mean, First, Logits []float64
	}
}

func readJSON(t testing.TB, into any, path ...string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
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
	readJSON(t, &stored, name, "config.json")
	types := map[string]kernels.DType{"bfloat16": kernels.BF16, "float16": kernels.F16, "float32": kernels.F32}
	return config, weights.Random{Seed: goldenSeed, Type: types[stored.DType]}
}

// goldenPair is the token between the two texts of the prompts of a directory of testdata; 0: they are one.
func goldenPair(t testing.TB, name string) engine.TokenID {
	t.Helper()
	var stored struct {
		Pair engine.TokenID `json:"golden_pair"`
	}
	readJSON(t, &stored, name, "config.json")
	return stored.Pair
}

// openModel is a golden model with all its weights, and memory of its own.
func openModel(t testing.TB, name string, b kernels.Backend, opts Options) *Model {
	t.Helper()
	config, source := goldenSource(t, name)
	m, err := Open(config, source, store.New(b), opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Chunks() {
		if err := m.LoadChunk(i); err != nil {
			t.Fatal(err)
		}
	}
	work, err := NewWorkspace(b, m.Size().Views)
	if err == nil {
		err = m.Use(work)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		work.Free()
	})
	return m
}

// goldenPrompt is tools/golden/golden_encoders.py's prompt of n tokens, as one text.
func (m *Model) goldenPrompt(n int) []engine.TokenID {
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
		tokens[i] = engine.TokenID(reserved + mix(key+uint64(i)*0x9e3779b97f4a7c15)%uint64(m.spec.vocab-reserved))
	}
	return tokens
}

// run takes items through one pass.
func (m *Model) run(t testing.TB, items ...*wire.TokenItem) []wire.ItemResult {
	t.Helper()
	run := &wire.Run{}
	for i, it := range items {
		run.Items = append(run.Items, wire.RunItem{Job: engine.JobID(i), Work: it})
	}
	p, err := m.Begin(run)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return p.Results()
}

func vectors(t testing.TB, results []wire.ItemResult) (list [][]float32) {
	t.Helper()
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		list = append(list, r.Output.(*engine.TokenOutput).Vector)
	}
	return list
}

// cosine is that of two vectors of one length; NaN otherwise.
func cosine(got []float32, want []float64) float64 {
	if len(got) != len(want) {
		return math.NaN()
	}
	dot, a, b := 0.0, 0.0, 0.0
	for i, g := range got {
		dot, a, b = dot+float64(g)*want[i], a+float64(g)*float64(g), b+want[i]*want[i]
	}
	return dot / math.Sqrt(a*b)
}

// compare holds a model to transformers: vectors' cosines, and logits.
func compare(t *testing.T, m *Model, name string, angle, logits float64) {
	var g golden
	readJSON(t, &g, name, "golden.json")
	var stored struct {
		Pooling string `json:"classifier_pooling"`
	}
	readJSON(t, &stored, name, "config.json")
	head := engine.Ask{Pool: engine.PoolFirst, Head: true}
	if stored.Pooling == "mean" {
		head.Pool = engine.PoolMean
	}
	var items []*wire.TokenItem
	for _, c := range g.Cases {
		prompt, second := m.goldenPrompt(c.Length), 0
		if pair := goldenPair(t, name); pair > 0 && c.Length > 2 {
			prompt[c.Length/2], second = pair, c.Length/2+1
		}
		for _, ask := range []engine.Ask{{Pool: engine.PoolMean}, {Pool: engine.PoolFirst}, head} {
			if !ask.Head || c.Logits != nil {
				ask.Second = second
				items = append(items, &wire.TokenItem{Tokens: prompt, Ask: ask})
			}
		}
	}
	got := vectors(t, m.run(t, items...))
	worst, far := 0.0, 0.0
	for _, c := range g.Cases {
		for _, want := range [][]float64{c.Mean, c.First} {
			if off := 1 - cosine(got[0], want); !(off <= angle) {
				t.Errorf("%d tokens: the cosine is %.2g off, want %.2g", c.Length, off, angle)
			} else {
				worst = max(worst, off)
			}
			got = got[1:]
		}
		if c.Logits == nil {
			continue
		}
		for i, want := range c.Logits {
			if off := math.Abs(float64(got[0][i]) - want); len(got[0]) != len(c.Logits) || !(off <= logits) {
				t.Errorf("%d tokens: logit %d of %d is %.2g off, want %.2g", c.Length, i, len(got[0]), off, logits)
			} else {
				far = max(far, off)
			}
		}
		got = got[1:]
	}
	t.Logf("cosines are up to %.2g off, logits %.2g", worst, far)
}

// TestReferenceEqualsTransformers checks every architecture on the reference backend.
func TestReferenceEqualsTransformers(t *testing.T) {
	for _, name := range goldenModels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, openModel(t, name, ref.New(), Options{}), name, 1e-6, 1e-4)
		})
	}
}

// TestProcessorEqualsTransformers checks every architecture with every instruction set.
func TestProcessorEqualsTransformers(t *testing.T) {
	for _, isa := range cpu.ISAs {
		t.Run(isa, func(t *testing.T) {
			b := cputest.Open(t, cpu.Config{Threads: 2, ISA: isa})
			for _, name := range goldenModels {
				t.Run(name, func(t *testing.T) { compare(t, openModel(t, name, b, Options{}), name, 1e-3, 0.03) })
			}
		})
	}
}

// TestSameBits: a prompt's vector is the same to the bit alone and beside others, in small groups, and where steps are of
// few rows.
func TestSameBits(t *testing.T) {
	backends := map[string]kernels.Backend{"ref": ref.New()}
	for _, isa := range cpu.ISAs {
		backends[isa] = nil
	}
	for kind := range backends {
		for _, name := range []string{"bert", "embeddinggemma", "modernbert"} {
			t.Run(kind+"-"+name, func(t *testing.T) {
				b := backends[kind]
				if b == nil {
					b = cputest.Open(t, cpu.Config{Threads: 2, ISA: kind})
				}
				m := openModel(t, name, b, Options{})
				var items []*wire.TokenItem
				for i, n := range []int{1, 40, 3, 300, 64, 17, 5, 129, 31, 33} {
					items = append(items, &wire.TokenItem{Tokens: m.goldenPrompt(n + i)[i:], Ask: engine.Ask{Pool: engine.PoolMean, Head: i%2 == 1 && m.spec.head.labels > 0}})
				}
				want := vectors(t, m.run(t, items...))
				for i, it := range items {
					if got := vectors(t, m.run(t, it)); !slices.Equal(got[0], want[i]) {
						t.Errorf("item %d alone has other bits", i)
					}
				}
				var firsts []*wire.TokenItem // of which the last layer computes no other rows
				for _, it := range items {
					firsts = append(firsts, &wire.TokenItem{Tokens: it.Tokens, Ask: engine.Ask{Pool: engine.PoolFirst}})
				}
				for i, v := range vectors(t, m.run(t, firsts...)) {
					states := vectors(t, m.run(t, &wire.TokenItem{Tokens: items[i].Tokens, Ask: engine.Ask{Pool: engine.PoolAll}}))
					if !slices.Equal(v, states[0][:m.spec.hidden]) {
						t.Errorf("item %d's first state has other bits than among all its states", i)
					}
				}
				small := openModel(t, name, b, Options{ChunkRows: 48, MaxLen: 310})
				small.pace.Took(1e9, 1e9) // slow: steps of few rows
				slices.Reverse(items)
				slices.Reverse(want)
				for i, v := range vectors(t, small.run(t, items...)) {
					if !slices.Equal(v, want[i]) {
						t.Errorf("item %d in small groups has other bits", len(items)-1-i)
					}
				}
			})
		}
	}
}
