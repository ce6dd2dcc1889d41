package model

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// counting counts the bytes of live buffers, and refuses to exceed a limit.
type counting struct {
	kernels.Backend
	live, limit int64
}

func (c *counting) Alloc(bytes int64) (kernels.Buffer, error) {
	if c.limit > 0 && c.live+bytes > c.limit {
		return nil, errors.New("no memory")
	}
	c.live += bytes
	return c.Backend.Alloc(bytes)
}

// TestPlanIsWhatIsAllocated compares the plan with the buffers, and checks that passes allocate none.
func TestPlanIsWhatIsAllocated(t *testing.T) {
	config, source := goldenSource(t, "qwen3")
	opts := Options{MaxLen: 1000, ChunkRows: 64, BlockTokens: 32}
	c := &counting{Backend: ref.New()}
	m, err := New(config, source, c, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	plan := m.Plan()
	unbuffered := m.workSize().scratch + 4*int64(hostRows())*int64(m.spec.Vocab)
	if got := plan.Work - unbuffered; c.live != got {
		t.Errorf("%d bytes are allocated, the plan says %d", c.live, got)
	}
	if err := m.NewPages(40); err != nil {
		t.Fatal(err)
	}
	if got, want := c.live, plan.Work-unbuffered+40*plan.Block; got != want {
		t.Errorf("%d bytes are allocated with 40 pages, the plan says %d", got, want)
	}
	before := c.live
	answer(t, m, wire.TokenItem{Tokens: goldenPrompt(1000, m.spec.Vocab), Blocks: blockRange(0, 20), Ask: engine.Ask{PromptLogprobs: true}})
	if c.live != before {
		t.Errorf("a pass allocated %d bytes", c.live-before)
	}

	predicted, err := Predict(config, ref.New(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if predicted.Work != plan.Work || predicted.Block != plan.Block {
		t.Errorf("predicted %+v, is %+v", predicted, plan)
	}
	if off := float64(predicted.Weights)/float64(plan.Weights) - 1; off < -0.01 || off > 0.1 {
		t.Errorf("predicted %d bytes of weights, there are %d", predicted.Weights, plan.Weights)
	}
}

func TestNoMemory(t *testing.T) {
	config, source := goldenSource(t, "llama2")
	c := &counting{Backend: ref.New(), limit: 1 << 19}
	if _, err := New(config, source, c, Options{}); err == nil || !strings.Contains(err.Error(), "working memory: allocate 786432 bytes: no memory") {
		t.Errorf("error %v", err)
	}
	c.limit = 0
	m, err := New(config, source, c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c.limit = c.live + 1
	if err := m.NewPages(10); err == nil || !strings.Contains(err.Error(), "prefix cache of 10 blocks of 147456 bytes") {
		t.Errorf("error %v", err)
	}
}

// TestChunksAreEven checks that no chunk is much shorter than the others, nor is there one too many.
func TestChunksAreEven(t *testing.T) {
	for _, limit := range []int{1, 17, 64, 512} {
		o := Options{ChunkRows: limit}
		for rows := 1; rows < 5*limit; rows++ {
			per := o.evenChunkRows(rows)
			n := (rows + per - 1) / per
			if last := rows - (n-1)*per; per > limit || n != o.chunkCount(rows) || per-last > 32*n {
				t.Fatalf("%d rows go in %d chunks of %d and one of %d, the limit is %d", rows, n-1, per, last, limit)
			}
		}
	}
	if got := (Options{ChunkRows: 512}).evenChunkRows(520); got != 288 {
		t.Errorf("520 rows go in chunks of %d, want 288", got)
	}
}

// FuzzSpec checks that no configuration makes the graph's own sizes impossible.
func FuzzSpec(f *testing.F) {
	for _, name := range slices.Concat(fp8Models, int8Models, goldenModels) {
		raw, err := os.ReadFile("testdata/" + name + "/config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := weights.ParseConfig(raw)
		if err != nil {
			return
		}
		if s, err := architecture.New(&config); err == nil {
			if s.Heads.QKVCols() <= 0 || len(s.Windows) != s.Layers || len(s.Rotations[0].InvFreq) != s.Heads.Dim/2 {
				t.Fatalf("accepted %+v", s)
			}
			if plan, err := Predict(config, ref.New(), Options{MaxLen: 1}); err != nil || plan.Weights <= 0 {
				t.Fatalf("%+v: %+v, %v", s, plan, err)
			}
		}
	})
}
