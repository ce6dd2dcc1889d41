package ref_test

import (
	"runtime"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"github.com/prefillonly/prefillonly/kernels/networktest"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

func open(t testing.TB) kernels.Backend {
	b := ref.New()
	t.Cleanup(b.Close)
	return b
}

var tolerance = kerneltest.Tolerance{Max: 2e-5, RMS: 2e-6}

func TestConformance(t *testing.T) { kerneltest.Run(t, open, tolerance) }

func TestEncoders(t *testing.T) { kerneltest.RunEncoders(t, open, tolerance) }

func TestMixtures(t *testing.T) { kerneltest.RunMixtures(t, open) }

func TestFP8(t *testing.T) {
	t.Run("weights", func(t *testing.T) { kerneltest.RunFP8(t, open, tolerance, false) })
	t.Run("activations too", func(t *testing.T) {
		kerneltest.RunFP8(t, func(t testing.TB) kernels.Backend {
			b := ref.NewFP8()
			t.Cleanup(b.Close)
			return b
		}, tolerance, true)
	})
}

func TestInt8(t *testing.T) { kerneltest.RunInt8(t, open, tolerance) }

func TestHostMemory(t *testing.T) {
	kerneltest.RunOffloader(t, func(t testing.TB) kernels.Backend {
		return &kerneltest.Offloading{Backend: open(t)}
	})
}

func FuzzAttention(f *testing.F) { kerneltest.FuzzAttention(f, open, tolerance) }
func FuzzLinear(f *testing.F)    { kerneltest.FuzzLinear(f, open, tolerance) }

func TestProcessorsDoNotChangeBits(t *testing.T) {
	on := func(processors int) kerneltest.Open {
		return func(t testing.TB) kernels.Backend {
			before := runtime.GOMAXPROCS(processors)
			t.Cleanup(func() { runtime.GOMAXPROCS(before) })
			return open(t)
		}
	}
	kerneltest.SameBits(t, on(1), on(4))
	kerneltest.SameBitsOfEncoders(t, on(1), on(4))
	networktest.SameBits(t, on(1), on(4))
}

func TestNetworks(t *testing.T) { networktest.Run(t, open) }

func FuzzNetworks(f *testing.F) { networktest.Fuzz(f, open) }

func BenchmarkNetworks(b *testing.B) { networktest.Bench(b, open) }
