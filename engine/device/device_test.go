package device

import (
	"fmt"
	"io"
	"testing"

	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/host"
	"go.uber.org/zap"
)

// demoModel is the demo model on a device of so many ranks, beside a prefix cache of 4 MiB.
func demoModel(t *testing.T, device string, gpus ...string) Options {
	t.Helper()
	dir, err := demo.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Device: device, GPUs: gpus, Ranks: max(1, len(gpus)), Access: CUDA,
		Models:    []host.Model{{Name: "demo", Path: dir, Prompts: host.Prompts{MaxLen: 512, BlockTokens: 64}}},
		GPUMemory: 0.92, CacheBytes: 4 << 20, CacheShare: 0.5, Log: zap.NewNop(),
	}
}

// TestModelRunner holds the demo model on the processor to the suite of runners.
func TestModelRunner(t *testing.T) {
	o := demoModel(t, "cpu")
	o.CacheBytes, o.Models[0].Prompts.MaxLen = 16<<20, 2048
	runnertest.Run(t, func(t *testing.T) executor.Runner {
		r, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}

// TestCauses: what keeps a model from its device has a cause.
func TestCauses(t *testing.T) {
	for name, c := range map[string]struct {
		device string
		change func(o *Options)
		want   Cause
	}{
		"no checkpoint, null":    {"null", func(o *Options) { o.Models[0].Path = t.TempDir() }, Model},
		"no checkpoint":          {"cpu", func(o *Options) { o.Models[0].Path = t.TempDir() }, Model},
		"longer than the model":  {"cpu", func(o *Options) { o.Models[0].Prompts.MaxLen = 1 << 30 }, Model},
		"too large a cache":      {"cpu", func(o *Options) { o.CacheBytes = 1 << 60 }, Memory},
		"more ranks than heads":  {"cpu", func(o *Options) { o.Ranks, o.Threads = 3, 3 }, Configuration},
		"ranks without a thread": {"cpu", func(o *Options) { o.Ranks, o.Threads = 2, 1 }, Configuration},
		"no such profile":        {"cpu", func(o *Options) { o.Models[0].Profile = "/no/profile" }, Configuration},
		"GPUs of no rank":        {"cuda:0", func(o *Options) { o.Ranks = 2 }, Configuration},
		"unknown GPUs":           {"cuda:GPU-0", func(o *Options) { o.GPUs = []string{"GPU-0"} }, Device},
	} {
		o := demoModel(t, c.device)
		if c.change(&o); o.Device == "cuda:0" {
			o.GPUs = []string{"0"}
		}
		r, err := Open(o)
		if err == nil {
			r.Close()
		}
		if got := CauseOf(err); got != c.want {
			t.Errorf("%s: cause %d of %v, want %d", name, got, err, c.want)
		}
	}
	if got := CauseOf(fmt.Errorf("open: %w", &Error{Lost, io.EOF})); got != Lost {
		t.Errorf("the cause of a wrapped error is %d, want %d", got, Lost)
	}
	if got := CauseOf(io.EOF); got != 0 {
		t.Errorf("the cause of an unknown error is %d", got)
	}
}
