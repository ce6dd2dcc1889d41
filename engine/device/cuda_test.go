package device

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// onSimulated hosts the models on the simulated device.
func onSimulated(o Options) (Runner, error) {
	b := cuda.New(simt.New())
	return hostedCUDA(o, b, []*cuda.Backend{b})
}

// TestHostCUDA hosts the demo model on the simulated device.
func TestHostCUDA(t *testing.T) {
	o := demoModel(t, "cuda:0", "0")
	o.Offloading = 8.0 / 1024
	r, err := onSimulated(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	info, m, block := r.Info(), r.Info().Models[0], demoBlock(t, o, 1)
	if info.Device != "simt" || m.Tokens.NumBlocks != int(o.CacheBytes/block) {
		t.Errorf("device %q with %d pages of %d bytes", info.Device, m.Tokens.NumBlocks, block)
	}
	if m.Tokens.HostBlocks != int(8<<20/block) || m.Cost.Load <= 0 {
		t.Errorf("%d pages of host memory, a load takes %v", m.Tokens.HostBlocks, m.Cost.Load)
	}
	for gib, want := range map[float64]string{1 << 20: "of host memory are available", 1e-6: "less than a block"} {
		o.Offloading = gib
		if _, err := onSimulated(o); CauseOf(err) != Memory || !strings.Contains(err.Error(), want) {
			t.Errorf("%g GiB of host memory: %v, want an error with %q", gib, err, want)
		}
	}
	o.Offloading = 0
	o.GPUMemory = 1e-3
	if _, err := onSimulated(o); CauseOf(err) != Memory || !strings.Contains(err.Error(), "gpu-memory-utilization") {
		t.Errorf("a thousandth of the memory: %v", err)
	}
}

func TestGPUBudget(t *testing.T) {
	for _, c := range []struct{ free, total, want int64 }{
		{1000, 1000, 900},
		{700, 1000, 600}, // others hold 300
		{50, 1000, -50},
	} {
		if got := gpuBudget(c.free, c.total, 0.9); got != c.want {
			t.Errorf("%d of %d free: %d, want %d", c.free, c.total, got, c.want)
		}
	}
}
