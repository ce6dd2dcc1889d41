package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// countedExperts counts the matrices of MLPs that are multiplied.
type countedExperts struct {
	kernels.Mixtures
	calls int
	read  map[kernels.Linear]int // rows of each
}

func (c *countedExperts) MLPProduct(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	c.calls++
	c.read[up] += x.Rows
	c.Mixtures.MLPProduct(dst, x, n, act, up, down)
}

// TestOneRowReadsItsExperts: no matrix of an expert that no row goes through is touched, and none is twice in a chunk.
func TestOneRowReadsItsExperts(t *testing.T) {
	for name, layers := range map[string]int{"qwen3moe": 3, "mixtral": 3, "qwen2moe": 2} {
		b := &countedExperts{Mixtures: ref.New().(kernels.Mixtures)}
		m := newModel(t, name, b, bitsOptions)
		x, shared := &m.spec.Mixture, 0
		if x.Shared {
			shared = 1
		}
		for _, rows := range []int{1, 40} {
			b.calls, b.read = 0, map[kernels.Linear]int{}
			m.pace.Took(1e15, 1) // a chunk is a step
			answer(t, m, wire.TokenItem{Tokens: goldenPrompt(rows, m.spec.Vocab), Ask: engine.Ask{Top: 1}})
			sum := 0
			for _, n := range b.read {
				sum += n
			}
			lastLayer := 1 // it has experts, and one row goes through them
			want := ((layers-lastLayer)*rows + 1) * (x.Chosen + shared)
			if sum != want || b.calls != len(b.read) || len(b.read) > layers*(x.Experts+shared) {
				t.Errorf("%s: %d rows go %d times through %d experts by %d calls; want %d, and a call each", name, rows, sum, len(b.read), b.calls, want)
			}
			if rows == 1 && len(b.read) != want {
				t.Errorf("%s: one row reads %d experts, want %d", name, len(b.read), want)
			}
		}
	}
}

// TestDevicesRefuseExperts: what does not compute them says so before a pass finds out.
func TestDevicesRefuseExperts(t *testing.T) {
	config, source := goldenSource(t, "mixtral")
	for what, b := range map[string]kernels.Backend{
		"2 ranks":           ranksOf(t, 2, func() (kernels.Rank, error) { return ref.New().(kernels.Rank), nil }),
		"a plain interface": struct{ kernels.Backend }{ref.New()},
	} {
		if _, err := New(config, source, b, Options{}); err == nil || !strings.Contains(err.Error(), "does not compute mixtures of experts: serve them with --device cpu and without ranks") {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// TestQuantisedExperts holds the processor to the reference on experts in codes of a byte. Where two experts are about as good for a row, the last bit
// decides between them, and what follows is of another size: half of the prompts say more than all.
func TestQuantisedExperts(t *testing.T) {
	config, _ := goldenSource(t, "qwen3moe")
	for _, name := range []string{"qwen2-int8", "qwen2-fp8"} {
		coded, source := goldenSource(t, name)
		config.QuantizationConfig = coded.QuantizationConfig
		if source.Type == kernels.I8 {
			weightOnly(&config)
		}
		var models []*Model
		for _, b := range []kernels.Backend{ref.New(), cpuBackend(t, "")} {
			m, err := New(config, source, b, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			models = append(models, m)
		}
		g, worsts := readGolden(t, "qwen3moe"), []float64(nil)
		for _, p := range g.Positions[:12] { // short ones: the reference takes its time
			item := wire.TokenItem{Tokens: goldenPrompt(p.Length, models[0].spec.Vocab), Ask: engine.Ask{Labels: p.IDs}}
			var d distance
			want := answer(t, models[0], item)
			for j, l := range answer(t, models[1], item).Labels {
				d.add(l.Logprob, float64(want.Labels[j].Logprob))
			}
			worsts = append(worsts, d.worst)
		}
		slices.Sort(worsts)
		t.Logf("%s: half of the prompts are off by less than %.3g, all by less than %.3g", name, worsts[len(worsts)/2], worsts[len(worsts)-1])
		if worsts[len(worsts)/2] > g.Worst/2 {
			t.Errorf("%s: half of the prompts are off by more than %.3g, half of what transformers is at worst in bfloat16", name, g.Worst/2)
		}
	}
}
