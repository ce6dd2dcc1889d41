package model

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// TestResidualsInHostMemoryKeepTheBits has the device hold one chunk and no more of the residual streams.
func TestResidualsInHostMemoryKeepTheBits(t *testing.T) { eachOffloader(t, residualsInHostMemory) }

func residualsInHostMemory(t *testing.T, b kernels.Backend) {
	all := newModel(t, "qwen2-window", b, bitsOptions)
	vocab := all.spec.Vocab
	ask := engine.Ask{Top: 5}
	runs := [][]wire.TokenItem{
		{wire.TokenItem{Tokens: goldenPrompt(300, vocab), Ask: ask}},
		{wire.TokenItem{Tokens: goldenPrompt(20, vocab), Ask: ask}},
		{wire.TokenItem{Tokens: goldenPrompt(180, vocab)[50:], Ask: engine.Ask{Top: 3, PromptLogprobs: true, PromptTop: 2}}},
		{wire.TokenItem{Tokens: goldenPrompt(90, vocab), Ask: ask}, wire.TokenItem{Tokens: goldenPrompt(150, vocab)[70:], Ask: ask}},
	}
	var want [][]result
	for _, r := range runs {
		want = append(want, run(t, all, r...))
	}
	some := bitsOptions
	some.ResidentRows = 1
	m := newModel(t, "qwen2-window", b, some)
	if resident := residentSlots(m.opts); resident != 1 {
		t.Fatalf("%d slots are resident, 1 was wanted", resident)
	}
	random := rand.New(rand.NewPCG(5, 6))
	for round := range len(runs) + 1 {
		m.pace.Took(1, time.Second) // steps are the least, those of the LM head, too
		open := map[int]*Pass{}
		dropped := round // the last round drops none
		for i := range runs {
			p, err := m.Begin(&wire.Run{Items: itemsOf(runs[i]...)})
			if err != nil {
				t.Fatal(err)
			}
			open[i] = p
		}
		for len(open) > 0 {
			i := random.IntN(len(runs))
			p := open[i]
			if p == nil {
				continue
			}
			done := toBoundary(t, p)
			if done && !reflect.DeepEqual(resultsOf(p), want[i]) {
				t.Errorf("round %d run %d: other bits than with all rows on the device", round, i)
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
		if free := m.work.residual.Left(); free != residualSlots(m.opts) {
			t.Fatalf("%d of %d slots are free after all passes closed", free, residualSlots(m.opts))
		}
	}
}

func TestResidualsNeedAnOffloader(t *testing.T) {
	config, source := goldenSource(t, "qwen2-window")
	if m, err := New(config, source, ref.New(), Options{MaxLen: 400, ChunkRows: 32, ResidentRows: 32}); err == nil {
		m.Close()
		t.Error("a backend without host memory of its own takes residual streams there")
	}
}

// TestLongPromptsNeedLittleBesideAGPU plans 131,072 tokens of Llama-3.1-8B's shape.
func TestLongPromptsNeedLittleBesideAGPU(t *testing.T) {
	kvHeads, dim, theta := 8, 128, 5e5
	config := weights.Config{
		Architectures: []string{"LlamaForCausalLM"},
		VocabSize:     128256, HiddenSize: 4096, IntermediateSize: 14336, HeadDim: &dim,
		NumHiddenLayers: 32, NumAttentionHeads: 32, NumKeyValueHeads: &kvHeads,
		MaxPositionEmbeddings: 131072, RopeTheta: &theta,
	}
	b := cuda.New(simt.New())
	defer b.Close()
	options := Options{ChunkRows: 4096, ResidentRows: GPURows}
	some, err := Predict(config, b, options)
	if err != nil {
		t.Fatal(err)
	}
	options.ResidentRows = 0
	all, err := Predict(config, b, options)
	if err != nil {
		t.Fatal(err)
	}
	if some.Work > 1_700_000_000 {
		t.Errorf("%d bytes of working memory, 1.7 GB were wanted", some.Work)
	}
	// Three stages are there twice.
	if moved := int64(3 * 4096 * 4 * 4096); all.Work-some.Work != some.Host-moved || all.Host != 0 {
		t.Errorf("%d bytes fewer on the device for %d in host memory; %d there with all rows on the device", all.Work-some.Work, some.Host, all.Host)
	}
	t.Logf("working memory %.2f GB with %.2f GB in host memory, %.2f GB without", float64(some.Work)/1e9, float64(some.Host)/1e9, float64(all.Work)/1e9)
}
