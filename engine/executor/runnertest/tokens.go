package runnertest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

var tokens = kind{
	name: "tokens",
	work: func(s *subject, size, salt int) wire.ItemWork { return s.tokenItem(size, salt) },
	bad:  (*subject).badTokens,
	tests: []test{
		{"answers", testAnswers},
		{"all but one", testAllButOne},
		{"same bits cached", testCached},
		{"same bits going on", testGenerated},
		{"same bits from parts of blocks", testParts},
		{"same bits loaded", testLoaded},
		{"no such pages", testNoSuchPages},
		{"prompt logprobs", testPrompt},
	},
}

// promptTokens makes n tokens that differ with salt.
func (s *subject) promptTokens(n, salt int) []engine.TokenID {
	l := s.model.Tokens
	ids := make([]engine.TokenID, min(n, l.MaxModelLen-1))
	for i := range ids {
		ids[i] = engine.TokenID((i*31 + salt*17 + 3) % l.VocabSize)
	}
	return ids
}

func (s *subject) tokenItem(n, salt int) *wire.TokenItem {
	last := engine.TokenID(s.model.Tokens.VocabSize - 1)
	return &wire.TokenItem{Tokens: s.promptTokens(n, salt), Ask: engine.Ask{Top: 5, Labels: []engine.TokenID{last, 0}}}
}

// itemOf makes an item.
func itemOf(salt int, it *wire.TokenItem) wire.RunItem {
	return wire.RunItem{Job: engine.JobID(salt), Work: it}
}

// runTokens runs an item, to its output.
func (s *subject) runTokens(it *wire.TokenItem) *engine.TokenOutput {
	s.Helper()
	return s.run(itemOf(1, it))[0].output.(*engine.TokenOutput)
}

func testAnswers(s *subject) {
	it := s.tokenItem(40, 1)
	vocab := s.model.Tokens.VocabSize
	a := s.runTokens(it).Answer
	if a == nil || int(a.Token) >= vocab || a.Logprob > 0 {
		s.Fatalf("Answer = %+v", a)
	}
	if len(a.Top) != 5 || !slices.IsSortedFunc(a.Top, byRank) {
		s.Errorf("Top = %v, want 5 entries, likeliest first, ties by lower id", a.Top)
	}
	if len(a.Labels) != 2 || a.Labels[0].ID != it.Ask.Labels[0] || a.Labels[1].ID != it.Ask.Labels[1] {
		s.Errorf("Labels = %v, want those asked, in their order", a.Labels)
	}
	it.Ask.Allowed = engine.NewTokenSet(1, engine.TokenID(vocab-1))
	it.Ask.Top = 2
	a = s.runTokens(it).Answer
	sum := 0.0
	for _, e := range a.Top {
		sum += math.Exp(float64(e.Logprob))
	}
	if !it.Ask.Allowed.Has(a.Token) || math.Abs(sum-1) > 1e-4 {
		s.Errorf("with two tokens allowed: %+v, probabilities sum to %v", a, sum)
	}
}

// testAllButOne allows nearly all tokens: the likeliest one alone may not come.
func testAllButOne(s *subject) {
	it := s.tokenItem(40, 1)
	first := s.runTokens(it).Answer.Token
	all := make([]engine.TokenID, 0, s.model.Tokens.VocabSize)
	for id := range engine.TokenID(s.model.Tokens.VocabSize) {
		if id != first {
			all = append(all, id)
		}
	}
	it.Ask.Allowed = engine.NewTokenSet(all...)
	a := s.runTokens(it).Answer
	if a.Token == first || slices.ContainsFunc(a.Top, func(e engine.TokenLogprob) bool { return e.ID == first }) {
		s.Errorf("with all tokens allowed but %d: %+v", first, a)
	}
}

func byRank(a, b engine.TokenLogprob) int {
	switch {
	case a.Logprob != b.Logprob && a.Logprob > b.Logprob:
		return -1
	case a.Logprob != b.Logprob:
		return 1
	}
	return int(a.ID) - int(b.ID)
}

// testCached fills blocks by one pass and reads them in another.
func testCached(s *subject) {
	l := s.model.Tokens
	if l.NumBlocks < 3 || l.MaxModelLen < 2*l.BlockTokens+10 {
		return
	}
	it := s.tokenItem(2*l.BlockTokens+7, 1)
	want := s.run(itemOf(1, it))
	it.Blocks = []wire.BlockID{2, 0}
	s.expectEqual("filling blocks", s.run(itemOf(1, it)), want)
	it.Cached = 2 * l.BlockTokens
	s.expectEqual("cached", s.run(itemOf(1, it)), want)
	it.From, it.Tokens = it.Cached, it.Tokens[it.Cached:]
	s.expectEqual("cached, which is left out", s.run(itemOf(1, it)), want)
}

