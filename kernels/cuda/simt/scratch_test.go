package simt_test

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// counted is a device that knows how much of its memory is in use.
type counted struct {
	cuda.Device
	sizes map[cuda.Ptr]int64
	used  int64
}

func (c *counted) Alloc(bytes int64) (cuda.Ptr, error) {
	p, err := c.Device.Alloc(bytes)
	c.sizes[p] = bytes
	c.used += bytes
	return p, err
}

func (c *counted) Free(p cuda.Ptr) {
	c.used -= c.sizes[p]
	c.Device.Free(p)
}

// TestScratchOfCodes: what a layer in codes takes beside its matrices is what ScratchBytes says, but for the alignment of its
// parts, and the matrices take a byte a weight.
func TestScratchOfCodes(t *testing.T) {
	for name, c := range map[string]struct {
		typ        kernels.DType
		weightOnly bool
		fp8        cuda.FP8
		rows       int
		largest    kernels.LargestCodes
	}{
		"FP8, none":     {kernels.F8E4M3, false, cuda.NoFP8, 96, kernels.LargestCodes{FP8: 2 * scratchInter * scratchHidden}},
		"FP8, sums":     {kernels.F8E4M3, false, cuda.FP8Sums, 96, kernels.LargestCodes{FP8: 2 * scratchInter * scratchHidden}},
		"FP8, scaled":   {kernels.F8E4M3, false, cuda.FP8Scaled, 96, kernels.LargestCodes{FP8: 2 * scratchInter * scratchHidden}},
		"int8":          {kernels.I8, false, cuda.FP8Scaled, 96, kernels.LargestCodes{I8: 2 * scratchInter * scratchHidden}},
		"int8, one row": {kernels.I8, false, cuda.NoFP8, 1, kernels.LargestCodes{I8: 2 * scratchInter * scratchHidden}},
		"int8 alone":    {kernels.I8, true, cuda.FP8Scaled, 96, kernels.LargestCodes{I8Alone: 2 * scratchInter * scratchHidden}},
	} {
		t.Run(name, func(t *testing.T) {
			device := &counted{Device: simt.NewFP8(c.fp8), sizes: map[cuda.Ptr]int64{}}
			b := cuda.New(device)
			t.Cleanup(b.Close)
			taken := scratchOfMLP(t, b, device, c.rows, func(name string, shape ...int) kernels.HostTensor {
				made, err := weights.Random{Seed: 1, Type: c.typ}.Tensor(name, shape...)
				if err != nil {
					t.Fatal(err)
				}
				made.WeightOnly = c.weightOnly
				return made
			})
			const slack = 4 << 10
			planned := b.ScratchBytes(c.rows, scratchInter, 2*scratchInter, c.largest)
			if taken > planned+slack || taken < planned/2 {
				t.Errorf("MLP took %d bytes, ScratchBytes says %d", taken, planned)
			}
		})
	}
}

const scratchHidden, scratchInter = 128, 352

// scratchOfMLP is what an MLP of so many rows takes.
func scratchOfMLP(t *testing.T, b *cuda.Backend, device *counted, rows int, tensor func(name string, shape ...int) kernels.HostTensor) int64 {
	const hidden, inter = scratchHidden, scratchInter
	gated, err := b.NewGatedLinear(tensor("gate_proj.weight", inter, hidden), tensor("up_proj.weight", inter, hidden))
	if err != nil {
		t.Fatal(err)
	}
	down, err := b.NewLinear([]kernels.HostTensor{tensor("down_proj.weight", hidden, inter)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := gated.Bytes()+down.Bytes(), int64(3*inter*hidden+4*(2*inter+hidden)); got != want {
		t.Errorf("the matrices take %d bytes, want %d", got, want)
	}
	norm, err := b.NewVector(tensor("norm.weight", hidden))
	if err != nil {
		t.Fatal(err)
	}
	buf, err := b.Alloc(4 * int64(rows) * hidden)
	if err != nil {
		t.Fatal(err)
	}
	before := device.used
	b.MLP(kernels.Mat{Buf: buf, Rows: rows, Cols: hidden, Stride: hidden}, kernels.Norm{Weight: norm, Eps: 1e-5}, kernels.SiLU, gated, down)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	return device.used - before
}
