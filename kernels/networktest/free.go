package networktest

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
)

// testFree makes filters and computes, several times over: the device has then what it had after the first
// time, when it may have taken memory for good.
func (s suite) testFree(t *testing.T) {
	d := newDevice(t, s.open)
	var memory kerneltest.MemoryWatch
	x, y := make([]kernels.Tensor, len(convs)), make([]kernels.Tensor, len(convs))
	for i, c := range convs {
		x[i], y[i] = d.newView(c.InputShape(), denseStrides(c.InputShape())), d.newView(c.OutputShape(), denseStrides(c.OutputShape()))
	}
	for range 4 {
		for i, c := range convs {
			f, err := d.NewFilter(c.ConvSpec, hostTensor("weight", c.Out, c.Taps(), make([]float64, c.Out*c.Taps())))
			if err != nil {
				t.Fatal(err)
			}
			if f.Bytes() <= 0 {
				t.Errorf("a filter of %v holds %d bytes", c, f.Bytes())
			}
			d.Conv(y[i], x[i], f, kernels.Affine{}, c.Origin, silu)
			d.ConvBackward(x[i], y[i], f, c.Origin)
			d.syncOrFail()
			f.Free()
			f.Free()
			if f.Bytes() != 0 {
				t.Errorf("a filter of %v that was freed holds %d bytes", c, f.Bytes())
			}
		}
		memory.EndRound(t, d.Networks)
	}
}

// denseStrides are the strides of a tensor without gaps.
func denseStrides(shape []int) []int {
	stride, next := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i], next = next, next*shape[i]
	}
	return stride
}
