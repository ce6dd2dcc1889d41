//go:build cgo

package model

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// codesOnGPU is how far models in codes are off on a simulated GPU, and transformers in bfloat16. Where activations are quantised,
// both are bfloat16 runs whose roundings move activations to other codes, at random, and these are few positions: half as much
// again is allowed.
func codesOnGPU(t *testing.T, fp8 cuda.FP8, names []string, weightsAlone bool, file string) {
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
	slack := 1.0
	if file == "golden.json" {
		slack = 1.5
	}
	t.Logf("worst %.3f (transformers %.3f), mean %.3f (%.3f)", d.worst, bfloat16.worst, d.mean(), bfloat16.mean())
	if d.worst > slack*bfloat16.worst || d.mean() > slack*bfloat16.mean() {
		t.Error("further off than transformers in bfloat16")
	}
}

// TestFP8GPUKernels holds the GPU backend, on its simulated device, to transformers in bfloat16 in each of the ways that GPUs
// multiply FP8.
func TestFP8GPUKernels(t *testing.T) {
	for name, fp8 := range map[string]cuda.FP8{"none": cuda.NoFP8, "sums": cuda.FP8Sums, "scaled": cuda.FP8Scaled} {
		file := "golden.json"
		if fp8 == cuda.NoFP8 {
			file = "weights_only.json"
		}
		t.Run(name, func(t *testing.T) { codesOnGPU(t, fp8, fp8Models, false, file) })
	}
}

// TestInt8GPUKernels does so for int8, of weights alone too.
func TestInt8GPUKernels(t *testing.T) {
	t.Run("activations too", func(t *testing.T) { codesOnGPU(t, cuda.NoFP8, int8Models, false, "golden.json") })
	t.Run("weights", func(t *testing.T) { codesOnGPU(t, cuda.NoFP8, int8Models, true, "weights_only.json") })
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
