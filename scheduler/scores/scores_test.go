package scores

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

// scored is what a model says of a prompt: of each token a number of all up to it.
func scored(tokens []engine.TokenID, top int) []engine.PromptScore {
	sum, list := float32(tokens[0]), []engine.PromptScore{}
	for _, id := range tokens[1:] {
		sum = sum*31 + float32(id)
		s := engine.PromptScore{Logprob: -sum, Rank: uint32(id)}
		for k := range top {
			s.Top = append(s.Top, engine.TokenLogprob{ID: uint32(k), Logprob: sum})
		}
		list = append(list, s)
	}
	return list
}

// TestJoined: whatever is kept, and however little room there is, what is known and what is computed behind it are
// together what the model says.
func TestJoined(t *testing.T) {
	random, used := rand.New(rand.NewPCG(1, 2)), 0
	for _, limit := range []int64{0, 2000, 20_000, 1 << 30} {
		c := New(limit)
		var hasher kvcache.Hasher
		for range 2000 {
			block := []int{4, 16}[random.IntN(2)]
			tokens := make([]engine.TokenID, 1+random.IntN(60))
			for i := range tokens {
				tokens[i] = uint32(random.IntN(2)) // so that prefixes are shared
			}
			model, top := []string{"a", "b"}[random.IntN(2)], random.IntN(4)
			chain := hasher.Chain(tokens, block, kvcache.Keys{Salt: string(rune('0' + block))})
			known := c.Known(model, chain, top)
			want := scored(tokens, top)
			from := max(1, len(known)*block)
			rest := want[min(from-1, len(want)):]
			if got := Join(known, top, rest); len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(clean(got), clean(want)) {
				t.Fatalf("limit %d, %d tokens, %d blocks known of %d: %v, want %v", limit, len(tokens), len(known), block, got, want)
			}
			used += len(known)
			c.Add(model, chain, block, from, top, rest)
			if c.bytes > limit || c.bytes < 0 || len(c.blocks) != c.recent.Len() {
				t.Fatalf("%d bytes in %d blocks, the limit is %d", c.bytes, len(c.blocks), limit)
			}
		}
	}
	if used < 1000 {
		t.Errorf("only %d blocks were ever known", used)
	}
}

// clean makes empty lists of the likeliest nil.
func clean(list []engine.PromptScore) []engine.PromptScore {
	list = append([]engine.PromptScore(nil), list...)
	for i := range list {
		if len(list[i].Top) == 0 {
			list[i].Top = nil
		}
	}
	return list
}