// testGenerated goes on from generated tokens: with all of the sequence, and with what is computed and what bans look
// at.
func testGenerated(s *subject) {
	l := s.model.Tokens
	if l.NumBlocks < 3 || l.MaxModelLen < 2*l.BlockTokens+10 {
		return
	}
	it := s.tokenItem(2*l.BlockTokens+7, 1)
	n := len(it.Tokens)
	it.Draw, it.Ask.Temperature, it.Ask.Seed = 5, 1, 7
	chosen := s.runTokens(it).Answer.Token
	it.Ask.Bans = []engine.Ban{{Tokens: []engine.TokenID{it.Tokens[n-2], it.Tokens[n-1], chosen}}, {Tokens: []engine.TokenID{(chosen + 1) % engine.TokenID(l.VocabSize)}, Before: 5}}
	want := s.run(itemOf(1, it))
	it.Blocks = []wire.BlockID{2, 0, 1}
	s.expectEqual("filling blocks", s.run(itemOf(1, it)), want)
	for from := range 3 {
		last := *it
		last.From, last.Cached = n-2-from, n-1
		last.Tokens = it.Tokens[last.From:]
		s.expectEqual("going on", s.run(itemOf(1, &last)), want)
	}
}

// testParts reads the beginning of a block that another prompt has filled and went on in otherwise: into
// a page, into memory that is dropped, and for several prompts in one pass.
func testParts(s *subject) {
	l := s.model.Tokens
	if !l.CopiesParts {
		return
	}
	s.needBlocks(4, l.NumBlocks)
	filler := s.tokenItem(2*l.BlockTokens+7, 1)
	filler.Blocks = []wire.BlockID{2, 0, 3}
	s.run(itemOf(1, filler))
	shared := l.BlockTokens + l.BlockTokens/2 + 1
	var cold, warm []wire.RunItem
	for i := range 3 {
		whole := s.tokenItem(shared+5, 2+i)
		copy(whole.Tokens, filler.Tokens[:shared])
		cold = append(cold, itemOf(i, whole))
		part := *whole
		part.Cached, part.Blocks = shared, []wire.BlockID{2, 1}[:1+i%2]
		part.Part = wire.Part{Block: 0, Tokens: shared - l.BlockTokens}
		part.From = i * shared / 2 // of nothing to all that is cached
		part.Tokens = whole.Tokens[part.From:]
		warm = append(warm, itemOf(i, &part))
	}
	want := s.run(cold...)
	for i := range warm {
		s.expectEqual("over a part", s.run(warm[i]), want[i:i+1])
	}
	s.expectEqual("three over one part", s.run(warm...), want)
	filled := *cold[1].Work.(*wire.TokenItem)
	filled.Blocks, filled.Cached = []wire.BlockID{2, 1}, len(filled.Tokens)-1
	s.expectEqual("over the block that the part went to", s.run(itemOf(1, &filled)), want[1:2])
}

// needBlocks ends a test that the model has too few blocks for.
func (s *subject) needBlocks(least int, have ...int) {
	s.Helper()
	if l := s.model.Tokens; slices.Min(have) < least || l.MaxModelLen < 2*l.BlockTokens+10 {
		s.Fatalf("limits %+v: too few blocks to tell", l)
	}
}

// testLoaded moves a prompt's blocks to host memory, overwrites them, and loads them into other ones.
func testLoaded(s *subject) {
	l := s.model.Tokens
	if l.HostBlocks == 0 {
		return
	}
	s.needBlocks(4, l.NumBlocks, l.HostBlocks+1)
	it := s.tokenItem(2*l.BlockTokens+7, 1)
	want := s.run(itemOf(1, it))
	it.Blocks = []wire.BlockID{2, 0}
	s.run(itemOf(1, it))
	saver := s.r.(executor.Saver)
	if err := saver.Save(s.model.Name, []wire.Copy{{Device: 0, Host: 1}, {Device: 2, Host: 2}}); err != nil {
		s.Fatal(err)
	}
	other := s.tokenItem(2*l.BlockTokens+7, 2)
	other.Blocks = it.Blocks
	s.run(itemOf(1, other))
	it.Blocks, it.Cached = []wire.BlockID{1, 3}, 2*l.BlockTokens
	loads := []wire.Copy{{Device: 1, Host: 2}, {Device: 3, Host: 1}}
	p, err := s.r.Begin(&wire.Run{Pass: 1, Model: s.model.Name, Loads: loads, Items: []wire.RunItem{itemOf(1, it)}})
	if err != nil {
		s.Fatal(err)
	}
	defer p.Close()
	s.expectEqual("loaded", s.stepToEnd(p), want)
}

