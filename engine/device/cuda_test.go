package device

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// TestLoadCUDA loads the demo model on the simulated device.
func TestLoadCUDA(t *testing.T) {
	o := demoModel(t, "cuda:0", "0")
	o.Offloading = 8.0 / 1024
	one := cuda.New(simt.New())
	r, err := loadCUDA(o, one, []*cuda.Backend{one})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	info, plan := r.Info(), r.Plan()
	if info.Device != "simt" || info.NumBlocks != int(o.CacheBytes/plan.Block) {
		t.Errorf("device %q with %d pages of %d bytes", info.Device, info.NumBlocks, plan.Block)
	}
	if info.HostBlocks != int(8<<20/plan.Block) || info.CostLoad <= 0 {
		t.Errorf("%d pages of host memory, a load takes %v", info.HostBlocks, info.CostLoad)
	}
	for gib, want := range map[float64]string{1 << 20: "of host memory are available", 1e-6: "less than a block"} {
		o.Offloading = gib
		backend := cuda.New(simt.New())
		if _, err := loadCUDA(o, backend, []*cuda.Backend{backend}); CauseOf(err) != Memory || !strings.Contains(err.Error(), want) {
			t.Errorf("%g GiB of host memory: %v, want an error with %q", gib, err, want)
		}
		backend.Close()
	}
	o.Offloading = 0

	o.GPUMemory = 1e-3
	backend := cuda.New(simt.New())
	defer backend.Close()
	if _, err := loadCUDA(o, backend, []*cuda.Backend{backend}); CauseOf(err) != Memory || !strings.Contains(err.Error(), "gpu-memory-utilization") {
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
