package model

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// TestBadItemsAreRefusedAlone packs malformed items with a good one.
func TestBadItemsAreRefusedAlone(t *testing.T) {
	m := newModel(t, "qwen2", ref.New(), bitsOptions)
	if err := m.NewPages(4); err != nil {
		t.Fatal(err)
	}
	tokens := goldenPrompt(100, m.spec.Vocab)
	good := wire.TokenItem{Tokens: tokens, Ask: engine.Ask{Top: 3}}
	want := answer(t, m, good)
	cases := []struct {
		item wire.TokenItem
		code engine.Code
		want string
	}{
		{wire.TokenItem{}, engine.CodeBadTokens, "the prompt is empty"},
		{wire.TokenItem{Tokens: make([]engine.TokenID, 513)}, engine.CodeTooLong, "the prompt has 513 tokens, the limit is 512"},
		{wire.TokenItem{Tokens: []engine.TokenID{1, 389}}, engine.CodeBadTokens, "token 389 at position 1 is outside the vocabulary of 389"},
		{wire.TokenItem{Tokens: []engine.TokenID{1, 1 << 31}}, engine.CodeBadTokens, "token 2147483648"},
		{wire.TokenItem{Tokens: tokens, Cached: 100, Blocks: blockRange(0, 4)}, engine.CodeInternal, "100 of 100 tokens are said to be cached"},
		{wire.TokenItem{Tokens: tokens, Cached: 33, Blocks: blockRange(0, 2)}, engine.CodeInternal, "33 of 100 tokens are said to be cached in 2 blocks of 16"},
		{wire.TokenItem{Tokens: tokens, Cached: -1}, engine.CodeInternal, "-1 of 100"},
		{wire.TokenItem{Tokens: tokens, Blocks: blockRange(3, 2)}, engine.CodeInternal, "block 4 is outside the cache of 4"},
		{wire.TokenItem{Tokens: tokens, Cached: 16, Blocks: blockRange(0, 1), Ask: engine.Ask{PromptLogprobs: true}}, engine.CodeInternal, "prompt logprobs need the whole prompt"},
		{wire.TokenItem{Tokens: tokens, Ask: engine.Ask{Top: 99}}, engine.CodeBadTokens, "99 and 0 top logprobs"},
	}
	var items []wire.TokenItem
	for _, c := range cases {
		items = append(items, c.item)
	}
	results := run(t, m, append(items, good)...)
	for i, c := range cases {
		if err := results[i].Err; err == nil || err.Code != c.code || !strings.Contains(err.Message, c.want) {
			t.Errorf("item %d: error %v, want %s %q", i, err, c.code, c.want)
		}
		if results[i].Job != engine.JobID(i) {
			t.Errorf("item %d answers job %d", i, results[i].Job)
		}
	}
	equalAnswers(t, "beside bad items", results[len(cases)].Answer, want)
	if results := run(t, m, items...); results[0].Err == nil {
		t.Error("a pass of bad items alone gave no refusal")
	}
}

// TestBeginRefuses checks the limits of a pass and of all open passes together.
func TestBeginRefuses(t *testing.T) {
	opts := Options{MaxLen: 64, BlockTokens: 16, MaxItems: 4, SpareRows: 32, ChunkRows: 16}
	m := newModel(t, "llama2", ref.New(), opts)
	begin := func(lengths ...int) (*Pass, error) {
		var items []wire.TokenItem
		for _, n := range lengths {
			items = append(items, wire.TokenItem{Tokens: make([]engine.TokenID, n)})
		}
		return m.Begin(&wire.Run{Items: itemsOf(items...)})
	}
	refused := func(code engine.Code, want string, lengths ...int) {
		t.Helper()
		_, err := begin(lengths...)
		var e *engine.Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, want) {
			t.Errorf("items of %v tokens: error %v, want %s %q", lengths, err, code, want)
		}
	}
	refused(engine.CodeTooLong, "a pass of 66 new tokens exceeds the limit of 64", 33, 33)
	refused(engine.CodeTooLong, "a pass of 9 items needs 9 blocks of scratch memory, there are 8", 1, 1, 1, 1, 1, 1, 1, 1, 1)
	long, err := begin(64)
	if err != nil {
		t.Fatal(err)
	}
	refused(engine.CodeOverloaded, "a pass of 33 new tokens does not fit beside the open passes, which leave 32 rows", 33)
	short, err := begin(16, 16)
	if err != nil {
		t.Fatal(err)
	}
	refused(engine.CodeOverloaded, "leave 0 rows", 1)
	long.Close()
	between, err := begin(16)
	if err != nil {
		t.Fatal(err)
	}
	defer between.Close()
	short.Close() // what is free now does not lie side by side
	if p, err := begin(64); err != nil {
		t.Error(err)
	} else {
		p.Close()
	}
}

