//go:build cgo

package model

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// TestFP8GPUKernels holds the GPU backend, on its simulated device, to transformers in bfloat16 in each
// of the ways that GPUs multiply FP8. Where activations are quantised, both are bfloat16 runs whose
// roundings move activations to other codes, at random, and these are few positions: half as much
// again is allowed.
func TestFP8GPUKernels(t *testing.T) {
	for _, fp8 := range []cuda.FP8{cuda.NoFP8, cuda.FP8Sums, cuda.FP8Scaled} {
		file, slack := "weights_only.json", 1.0
		if fp8 != cuda.NoFP8 {
			file, slack = "golden.json", 1.5
		}
		b := cuda.New(simt.NewFP8(fp8))
		t.Cleanup(b.Close)
		var d, bfloat16 distance
		for _, name := range fp8Models {
			g := readGoldenFile(t, name, file)
			m := newModel(t, name, b, Options{MaxLen: 128, ChunkRows: 64})
			for _, p := range g.Positions {
				if p.Length > 100 {
					continue // the simulated device is slow
				}
				got := answer(t, m, wire.TokenItem{Tokens: goldenPrompt(p.Length, m.spec.vocab), Ask: engine.Ask{Labels: p.IDs}})
				for j, l := range got.Labels {
					d.add(l.Logprob, p.Logprobs[j])
				}
			}
			bfloat16.worst, bfloat16.sum, bfloat16.count = max(bfloat16.worst, g.Worst), bfloat16.sum+g.Mean, bfloat16.count+1
		}
		t.Logf("FP8 support %d: worst %.3f (transformers %.3f), mean %.3f (%.3f)", fp8, d.worst, bfloat16.worst, d.mean(), bfloat16.mean())
		if d.worst > slack*bfloat16.worst || d.mean() > slack*bfloat16.mean() {
			t.Errorf("FP8 support %d: further off than transformers in bfloat16", fp8)
		}
	}
}
