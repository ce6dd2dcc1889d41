package device

import (
	"math"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// ask runs one prompt through the runner.
func ask(t *testing.T, r Runner) *engine.Answer {
	t.Helper()
	for _, piece := range r.Info().Models[0].Weights {
		if err := executor.Load(r, "demo", piece); err != nil {
			t.Fatal(err)
		}
	}
	item := &wire.TokenItem{Ask: engine.Ask{Labels: []engine.TokenID{274, 270}}}
	for i := range 40 {
		item.Tokens = append(item.Tokens, engine.TokenID(300+7*i))
	}
	p, err := r.Begin(&wire.Run{Model: "demo", Items: []wire.RunItem{{Work: item}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return p.Results()[0].Output.(*engine.TokenOutput).Answer
}

// demoBlock is the size of a block of the demo model's KV on each of so many simulated GPUs.
func demoBlock(t *testing.T, o Options, ranks int) int64 {
	t.Helper()
	config, err := weights.ReadConfig(o.Models[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	b := cuda.New(simt.New())
	defer b.Close()
	plan, err := model.Predict(config, b, model.Options{MaxLen: o.Models[0].Prompts.MaxLen, BlockTokens: o.Models[0].Prompts.BlockTokens})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Block / int64(ranks)
}

// TestTwoGPUs hosts the demo model over two simulated GPUs, which an NCCL of the host joins: it takes
// half the memory a page on each and gives one GPU's answer.
func TestTwoGPUs(t *testing.T) {
	library := cudatest.BuildNCCL(t)
	open := func(device string, gpus ...string) Runner {
		o := demoModel(t, device, gpus...)
		open := func(int) (cuda.Device, error) { return simt.New(), nil }
		indices, err := cudaIndices(o)
		if err != nil {
			t.Fatal(err)
		}
		backend, devices, err := openGPUs(indices, open, library)
		if err != nil {
			t.Fatal(err)
		}
		r, err := hostedCUDA(o, backend, devices)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	one, two := open("cuda:0", "0"), open("cuda:0,1", "0", "1")
	if got, want := two.Info().Device, "simt x2"; got != want {
		t.Errorf("the device is %q, want %q", got, want)
	}
	for ranks, r := range map[int]Runner{1: one, 2: two} {
		o := demoModel(t, "cuda:0", "0")
		if got, want := r.Info().Models[0].Tokens.NumBlocks, int(o.CacheBytes/demoBlock(t, o, ranks)); got != want {
			t.Errorf("%d pages on each of %d GPUs, want %d", got, ranks, want)
		}
	}
	want, got := ask(t, one), ask(t, two)
	for i := range want.Labels {
		if off := math.Abs(float64(got.Labels[i].Logprob - want.Labels[i].Logprob)); !(off < 0.05) {
			t.Errorf("two GPUs answer %v, one %v", got.Labels, want.Labels)
		}
	}
}

// TestNoNCCL: what is missing is named, and the GPUs that were opened are closed.
func TestNoNCCL(t *testing.T) {
	open := func(int) (cuda.Device, error) { return simt.New(), nil }
	_, _, err := openGPUs([]int{0, 1}, open, "/nowhere/libnccl.so.2")
	if CauseOf(err) != Device || !strings.Contains(err.Error(), "libnccl2") {
		t.Errorf("error %v, want one that names what to install", err)
	}
}
