package model

import (
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// TestWorkspaceOfSeveral: models of different shapes compute in one workspace, passes open side by side, with
// the bits that each has in its own; it is no larger than the largest of each part.
func TestWorkspaceOfSeveral(t *testing.T) {
	eachOffloader(t, func(t *testing.T, b kernels.Backend) {
		names := []string{"qwen2-window", "llama2", "qwen3"}
		item := wire.TokenItem{Tokens: goldenPrompt(90, 250), Ask: engine.Ask{Top: 20}}
		var plans []Plan
		var models []*Model
		var want [][]result
		for i, name := range names {
			config, source := goldenSource(t, name)
			opts := Options{MaxLen: 128 - 16*i, ChunkRows: 16 << (i % 2), BlockTokens: 16, ResidentRows: []int{0, 32, 16}[i]}
			alone, err := New(config, source, b, opts)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, run(t, alone, item))
			alone.Close()
			m, err := Open(config, source, store.New(b), opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.LoadAll(); err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			models, plans = append(models, m), append(plans, m.Plan())
		}
		small, err := NewWorkspace(b, plans[2])
		if err != nil {
			t.Fatal(err)
		}
		if err := models[0].Use(small); err == nil {
			t.Error("a model takes working memory that is too small for it")
		}
		small.Free()
		w, err := NewWorkspace(b, plans...)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Free()
		sum := int64(0)
		for _, p := range plans {
			sum += p.Work
		}
		if work, _ := Shared(plans...); work >= sum {
			t.Errorf("a shared workspace takes %d bytes, %d apart", work, sum)
		}
		var passes []*Pass
		for _, m := range models {
			if err := m.Use(w); err != nil {
				t.Fatal(err)
			}
		}
		all := models[0].work.residual.Left()
		for range 2 {
			passes = passes[:0]
			for _, m := range models {
				p, err := m.Begin(&wire.Run{Items: itemsOf(item)})
				if err != nil { // the streams of the others leave no room
					p = nil
				}
				passes = append(passes, p)
			}
			for open := true; open; {
				open = false
				for i, p := range passes {
					if p == nil {
						continue
					}
					done := toBoundary(t, p) // within a layer the workspace is one pass's alone
					if open = true; !done {
						continue
					}
					if !reflect.DeepEqual(resultsOf(p), want[i]) {
						t.Errorf("%s: other bits than in a workspace of its own", names[i])
					}
					p.Close()
					passes[i] = nil
				}
			}
			if models[0].work.residual.Left() != all {
				t.Fatalf("%d of %d slots are free after all passes closed", models[0].work.residual.Left(), all)
			}
		}
	})
}
