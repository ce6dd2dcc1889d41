package model

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// fp8Models are the directories of testdata that tools/golden/golden_quantized.py makes checkpoints of.
var fp8Models = []string{"llama3-fp8", "qwen2-fp8"}

// TestFP8WeightsEqualTransformers: where activations are left alone, FP8 weights are weights.
func TestFP8WeightsEqualTransformers(t *testing.T) {
	for _, name := range fp8Models {
		t.Run(name, func(t *testing.T) {
			d := measure(t, newModel(t, name, ref.New(), Options{}), readGoldenFile(t, name, "weights_only.json"))
			t.Logf("worst %.2g, mean %.2g", d.worst, d.mean())
			if d.worst > 1e-4 {
				t.Errorf("logprobs are up to %.2g off, want 1e-4", d.worst)
			}
		})
	}
}

// TestFP8ActivationsEqualTransformers: quantised activations are those of compressed-tensors. A sum in
// another order moves an activation by 1e-7 of itself, and one in about a million then gets the next
// code, 1/16 away; what follows from that, in its row and in the rows that see it, is no error.
func TestFP8ActivationsEqualTransformers(t *testing.T) {
	for _, name := range fp8Models {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			m := newModel(t, name, ref.NewFP8(), Options{})
			tokens := goldenPrompt(len(g.Prompt)+1, m.spec.Vocab)
			res := run(t, m, wire.TokenItem{Tokens: tokens, Ask: engine.Ask{PromptLogprobs: true}})[0]
			exact := 0 // rows before the first that is off
			for exact < len(g.Prompt) && math.Abs(float64(res.Prompt[exact].Logprob)-g.Prompt[exact]) < 1e-4 {
				exact++
			}
			if exact < 15 {
				t.Errorf("only the first %d of %d prompt logprobs are transformers'", exact, len(g.Prompt))
			}
			d := measure(t, m, g)
			t.Logf("the first %d of %d prompt logprobs equal; worst %.2g (bfloat16 %.2g), mean %.2g (%.2g)", exact, len(g.Prompt), d.worst, g.Worst, d.mean(), g.Mean)
			if d.worst > g.Worst || d.mean() > g.Mean/2 {
				t.Errorf("worst %.2g, mean %.2g", d.worst, d.mean())
			}
		})
	}
}

// TestFP8CPUNoWorseThanTransformers is TestCPUNoWorseThanTransformers with FP8 weights.
func TestFP8CPUNoWorseThanTransformers(t *testing.T) {
	for _, isa := range cpu.ISAs {
		t.Run(isa, func(t *testing.T) {
			b := cpuBackend(t, isa)
			for _, name := range fp8Models {
				g := readGoldenFile(t, name, "weights_only.json")
				d := measure(t, newModel(t, name, b, Options{}), g)
				t.Logf("%s: worst %.4f (transformers %.4f), mean %.4f (%.4f)", name, d.worst, g.Worst, d.mean(), g.Mean)
				if d.worst > g.Worst || d.mean() > g.Mean {
					t.Errorf("%s: further off than transformers in bfloat16", name)
				}
			}
		})
	}
}

// TestFP8Ranks: over two ranks, each quantises its part of a row by itself: another rounding, about as
// far from one device's as bfloat16 is.
func TestFP8Ranks(t *testing.T) {
	const name = "llama3-fp8"
	weightsOnly := ranksOf(t, 2, func() (kernels.Rank, error) { return ref.New().(kernels.Rank), nil })
	if d := measure(t, newModel(t, name, weightsOnly, Options{}), readGoldenFile(t, name, "weights_only.json")); d.worst > 1e-4 {
		t.Errorf("weights: logprobs are up to %.2g off, want 1e-4", d.worst)
	}
	g := readGolden(t, name)
	quantising := ranksOf(t, 2, func() (kernels.Rank, error) { return ref.NewFP8().(kernels.Rank), nil })
	d := measure(t, newModel(t, name, quantising, Options{}), g)
	t.Logf("activations too: worst %.2g (bfloat16 %.2g), mean %.2g (%.2g)", d.worst, g.Worst, d.mean(), g.Mean)
	if d.worst > 1.5*g.Worst || d.mean() > 1.5*g.Mean {
		t.Errorf("activations too: worst %.2g, mean %.2g", d.worst, d.mean())
	}
}

// TestFP8Load: a checkpoint on disk gives the bits of its weights in memory, and one that is not what
// its config.json says is refused.
func TestFP8Load(t *testing.T) {
	const name = "qwen2-fp8"
	item := wire.TokenItem{Tokens: goldenPrompt(50, 250), Ask: engine.Ask{Top: 20}}
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		m, err := Load(writeCheckpoint(t, name, 2, nil), b, bitsOptions)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		equalAnswers(t, "from disk", answer(t, m, item), answer(t, newModel(t, name, b, bitsOptions), item))
	})
	half := writeCheckpoint(t, name, 1, func(ts []kernels.HostTensor) []kernels.HostTensor {
		for i, tensor := range ts {
			if strings.HasSuffix(tensor.Name, "layers.1.mlp.down_proj.weight") {
				ts[i] = kernels.HostTensor{Name: tensor.Name, Type: kernels.BF16, Rows: tensor.Rows, Cols: tensor.Cols, Data: make([]byte, 2*len(tensor.Data))}
			}
		}
		return ts
	})
	unannounced := writeCheckpoint(t, name, 1, nil)
	config, err := os.ReadFile("testdata/qwen2/config.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(unannounced, "config.json"), config, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		half:        `tensor "model.layers.1.mlp.down_proj.weight" is bfloat16, which quantization_config of config.json contradicts`,
		unannounced: `self_attn.o_proj.weight" is float8_e4m3fn, which quantization_config`,
	} {
		if _, err := Load(dir, ref.New(), bitsOptions); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to hold %q", err, want)
		}
	}
}

// TestFP8Plan: a weight in FP8 takes a byte, and the largest matrix is what devices may dequantise.
func TestFP8Plan(t *testing.T) {
	config, source := goldenSource(t, "llama3-fp8")
	m, err := New(config, source, cpuBackend(t, ""), bitsOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	predicted, err := Predict(config, m.backend, bitsOptions)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := predicted.Weights, m.Plan().Weights; got > want || want > got+got/20+2*2*517*128 {
		t.Errorf("predicted %d bytes of weights, there are %d", got, want)
	}
	layer := int64(128*(128+2*32) + 128*128 + 3*128*352)
	rows := int64(128 + 2*32 + 128 + 2*352 + 128)
	vectors, rope := int64(4*128*(2*3+1)), int64(4*m.spec.Heads.Dim*m.opts.MaxLen)
	if got, want := predicted.Weights, 3*(layer+4*rows)+2*2*517*128+vectors+rope; got != want {
		t.Errorf("weights are %d bytes, want %d", got, want)
	}
	if got, want := m.spec.LargestCodes(), (kernels.LargestCodes{FP8: 2 * 352 * 128}); got != want {
		t.Errorf("the largest matrices in codes are %+v, want gate and up alone, %+v", got, want)
	}
}

func TestFP8SameBits(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) { sameBits(t, "qwen2-fp8", b) })
	t.Run("activations too", func(t *testing.T) { sameBits(t, "qwen2-fp8", ref.NewFP8()) })
}
