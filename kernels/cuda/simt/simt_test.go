package simt_test

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"github.com/prefillonly/prefillonly/kernels/networktest"
)

// tolerance is that of bfloat16 activations: half a unit in the last of 8 bits, through a layer.
var tolerance = kerneltest.Tolerance{Max: 0.03, RMS: 0.006}

// open makes backends on devices that do so much in FP8, with attention over blocks in place or not.
func open(fp8 cuda.FP8, inPlace bool) kerneltest.Open {
	return func(t testing.TB) kernels.Backend {
		device := simt.NewFP8(fp8)
		device.InPlace = inPlace
		b := cuda.New(device)
		t.Cleanup(b.Close)
		return b
	}
}

func TestConformance(t *testing.T) {
	for name, inPlace := range map[string]bool{"gathered": false, "in-place": true} {
		t.Run(name, func(t *testing.T) { kerneltest.Run(t, open(cuda.NoFP8, inPlace), tolerance) })
	}
}

// TestFP8 covers the three ways that GPUs of three generations multiply weights in FP8.
func TestFP8(t *testing.T) {
	for name, fp8 := range map[string]cuda.FP8{"none": cuda.NoFP8, "sums": cuda.FP8Sums, "scaled": cuda.FP8Scaled} {
		t.Run(name, func(t *testing.T) { kerneltest.RunFP8(t, open(fp8, false), tolerance, fp8 != cuda.NoFP8) })
	}
}

func TestInt8(t *testing.T) { kerneltest.RunInt8(t, open(cuda.NoFP8, false), tolerance) }

func TestNetworks(t *testing.T) { networktest.Run(t, open(cuda.NoFP8, false)) }

func FuzzNetworks(f *testing.F) { networktest.Fuzz(f, open(cuda.NoFP8, false)) }

func TestHostMemory(t *testing.T) {
	kerneltest.RunOffloader(t, func(t testing.TB) kernels.Backend {
		b := cuda.New(simt.New())
		t.Cleanup(b.Close)
		return b
	})
}
