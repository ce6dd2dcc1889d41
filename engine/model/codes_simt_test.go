//go:build cgo

package model

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// compareSimulated holds models on a simulated GPU to transformers in bfloat16, times slack.
func compareSimulated(t *testing.T, fp8 cuda.FP8, names []string, weightsAlone bool, file string, slack float64) {
	t.Helper()
	b := cuda.New(simt.NewFP8(fp8))
	t.Cleanup(b.Close)
	opts := Options{MaxLen: 128, ChunkRows: 64}
	var d, bfloat16 distance
	for _, name := range names {
		g := readGoldenFile(t, name, file)
		var m *Model
		if weightsAlone {
			m = newWeightOnly(t, name, b, opts)
		} else {
			m = newModel(t, name, b, opts)
		}
		for _, p := range g.Positions {
			if p.Length > 100 {
				continue // the simulated device is slow
			}
			got := answer(t, m, wire.TokenItem{Tokens: goldenPrompt(p.Length, m.spec.Vocab), Ask: engine.Ask{Labels: p.IDs}})
			for j, l := range got.Labels {
				d.add(l.Logprob, p.Logprobs[j])
			}
		}
		bfloat16.worst, bfloat16.sum, bfloat16.count = max(bfloat16.worst, g.Worst), bfloat16.sum+g.Mean, bfloat16.count+1
	}
	t.Logf("worst %.3f (transformers %.3f), mean %.3f (%.3f)", d.worst, bfloat16.worst, d.mean(), bfloat16.mean())
	if d.worst > slack*bfloat16.worst || d.mean() > slack*bfloat16.mean() {
		t.Error("further off than transformers in bfloat16")
	}
}

// quantisedSlack is of models whose activations are quantised, too: both are bfloat16 runs then whose roundings move activations to other codes, at random,
// and these are few positions.
const quantisedSlack = 1.5

// TestGPUKernels holds the GPU backend, on its simulated device, to transformers in bfloat16 in families whose layers are not of Llama's form.
func TestGPUKernels(t *testing.T) {
	for _, name := range []string{"cohere", "cohere2", "gemma2", "gemma3", "glm4", "gpt_neox", "olmo2", "olmo3", "starcoder2"} {
		t.Run(name, func(t *testing.T) { compareSimulated(t, cuda.NoFP8, []string{name}, false, "golden.json", 1) })
	}
}

// TestFP8GPUKernels holds the GPU backend, on its simulated device, to transformers in bfloat16 in each of the ways that GPUs
// multiply FP8.
func TestFP8GPUKernels(t *testing.T) {
	for name, fp8 := range map[string]cuda.FP8{"none": cuda.NoFP8, "sums": cuda.FP8Sums, "scaled": cuda.FP8Scaled} {
		file, slack := "golden.json", quantisedSlack
		if fp8 == cuda.NoFP8 {
			file, slack = "weights_only.json", 1
		}
		t.Run(name, func(t *testing.T) { compareSimulated(t, fp8, fp8Models, false, file, slack) })
	}
}

// TestInt8GPUKernels does so for int8, of weights alone too.
func TestInt8GPUKernels(t *testing.T) {
	t.Run("activations too", func(t *testing.T) { compareSimulated(t, cuda.NoFP8, int8Models, false, "golden.json", quantisedSlack) })
	t.Run("weights", func(t *testing.T) { compareSimulated(t, cuda.NoFP8, int8Models, true, "weights_only.json", 1) })
}

// TestInt8GPUSameBits: on a simulated GPU, too, the bits of an answer depend on its prompt alone.
func TestInt8GPUSameBits(t *testing.T) {
	b := cuda.New(simt.New())
	t.Cleanup(b.Close)
	m := newModel(t, "qwen2-int8", b, bitsOptions)
	item := wire.TokenItem{Tokens: goldenPrompt(70, m.spec.Vocab), Ask: engine.Ask{Top: 20}}
	want := answer(t, m, item)
	for _, rows := range []int{1, 17, 512} {
		opts := bitsOptions
		opts.ChunkRows = rows
		equalAnswers(t, "chunks", answer(t, newModel(t, "qwen2-int8", b, opts), item), want)
	}
}
