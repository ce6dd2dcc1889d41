package device

import (
	"math"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/nccl/nccltest"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// ask runs one prompt through the runner.
func (r *modelRunner) ask(t *testing.T) *engine.Answer {
	t.Helper()
	item := wire.RunItem{Ask: engine.Ask{Labels: []engine.TokenID{274, 270}}}
	for i := range 40 {
		item.Tokens = append(item.Tokens, engine.TokenID(300+7*i))
	}
	p, err := r.Begin(&wire.Run{Items: []wire.RunItem{item}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return p.Results()[0].Answer
}

// TestTwoGPUs loads the demo model over two simulated GPUs, which an NCCL of the host joins: it takes
// half the memory a page on each and gives one GPU's answer.
func TestTwoGPUs(t *testing.T) {
	library := nccltest.Build(t)
	load := func(device string, gpus ...string) *modelRunner {
		o := demoModel(t, device, gpus...)
		open := func(int) (cuda.Device, error) { return simt.New(), nil }
		indices, err := cudaIndices(o)
		if err != nil {
			t.Fatal(err)
		}
		backend, devices, err := openGPUs(o, indices, open, library)
		if err != nil {
			t.Fatal(err)
		}
		r, err := loadCUDA(o, backend, devices)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	one, two := load("cuda:0", "0"), load("cuda:0,1", "0", "1")
	if got, want := two.Info().Device, "simt x2"; got != want {
		t.Errorf("the device is %q, want %q", got, want)
	}
	if 2*two.Plan().Block != one.Plan().Block || two.Info().NumBlocks != 2*one.Info().NumBlocks {
		t.Errorf("%d pages of %d bytes on each of two GPUs, %d of %d on one", two.Info().NumBlocks, two.Plan().Block, one.Info().NumBlocks, one.Plan().Block)
	}
	want, got := one.ask(t), two.ask(t)
	for i := range want.Labels {
		if off := math.Abs(float64(got.Labels[i].Logprob - want.Labels[i].Logprob)); !(off < 0.05) {
			t.Errorf("two GPUs answer %v, one %v", got.Labels, want.Labels)
		}
	}
}

// TestNoNCCL: what is missing is named, and the GPUs that were opened are closed.
func TestNoNCCL(t *testing.T) {
	o := demoModel(t, "cuda:0,1", "0", "1")
	open := func(int) (cuda.Device, error) { return simt.New(), nil }
	_, _, err := openGPUs(o, []int{0, 1}, open, "/nowhere/libnccl.so.2")
	if CauseOf(err) != Device || !strings.Contains(err.Error(), "libnccl2") {
		t.Errorf("error %v, want one that names what to install", err)
	}
}
