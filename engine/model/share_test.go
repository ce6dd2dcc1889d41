package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// TestSeenCountsPairs compares with counting them one by one.
func TestSeenCountsPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var segs []kernels.Segment
		rows, pairs, window := 0, 0, random.IntN(3)*random.IntN(50)
		for range random.IntN(4) {
			s := kernels.Segment{Rows: 1 + random.IntN(40), Pos: random.IntN(80)}
			for at := s.Pos; at < s.Pos+s.Rows; at++ {
				rows++
				if pairs += at + 1; window > 0 {
					pairs -= max(0, at+1-window)
				}
			}
			segs = append(segs, s)
		}
		if r, p := seen(segs, window); r != float64(rows) || p != float64(pairs) {
			t.Fatalf("%+v with a window of %d: %v rows and %v pairs, counted %d and %d", segs, window, r, p, rows, pairs)
		}
	}
}

// TestShareAddsUp: what the steps of a pass do is what was predicted of it, and a chunk's share grows with
// the tokens before it, but no further than a window.
func TestShareAddsUp(t *testing.T) {
	for _, name := range []string{"llama3", "qwen2-window"} {
		opts := bitsOptions
		opts.ChunkRows = 32
		m := newModel(t, name, ref.New(), opts)
		for _, items := range [][]wire.TokenItem{
			{{Tokens: goldenPrompt(200, m.spec.vocab)}},
			{{Tokens: goldenPrompt(90, m.spec.vocab), Ask: engine.Ask{PromptLogprobs: true}}, {Tokens: goldenPrompt(7, m.spec.vocab), Ask: engine.Ask{Allowed: engine.NewTokenSet(1, 2)}}},
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
