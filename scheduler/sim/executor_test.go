package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// TestNestedPassesAndLoads puts a camera beside prompts on a device that loads both models first: frames run inside the
// prompts' passes, are in time once their model is there, and what they take is not taken from the passes.
func TestNestedPassesAndLoads(t *testing.T) {
	const gigabyte = 1 << 30
	e := Executor{
		Name: "gpu",
		Models: []Model{
			{Name: "llm", Cost: Cost{Token: 1e-4}, Layers: 10, Step: 20 * time.Millisecond, BlockTokens: 64, NumBlocks: 10, MaxModelLen: 1 << 16, Pieces: []uint32{0, 1}},
			{Name: "detector", Cost: Cost{Token: 0.005}, Step: 5 * time.Millisecond, Frames: 1, Pieces: []uint32{2}},
		},
		Weights: []uint64{gigabyte, gigabyte, gigabyte}, LoadRate: 4 * gigabyte, Aside: true, Nests: true,
	}
	var requests []Request
	for i := range 40 {
		at := time.Duration(i) * 100 * time.Millisecond
		requests = append(requests, Request{At: at, Model: "detector", Frames: 1, Stream: "camera", Promised: true, Deadline: 100 * time.Millisecond})
		if i == 10 {
			requests = append(requests, Request{At: at, Model: "llm", Tokens: make([]engine.TokenID, 20_000)})
		}
	}
	out := run(t, config("srjf-calibrated"), []Executor{e}, requests...)
	refused := 0
	for i, r := range out.Records {
		switch {
		case r.Model == "llm":
			// 0.5 s to load, 2 s of its own, and 20 frames of 5 ms that run inside.
			if got := r.Latency(); got < seconds(2.5) || got > seconds(2.65) {
				t.Errorf("the prompt takes %v", got)
			}
		case r.Code == engine.CodeOverloaded:
			refused++
		case r.Code != 0 || r.Latency() > 100*time.Millisecond:
			t.Errorf("frame %d: %v after %v", i, r.Code, r.Latency())
		}
	}
	if refused != 3 { // 0.25 s to load
		t.Errorf("%d frames are refused, want the first three", refused)
	}
	if out.Stats.Nested < 15 {
		t.Errorf("%d passes are nested", out.Stats.Nested)
	}
	if loads := fmt.Sprint(out.Models[0].Loads, out.Models[1].Loads); loads != "1 1" {
		t.Errorf("loads: %s", loads)
	}
}
