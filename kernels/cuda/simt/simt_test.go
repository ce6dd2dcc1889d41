package simt_test

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
)

// The tolerance is that of bfloat16 activations: half a unit in the last of 8 bits, through a layer.
func TestConformance(t *testing.T) {
	for name, inPlace := range map[string]bool{"gathered": false, "in-place": true} {
		t.Run(name, func(t *testing.T) {
			kerneltest.Run(t, func(t testing.TB) kernels.Backend {
				device := simt.New()
				device.InPlace = inPlace
				b := cuda.New(device)
				t.Cleanup(b.Close)
				return b
			}, kerneltest.Tolerance{Max: 0.03, RMS: 0.006})
		})
	}
}
