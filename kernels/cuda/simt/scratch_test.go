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

// TestFP8Scratch: what a layer in FP8 takes beside its matrices is what ScratchBytes says, but for the
// alignment of its parts, and the matrices take a byte a weight.
func TestFP8Scratch(t *testing.T) {
	const rows, hidden, inter, slack = 96, 128, 352, 4 << 10
	source := weights.Random{Seed: 1, Type: kernels.F8E4M3}
	tensor := func(name string, shape ...int) kernels.HostTensor {
		made, err := source.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for _, fp8 := range []cuda.FP8{cuda.NoFP8, cuda.FP8Sums, cuda.FP8Scaled} {
		device := &counted{Device: simt.NewFP8(fp8), sizes: map[cuda.Ptr]int64{}}
		b := cuda.New(device)
		t.Cleanup(b.Close)
		gated, err := b.NewGatedLinear(tensor("gate_proj.weight", inter, hidden), tensor("up_proj.weight", inter, hidden))
		if err != nil {
			t.Fatal(err)
		}
		down, err := b.NewLinear([]kernels.HostTensor{tensor("down_proj.weight", hidden, inter)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := gated.Bytes()+down.Bytes(), int64(3*inter*hidden+4*(2*inter+hidden)); got != want {
			t.Errorf("FP8 support %d: the matrices take %d bytes, want %d", fp8, got, want)
		}
		norm, err := b.NewVector(tensor("norm.weight", hidden))
		if err != nil {
			t.Fatal(err)
		}
		buf, err := b.Alloc(4 * rows * hidden)
		if err != nil {
			t.Fatal(err)
		}
		before := device.used
		b.MLP(kernels.Mat{Buf: buf, Rows: rows, Cols: hidden, Stride: hidden}, norm, 1e-5, gated, down)
		if err := b.Sync(); err != nil {
			t.Fatal(err)
		}
		taken, planned := device.used-before, b.ScratchBytes(rows, inter, 2*inter, 2*inter*hidden)
		if taken > planned+slack || taken < planned/2 {
			t.Errorf("FP8 support %d: MLP took %d bytes, ScratchBytes says %d", fp8, taken, planned)
		}
	}
}
