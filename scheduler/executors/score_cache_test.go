package executors

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

// modelScores is what a model says of a prompt: of each token a number of all up to it.
func modelScores(tokens []engine.TokenID, top int) []engine.PromptScore {
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
		c := NewScoreCache(limit)
		var hasher kvcache.Hasher
		for range 2000 {
			block := []int{4, 16}[random.IntN(2)]
			tokens := make([]engine.TokenID, 1+random.IntN(60))
			for i := range tokens {
				tokens[i] = uint32(random.IntN(2)) // so that prefixes are shared
			}
			model, top := []string{"a", "b"}[random.IntN(2)], random.IntN(4)
			chain := hasher.Chain(tokens, block, string(rune('0'+block)))
			var r ScoreReader
			c.FindScores(&r, model, chain, top, true)
			known := r.Known
			want := modelScores(tokens, top)
			from := max(1, len(known)*block)
			rest := want[min(from-1, len(want)):]
			if got := JoinScores(known, top, rest); len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(cleanScores(got), cleanScores(want)) {
				t.Fatalf("limit %d, %d tokens, %d blocks known of %d: %v, want %v", limit, len(tokens), len(known), block, got, want)
			}
			used += len(known)
			c.AddScores(model, chain, block, from, top, rest)
			if c.bytes > limit || c.bytes < 0 || len(c.blocks) != c.recent.Len() {
				t.Fatalf("%d bytes in %d blocks, the limit is %d", c.bytes, len(c.blocks), limit)
			}
		}
	}
	if used < 1000 {
		t.Errorf("only %d blocks were ever known", used)
	}
}

// cleanScores makes empty lists of the likeliest nil.
func cleanScores(list []engine.PromptScore) []engine.PromptScore {
	list = append([]engine.PromptScore(nil), list...)
	for i := range list {
		if len(list[i].Top) == 0 {
			list[i].Top = nil
		}
	}
	return list
}

// TestTold: whoever waits for a block's scores is told of them once they are there with as many of the likeliest, and has then
// what one has who comes anew.
func TestTold(t *testing.T) {
	random, told := rand.New(rand.NewPCG(3, 4)), 0
	for _, limit := range []int64{0, 2000, 1 << 30} {
		c := NewScoreCache(limit)
		var hasher kvcache.Hasher
		waiting := map[*ScoreReader]bool{}
		for range 2000 {
			tokens := make([]engine.TokenID, 1+random.IntN(40))
			for i := range tokens {
				tokens[i] = uint32(random.IntN(2))
			}
			chain, top := hasher.Chain(tokens, 4, ""), random.IntN(3)
			r := &ScoreReader{}
			c.FindScores(r, "m", chain, top, true)
			if random.IntN(2) == 0 {
				c.AwaitScores(r)
				waiting[r] = true
				continue
			}
			if companion := c.FindCompanion(r, func(*Job) bool { return true }); companion != nil && companion[len(r.Known)] != chain[len(r.Known)] {
				t.Fatal("a companion's first block that is not known is another one")
			}
			from := max(1, len(r.Known)*4)
			for _, w := range c.AddScores("m", chain, 4, from, top, modelScores(tokens, top)[min(from, len(tokens))-1:]) {
				before := len(w.Known)
				c.FindScores(w, "m", w.chain, w.top, false)
				told += len(w.Known) - before
				c.AwaitScores(w)
			}
			for w := range waiting {
				if random.IntN(20) == 0 {
					c.StopAwaiting(w)
					delete(waiting, w)
				} else if !c.IsAwaiting(w) {
					t.Fatalf("with a limit of %d, one who knows %d blocks of %d with %d of the likeliest is not told of the next, which is there", limit, len(w.Known), len(w.chain), w.top)
				}
			}
		}
		for w := range waiting {
			c.StopAwaiting(w)
		}
		if len(c.awaited) != 0 {
			t.Errorf("%d blocks are awaited by none", len(c.awaited))
		}
	}
	if told < 100 {
		t.Errorf("only %d blocks were ever told", told)
	}
}