// testNoSuchPages copies pages that there are not.
func testNoSuchPages(s *subject) {
	l := s.model.Tokens
	saver, ok := s.r.(executor.Saver)
	if !ok || l.HostBlocks == 0 {
		return
	}
	for _, c := range []wire.Copy{{Device: wire.BlockID(l.NumBlocks)}, {Host: wire.BlockID(l.HostBlocks)}} {
		want := fmt.Sprintf("block %d of %d and page %d of %d", c.Device, l.NumBlocks, c.Host, l.HostBlocks)
		if err := saver.Save(s.model.Name, []wire.Copy{c}); err == nil || !strings.Contains(err.Error(), want) {
			s.Errorf("saving %+v: %v, want an error with %q", c, err, want)
		}
		p, err := s.r.Begin(&wire.Run{Pass: 1, Model: s.model.Name, Loads: []wire.Copy{c}, Items: []wire.RunItem{s.item(5, 1)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			s.Errorf("loading %+v: %v, want an error with %q", c, err, want)
		}
		if err == nil {
			p.Close()
		}
	}
}

func testPrompt(s *subject) {
	it := s.tokenItem(30, 1)
	it.Ask.PromptLogprobs, it.Ask.PromptTop = true, 3
	scores := s.runTokens(it).Prompt
	if len(scores) != len(it.Tokens)-1 {
		s.Fatalf("%d prompt scores for %d tokens", len(scores), len(it.Tokens))
	}
	for i, score := range scores {
		if score.Logprob > 0 || len(score.Top) != 3 || !slices.IsSortedFunc(score.Top, byRank) {
			s.Errorf("score %d = %+v, want a logprob and 3 entries in order", i, score)
		}
	}
}

// badTokens are items that are not within the limits, with the figures that the refusal tells.
func (s *subject) badTokens() map[string]bad {
	l := s.model.Tokens
	change := func(f func(it *wire.TokenItem)) *wire.TokenItem {
		it := s.kind.work(s, 20, 1).(*wire.TokenItem)
		f(it)
		return it
	}
	figures := func(n ...int) (list []string) {
		for _, n := range n {
			list = append(list, fmt.Sprint(n))
		}
		return list
	}
	reach := 20 + l.BlockTokens
	list := map[string]bad{
		"too long":               {change(func(it *wire.TokenItem) { it.Tokens = make([]engine.TokenID, l.MaxModelLen+1) }), figures(l.MaxModelLen+1, l.MaxModelLen)},
		"no tokens":              {change(func(it *wire.TokenItem) { it.Tokens = nil }), nil},
		"outside the vocabulary": {change(func(it *wire.TokenItem) { it.Tokens[7] = engine.TokenID(l.VocabSize) }), figures(l.VocabSize, 7)},
		"all cached":             {change(func(it *wire.TokenItem) { it.Cached = len(it.Tokens) }), figures(20)},
		"left out":               {change(func(it *wire.TokenItem) { it.From, it.Tokens = 3, it.Tokens[3:] }), figures(20, 3)},
		"cached beyond blocks":   {change(func(it *wire.TokenItem) { it.Tokens, it.Cached = s.promptTokens(reach+1, 1), reach }), figures(reach, l.BlockTokens)},
		"no such block":          {change(func(it *wire.TokenItem) { it.Blocks = []wire.BlockID{wire.BlockID(l.NumBlocks)} }), figures(l.NumBlocks)},
		"tensors and no tokens":  {&wire.TensorItem{}, []string{"TensorItem"}},
	}
	if !l.VectorsOnly {
		list["banned by what is left out"] = bad{change(func(it *wire.TokenItem) {
			it.Draw, it.Ask.Bans = 7, []engine.Ban{{Tokens: make([]engine.TokenID, 22)}}
			it.From, it.Cached, it.Tokens = 14, 14, it.Tokens[14:]
			it.Blocks = make([]wire.BlockID, (14+l.BlockTokens-1)/l.BlockTokens)
		}), figures(20, 14, 7, 21)}
	}
	return list
}
