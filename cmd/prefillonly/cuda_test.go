package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"go.uber.org/zap"
)

// TestNoDevice: without a usable GPU serve ends with the exit code that systemd does not restart
// after, and says what to do.
func TestNoDevice(t *testing.T) {
	if device, err := cuda.Open(0, cuda.Options{}); err == nil {
		device.Close()
		t.Skip("this machine has a GPU")
	}
	serve := command(nil, "serve", "--device", "cuda:0,1", "--port", "0")
	out, _ := serve.CombinedOutput()
	if code := serve.ProcessState.ExitCode(); code != exitDevice {
		t.Errorf("exit code %d, want %d", code, exitDevice)
	}
	for _, want := range []string{noDevice, "--device cpu"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the log lacks %q:\n%s", want, out)
		}
	}
}

// TestExecutorChildren: one executor for each GPU, with a name, a device and a debug port of its own.
func TestExecutorChildren(t *testing.T) {
	cfg := config.Default()
	cfg.Device, cfg.DebugPort = "cuda:0,3", 9000
	var names []string
	for _, c := range newGroup(&cfg, nil, zap.NewNop()).Executors {
		names = append(names, c.Name)
		last := c.Name == "executor cuda-1"
		for pair, want := range map[string]bool{"PREFILLONLY_DEVICE=cuda:3": last, "PREFILLONLY_DEBUG_PORT=9001": last, "PREFILLONLY_DEVICE=cuda:0": !last} {
			if slices.Contains(c.Env, pair) != want {
				t.Errorf("%s in the environment of %s: %v, want %v", pair, c.Name, !want, want)
			}
		}
	}
	if want := []string{"executor cuda-0", "executor cuda-1"}; !slices.Equal(names, want) {
		t.Errorf("children %q, want %q", names, want)
	}
}

// TestLoadCUDA loads the demo model on the simulated device.
func TestLoadCUDA(t *testing.T) {
	cfg := config.Default()
	cfg.Device, cfg.Model, cfg.ServedModelName, cfg.CacheBytes, cfg.MaxModelLen = "cuda:0", demoDir(t), []string{"demo"}, 4<<20, 512
	cfg.Offloading = 8.0 / 1024
	one := cuda.New(simt.New())
	r, err := loadCUDA(&cfg, one, []*cuda.Backend{one}, &vitals{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	info, plan := r.Info(), r.Plan()
	if info.Device != "simt" || info.NumBlocks != int(int64(cfg.CacheBytes)/plan.Block) {
		t.Errorf("device %q with %d pages of %d bytes", info.Device, info.NumBlocks, plan.Block)
	}
	if info.HostBlocks != int(8<<20/plan.Block) || info.CostLoad <= 0 {
		t.Errorf("%d pages of host memory, a load takes %v", info.HostBlocks, info.CostLoad)
	}
	for gib, want := range map[float64]string{1 << 20: "of host memory are available", 1e-6: "less than a block"} {
		cfg.Offloading = gib
		backend := cuda.New(simt.New())
		if _, err := loadCUDA(&cfg, backend, []*cuda.Backend{backend}, &vitals{}, zap.NewNop()); exitCode(err) != exitMemory || !strings.Contains(err.Error(), want) {
			t.Errorf("%g GiB of host memory: %v, want an error with %q", gib, err, want)
		}
		backend.Close()
	}
	cfg.Offloading = 0

	cfg.GPUMemory = 1e-3
	backend := cuda.New(simt.New())
	defer backend.Close()
	if _, err := loadCUDA(&cfg, backend, []*cuda.Backend{backend}, &vitals{}, zap.NewNop()); exitCode(err) != exitMemory || !strings.Contains(err.Error(), "gpu-memory-utilization") {
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

// TestPermanent: what a restart cannot help, at first and later.
func TestPermanent(t *testing.T) {
	for code, want := range map[int][2]bool{
		exitFailure: {false, false}, exitUsage: {true, true}, exitConfig: {true, true},
		exitDevice: {true, false}, exitMemory: {true, false}, exitLost: {false, false},
	} {
		if got := [2]bool{permanent(code, true), permanent(code, false)}; got != want {
			t.Errorf("exit code %d: permanent at first and later %v, want %v", code, got, want)
		}
	}
}
