package model

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights/peft"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// goldenAdapters are the directories of testdata/adapters, by the models that they are for.
var goldenAdapters = map[string][]string{"llama3": {"all", "patterns"}, "phi3": {"fused"}, "gemma2": {"normed"}}

func openAdapter(t testing.TB, name string) *peft.Adapter {
	t.Helper()
	a, err := peft.Open(name, filepath.Join("testdata", "adapters", name))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// adaptedModel is a golden model with its adapters.
func adaptedModel(t testing.TB, base string, b kernels.Backend, opts Options) *Model {
	t.Helper()
	for _, name := range goldenAdapters[base] {
		opts.Adapters = append(opts.Adapters, openAdapter(t, name))
	}
	return newModel(t, base, b, opts)
}

// measureAdapter is measure with an adapter.
func measureAdapter(t *testing.T, m *Model, adapter string) (distance, golden) {
	t.Helper()
	var d distance
	g := readGolden(t, filepath.Join("adapters", adapter))
	longest := goldenPrompt(g.Positions[len(g.Positions)-1].Length, m.spec.Vocab)
	for _, p := range g.Positions {
		got := answer(t, m, wire.TokenItem{Tokens: longest[:p.Length], Ask: engine.Ask{Labels: p.IDs, Adapter: adapter}})
		for j, l := range got.Labels {
			d.add(l.Logprob, p.Logprobs[j])
		}
	}
	return d, g
}

// TestAdaptersEqualMerged compares with the merged checkpoint in transformers: the reference backend with float32, and every instruction
// set with transformers' own bfloat16.
func TestAdaptersEqualMerged(t *testing.T) {
	for base, names := range goldenAdapters {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				if d, _ := measureAdapter(t, adaptedModel(t, base, ref.New(), Options{}), name); d.worst > 2e-4 {
					t.Errorf("ref: logprobs are up to %.2g off, want 2e-4", d.worst)
				}
				for _, isa := range cpu.ISAs {
					d, g := measureAdapter(t, adaptedModel(t, base, cpuBackend(t, isa), Options{}), name)
					t.Logf("%s: worst %.4f (transformers %.4f), mean %.4f (%.4f)", isa, d.worst, g.Worst, d.mean(), g.Mean)
					if d.worst > g.Worst || d.mean() > g.Mean {
						t.Errorf("%s: further off than transformers in bfloat16: worst %.4f (%.4f), mean %.4f (%.4f)", isa, d.worst, g.Worst, d.mean(), g.Mean)
					}
				}
			})
		}
	}
}

// TestAdaptersShareAPass packs prompts of two adapters and of none: all have the bits that they have alone, cold and cached, and those of none
// the bits of the model without adapters.
func TestAdaptersShareAPass(t *testing.T) {
	for _, b := range []kernels.Backend{ref.New(), cpuBackend(t, "")} {
		t.Run(b.Name(), func(t *testing.T) {
			m := adaptedModel(t, "llama3", b, Options{MaxLen: 1024, ChunkRows: 64, BlockTokens: 16})
			if err := m.NewPages(64); err != nil {
				t.Fatal(err)
			}
			var items, cached []wire.TokenItem
			for i, adapter := range []string{"all", "", "patterns", "patterns", "all", ""} {
				ask := engine.Ask{Top: 5, Adapter: adapter}
				blocks := []wire.BlockID{wire.BlockID(8 * i), wire.BlockID(8*i + 1), wire.BlockID(8*i + 2)}
				tokens := goldenPrompt(61+7*i, m.spec.Vocab)
				items = append(items, wire.TokenItem{Tokens: tokens, Ask: ask, Blocks: blocks})
				cached = append(cached, wire.TokenItem{Tokens: tokens, Ask: ask, Blocks: blocks, Cached: 48})
			}
			packed, again := run(t, m, items...), run(t, m, cached...)
			plain := newModel(t, "llama3", b, Options{MaxLen: 1024, ChunkRows: 64, BlockTokens: 16})
			for i, item := range items {
				item.Blocks = nil
				alone := answer(t, m, item)
				for what, got := range map[string]*engine.Answer{"packed": packed[i].Answer, "cached": again[i].Answer} {
					if !reflect.DeepEqual(got, alone) {
						t.Errorf("prompt %d of adapter %q: %s is %v, alone %v", i, item.Ask.Adapter, what, got, alone)
					}
				}
				adapter := item.Ask.Adapter
				item.Ask.Adapter = ""
				if same := reflect.DeepEqual(answer(t, plain, item), alone); same != (adapter == "") {
					t.Errorf("prompt %d of adapter %q is answered as by the model alone: %t", i, adapter, same)
				}
			}
		})
	}
}

// TestAdaptersRefused: an item of an adapter that is not there is never answered by the model alone, and an adapter that does not fit, or a
// backend that applies none, is refused by its name.
func TestAdaptersRefused(t *testing.T) {
	m := adaptedModel(t, "llama3", ref.New(), Options{MaxLen: 64})
	if res := run(t, m, wire.TokenItem{Tokens: goldenPrompt(3, m.spec.Vocab), Ask: engine.Ask{Adapter: "none such"}})[0]; res.Err == nil || !strings.Contains(res.Err.Message, `no adapter "none such", but these: all, patterns`) {
		t.Errorf("an unknown adapter: %v", res.Err)
	}
	for _, c := range []struct {
		base, adapter string
		backend       kernels.Backend
		want          string
	}{
		{"qwen2", "all", ref.New(), `adapter all: module "model.layers.0.mlp.down_proj" has lora_A [8 344] and lora_B [128 8], which do not fit weights [112, 304]`},
		{"phi3", "patterns", ref.New(), "do not fit weights [128, 208]"},
		{"llama3", "all", cpuRanks(t, 2), "adapter all: adapters are applied on one CPU device alone"},
	} {
		config, source := goldenSource(t, c.base)
		if _, err := New(config, source, c.backend, Options{Adapters: []*peft.Adapter{openAdapter(t, c.adapter)}}); err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s on %s: %v, want %q", c.adapter, c.base, err, c.want)
		}
	}
}
