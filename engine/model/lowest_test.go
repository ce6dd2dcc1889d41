package model

import (
	"errors"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// lowestRun is a run of lowest jobs.
func lowestRun(items ...wire.TokenItem) *wire.Run {
	return &wire.Run{Lowest: true, Items: itemsOf(items...)}
}

// TestLowestPassStandsStillInsideLayers: all the way through a lowest pass, inside layers and between the rows that it
// asks about, longest passes of others change no bit of it, nor it of them.
func TestLowestPassStandsStillInsideLayers(t *testing.T) {
	m := newModel(t, "qwen2", ref.New(), Options{MaxLen: 64, BlockTokens: 16, MaxItems: 4, SpareRows: 64, ChunkRows: 16})
	tokens := goldenPrompt(64, m.spec.Vocab)
	low := wire.TokenItem{Tokens: tokens, Ask: engine.Ask{Top: 3, PromptLogprobs: true}}
	live := wire.TokenItem{Tokens: goldenPrompt(64, m.spec.Vocab)[:63], Ask: engine.Ask{Top: 3}}
	wantLow, wantLive := run(t, m, low)[0], answer(t, m, live)
	p, err := m.Begin(lowestRun(low))
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
		if !p.Boundary() {
			t.Fatal("it cannot stand still")
		}
		if !done && !p.isBetweenLayers() {
			inside++
			equalAnswers(t, "while a lowest pass stands still", answer(t, m, live), wantLive)
		}
	}
	got := p.Results()[0].Output.(*engine.TokenOutput)
	p.Close()
	equalAnswers(t, "of the lowest pass", got.Answer, wantLow.Answer)
	if want := wantLow.Prompt; len(got.Prompt) != len(want) {
		t.Fatalf("%d scores, want %d", len(got.Prompt), len(want))
	}
	for i, s := range got.Prompt {
		if s.Logprob != wantLow.Prompt[i].Logprob {
			t.Errorf("score %d is %v, want %v", i, s.Logprob, wantLow.Prompt[i].Logprob)
		}
	}
	if inside < 2*m.spec.Layers {
		t.Errorf("it stood still inside layers %d times", inside)
	}
}

// TestLowestPassesShareScratchMemory: one lowest pass is open at a time, and neither it nor another takes what the other
// computes in.
func TestLowestPassesShareScratchMemory(t *testing.T) {
	s := scratch{bytes: 110}
	refused := func(bytes int64, lowest bool) {
		t.Helper()
		if err := s.reserveBytes(bytes, lowest); err == nil || err.Code != engine.CodeOverloaded {
			t.Errorf("%d bytes, lowest %t: %v", bytes, lowest, err)
		}
	}
	for _, bytes := range []int64{70, 20} {
		if err := s.reserveBytes(bytes, false); err != nil {
			t.Fatal(err)
		}
	}
	refused(41, true)
	if err := s.reserveBytes(40, true); err != nil {
		t.Fatal(err)
	}
	refused(0, true)
	refused(71, false)
	s.releaseBytes(70, false)
	s.releaseBytes(40, true)
	if err := s.reserveBytes(90, true); err != nil {
		t.Fatal(err)
	}
	if at := s.kvBlock(1, 20, true); at.Off != 60 {
		t.Errorf("the second of its blocks is at %d", at.Off)
	}
	s.releaseBytes(90, true)

	m := newModel(t, "qwen2", ref.New(), Options{MaxLen: 64, BlockTokens: 16, MaxItems: 4, SpareRows: 64, ChunkRows: 16})
	item := wire.TokenItem{Tokens: goldenPrompt(16, m.spec.Vocab), Ask: engine.Ask{Top: 1}}
	for _, bad := range []wire.TokenItem{{}, item} { // one of which all items are refused gives its place back, too
		p, err := m.Begin(lowestRun(bad))
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Begin(lowestRun(item))
		if full := (*engine.Error)(nil); !errors.As(err, &full) || full.Code != engine.CodeOverloaded {
			t.Errorf("a second lowest pass: %v", err)
		}
		p.Close()
	}
}
