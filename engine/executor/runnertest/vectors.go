package runnertest

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// vectors is the kind of models that give nothing else of a prompt.
var vectors = kind{
	name:  "vectors",
	work:  func(s *subject, size, salt int) wire.ItemWork { return s.vectorItem(size, salt, engine.PoolMean) },
	bad:   (*subject).badVectors,
	tests: []test{{"vectors", testVectors}},
}

func (s *subject) vectorItem(n, salt int, way engine.Pool) *wire.TokenItem {
	return &wire.TokenItem{Tokens: s.promptTokens(n, salt), Ask: engine.Ask{Pool: way}}
}

// badVectors are those of tokens, and asks that the model cannot answer.
func (s *subject) badVectors() map[string]bad {
	all := s.badTokens()
	all["a token and no vector"] = bad{s.tokenItem(20, 1), nil}
	if s.model.Tokens.Labels == 0 {
		it := s.vectorItem(20, 1, engine.PoolMean)
		it.Ask.Head = true
		all["no head"] = bad{it, []string{"head"}}
	}
	return all
}

// testVectors: the poolings of a prompt's states are what they are called, and the head gives as many logits as it has
// labels.
func testVectors(s *subject) {
	l := s.model.Tokens
	const n = 40
	of := func(way engine.Pool) []float32 { return s.runTokens(s.vectorItem(n, 1, way)).Vector }
	states := slices.Collect(slices.Chunk(of(engine.PoolAll), l.Hidden))
	if len(states) != min(n, l.MaxModelLen-1) || len(states[len(states)-1]) != l.Hidden {
		s.Fatalf("%d vectors of %d tokens, the last of %d numbers, want %d", len(states), n, len(states[len(states)-1]), l.Hidden)
	}
	if !slices.Equal(of(engine.PoolFirst), states[0]) || !slices.Equal(of(engine.PoolLast), states[len(states)-1]) {
		s.Error("the first or the last token's vector is none of all tokens'")
	}
	largest := slices.Clone(states[0])
	for _, state := range states {
		for i, v := range state {
			largest[i] = max(largest[i], v)
		}
	}
	if !slices.Equal(of(engine.PoolMax), largest) {
		s.Error("the largest numbers are not those of all tokens")
	}
	if l.Labels > 0 {
		it := s.vectorItem(n, 1, engine.PoolFirst)
		it.Ask.Head = true
		if got := s.runTokens(it).Vector; len(got) != l.Labels {
			s.Errorf("%d logits, want %d", len(got), l.Labels)
		}
	}
}