// failing is a backend that reports an error from its n-th Sync on.
type failing struct {
	kernels.Backend
	after int
}

func (f *failing) Sync() error {
	if f.after--; f.after < 0 {
		return errors.New("out of order")
	}
	return f.Backend.Sync()
}

func TestStepReportsTheBackendsError(t *testing.T) {
	b := &failing{ref.New(), 1000}
	m := newModel(t, "llama2", b, Options{MaxLen: 64})
	p, err := m.Begin(&wire.Run{Items: itemsOf(wire.TokenItem{Tokens: []engine.TokenID{1, 2}})})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if done, err := p.Step(); done || err != nil || p.layer != 1 {
		t.Fatalf("first step: done %v, layer %d, error %v", done, p.layer, err)
	}
	b.after = 0
	if _, err := p.Step(); err == nil || !strings.Contains(err.Error(), "layer 1: out of order") {
		t.Errorf("error %v, want it to name the layer", err)
	}
}

// TestInfo checks what the scheduler is told.
func TestInfo(t *testing.T) {
	m := newModel(t, "llama3", ref.New(), Options{MaxLen: 300, BlockTokens: 32})
	if err := m.NewPages(7); err != nil {
		t.Fatal(err)
	}
	got := m.Info()
	want := wire.ModelInfo{Fingerprint: got.Fingerprint, Tokens: &wire.TokenLimits{VocabSize: 517, MaxModelLen: 300, BlockTokens: 32, NumBlocks: 7, MaxPassRows: 300, CopiesParts: true, Hidden: m.spec.Hidden}}
	if !reflect.DeepEqual(got, want) || got.Fingerprint == "" {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if other := newModel(t, "llama2", ref.New(), Options{}); other.Info().Fingerprint == got.Fingerprint {
		t.Error("two models have one fingerprint")
	}
}

// TestStepsAreChunks: a pass takes a step for every chunk of every layer, one for the rest of the last layer at so many rows, and one for
// their logits, so that none is longer than a chunk takes. It is at a boundary where a layer ends, and from then on between any two steps.
func TestStepsAreChunks(t *testing.T) {
	opts := bitsOptions
	opts.ChunkRows = 16
	m := newModel(t, "llama3", ref.New(), opts)
	p, err := m.Begin(&wire.Run{Items: itemsOf(wire.TokenItem{Tokens: goldenPrompt(50, 250), Ask: engine.Ask{PromptLogprobs: true}})})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const chunks = 4
	layers, steps := chunks*m.spec.Layers+chunks-1, 0 // the first rest comes with the last chunk
	for done := false; !done; {
		if boundary := steps%chunks == 0 && steps < chunks*m.spec.Layers || steps >= layers; p.Boundary() != boundary {
			t.Errorf("after %d steps of %d chunks to a layer the pass is at a boundary: %v", steps, chunks, p.Boundary())
		}
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
		steps++
	}
	if want := layers + chunks; steps != want {
		t.Errorf("%d steps, want %d of chunks, the rest of the last layer, and logits", steps, want)
	}
}
