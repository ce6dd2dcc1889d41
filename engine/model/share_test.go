package model

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// TestShareAddsUp: what the steps of a pass do is what was predicted of it, and a chunk's share grows with
// the tokens before it, but no further than a window.
func TestShareAddsUp(t *testing.T) {
	for _, name := range []string{"llama3", "qwen2-window", "qwen2moe"} {
		opts := bitsOptions
		opts.ChunkRows = 32
		m := newModel(t, name, ref.New(), opts)
		for _, items := range [][]wire.TokenItem{
			{{Tokens: goldenPrompt(200, m.spec.Vocab)}},
			{{Tokens: goldenPrompt(90, m.spec.Vocab), Ask: engine.Ask{PromptLogprobs: true}}, {Tokens: goldenPrompt(7, m.spec.Vocab), Ask: engine.Ask{Allowed: engine.NewTokenSet(1, 2)}}},
		} {
			p, err := m.Begin(&wire.Run{Items: itemsOf(items...)})
			if err != nil {
				t.Fatal(err)
			}
			var grown []float64 // by each chunk of the first layer
			for done := false; !done; {
				before := p.Share()
				if done, err = p.Step(); err != nil {
					t.Fatal(err)
				}
				if p.layer == 0 {
					grown = append(grown, p.Share()-before)
				}
			}
			if off := p.progress.done/p.progress.whole - 1; math.Abs(off) > 1e-9 {
				t.Errorf("%s: %v was done of %v predicted", name, p.progress.done, p.progress.whole)
			}
			if len(items) == 1 && !(grown[1] < grown[2] && grown[2] < grown[3]) && name == "llama3" {
				t.Errorf("%s: chunks are predicted to take shares of %v", name, grown)
			}
			p.Close()
		}
	}
}
