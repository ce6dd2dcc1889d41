// Package runnertest is the suite that every executor.Runner passes.
package runnertest

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Run tests the runner that open returns; it opens one for each test and closes it.
func Run(t *testing.T, open func(t *testing.T) executor.Runner) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, r executor.Runner)
	}{
		{"info", testInfo},
		{"answers", testAnswers},
		{"layers count up", testLayers},
		{"same bits again", testRepeatable},
		{"same bits packed", testPacked},
		{"same bits interleaved", testInterleaved},
		{"same bits cached", testCached},
		{"same bits from parts of blocks", testParts},
		{"same bits loaded", testLoaded},
		{"dropped pass", testDropped},
		{"prompt logprobs", testPrompt},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := open(t)
			defer r.Close()
			c.test(t, r)
		})
	}
}

// prompt makes n tokens that differ with salt.
func prompt(info wire.ExecutorInfo, n, salt int) []engine.TokenID {
	ids := make([]engine.TokenID, min(n, info.MaxModelLen-1))
	for i := range ids {
		ids[i] = engine.TokenID((i*31 + salt*17 + 3) % info.VocabSize)
	}
	return ids
}

func item(info wire.ExecutorInfo, n, salt int) wire.RunItem {
	last := engine.TokenID(info.VocabSize - 1)
	return wire.RunItem{Job: engine.JobID(salt), Tokens: prompt(info, n, salt), Ask: engine.Ask{Top: 5, Labels: []engine.TokenID{last, 0}}}
}

func begin(t *testing.T, r executor.Runner, items ...wire.RunItem) executor.Pass {
	t.Helper()
	p, err := r.Begin(&wire.Run{Pass: 1, Items: items})
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return p
}

// step steps p at most n times and reports whether it ended.
func step(t *testing.T, p executor.Pass, n int) bool {
	t.Helper()
	for range n {
		done, err := p.Step()
		if err != nil {
			t.Fatalf("Step: %v", err)
		}
		if done {
			return true
		}
	}
	return false
}

// maxLayers is more than any model has.
const maxLayers = 1000

func run(t *testing.T, r executor.Runner, items ...wire.RunItem) []wire.ItemResult {
	t.Helper()
	p := begin(t, r, items...)
	defer p.Close()
	if !step(t, p, maxLayers) {
		t.Fatalf("the pass did not end after %d steps", maxLayers)
	}
	results := p.Results()
	if len(results) != len(items) {
		t.Fatalf("%d results for %d items", len(results), len(items))
	}
	for i := range results {
		if results[i].Job != items[i].Job || results[i].Err != nil {
			t.Fatalf("result %d is of job %v with error %v, want job %v", i, results[i].Job, results[i].Err, items[i].Job)
		}
	}
	return results
}

func testInfo(t *testing.T, r executor.Runner) {
	info := r.Info()
	if info.Device == "" || info.Model == "" || info.Fingerprint == "" {
		t.Errorf("Info = %+v, want a device, a model and a fingerprint", info)
	}
	if info.VocabSize < 2 || info.MaxModelLen < 2 || info.BlockTokens < 1 || info.NumBlocks < 0 || info.MaxPassRows < 1 {
		t.Errorf("Info = %+v, want sizes", info)
	}
	if !reflect.DeepEqual(info, r.Info()) {
		t.Error("Info changed between two calls")
	}
}

func testAnswers(t *testing.T, r executor.Runner) {
	it := item(r.Info(), 40, 1)
	a := run(t, r, it)[0].Answer
	if a == nil || int(a.Token) >= r.Info().VocabSize || a.Logprob > 0 {
		t.Fatalf("Answer = %+v", a)
	}
	if len(a.Top) != 5 || !slices.IsSortedFunc(a.Top, byRank) {
		t.Errorf("Top = %v, want 5 entries, likeliest first, ties by lower id", a.Top)
	}
	if len(a.Labels) != 2 || a.Labels[0].ID != it.Ask.Labels[0] || a.Labels[1].ID != it.Ask.Labels[1] {
		t.Errorf("Labels = %v, want those asked, in their order", a.Labels)
	}
	it.Ask.Allowed = []engine.TokenID{1, engine.TokenID(r.Info().VocabSize - 1)}
	it.Ask.Top = 2
	a = run(t, r, it)[0].Answer
	sum := 0.0
	for _, e := range a.Top {
		sum += math.Exp(float64(e.Logprob))
	}
	if !slices.Contains(it.Ask.Allowed, a.Token) || math.Abs(sum-1) > 1e-4 {
		t.Errorf("with two tokens allowed: %+v, probabilities sum to %v", a, sum)
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

func testLayers(t *testing.T, r executor.Runner) {
	p := begin(t, r, item(r.Info(), 20, 1))
	defer p.Close()
	for want := range maxLayers {
		if p.Layer() != want {
			t.Fatalf("Layer = %d after %d steps", p.Layer(), want)
		}
		if step(t, p, 1) {
			if told := r.Info().Layers; told != 0 && p.Layer() != told {
				t.Errorf("the pass has %d layers, Info tells of %d", p.Layer(), told)
			}
			return
		}
	}
	t.Fatalf("the pass did not end after %d steps", maxLayers)
}

func testRepeatable(t *testing.T, r executor.Runner) {
	it := item(r.Info(), 60, 1)
	first := run(t, r, it)
	run(t, r, item(r.Info(), 33, 2))
	if again := run(t, r, it); !reflect.DeepEqual(first, again) {
		t.Errorf("again %+v, first %+v", again, first)
	}
}

func testPacked(t *testing.T, r executor.Runner) {
	items := []wire.RunItem{item(r.Info(), 5, 1), item(r.Info(), 60, 2), item(r.Info(), 1, 3)}
	together := run(t, r, items...)
	for i := range items {
		if alone := run(t, r, items[i]); !reflect.DeepEqual(alone[0], together[i]) {
			t.Errorf("item %d alone %+v, packed %+v", i, alone[0].Answer, together[i].Answer)
		}
	}
}

// testInterleaved steps two passes in turn, as a pre-emption does.
func testInterleaved(t *testing.T, r executor.Runner) {
	if !r.Info().CanPause {
		return
	}
	a, b := item(r.Info(), 50, 1), item(r.Info(), 20, 2)
	wantA, wantB := run(t, r, a), run(t, r, b)
	pa := begin(t, r, a)
	defer pa.Close()
	doneA := step(t, pa, 1)
	pb := begin(t, r, b)
	defer pb.Close()
	step(t, pb, maxLayers)
	if !doneA {
		step(t, pa, maxLayers)
	}
	if got := pa.Results(); !reflect.DeepEqual(got, wantA) {
		t.Errorf("paused %+v, at a stretch %+v", got, wantA)
	}
	if got := pb.Results(); !reflect.DeepEqual(got, wantB) {
		t.Errorf("in between %+v, alone %+v", got, wantB)
	}
}

// testCached fills blocks by one pass and reads them in another.
func testCached(t *testing.T, r executor.Runner) {
	info := r.Info()
	if info.NumBlocks < 3 || info.MaxModelLen < 2*info.BlockTokens+10 {
		return
	}
	it := item(info, 2*info.BlockTokens+7, 1)
	want := run(t, r, it)
	it.Blocks = []wire.BlockID{2, 0}
	if cold := run(t, r, it); !reflect.DeepEqual(cold, want) {
		t.Errorf("filling blocks %+v, without %+v", cold, want)
	}
	it.Cached = 2 * info.BlockTokens
	if warm := run(t, r, it); !reflect.DeepEqual(warm, want) {
		t.Errorf("cached %+v, cold %+v", warm, want)
	}
}

// testParts reads the beginning of a block that another prompt has filled and went on in otherwise: into
// a page, into memory that is dropped, and for several prompts in one pass.
func testParts(t *testing.T, r executor.Runner) {
	info := r.Info()
	if !info.CopiesParts {
		return
	}
	if info.NumBlocks < 4 || info.MaxModelLen < 2*info.BlockTokens+10 {
		t.Fatalf("Info = %+v: too few blocks to tell", info)
	}
	filler := item(info, 2*info.BlockTokens+7, 1)
	filler.Blocks = []wire.BlockID{2, 0, 3}
	run(t, r, filler)
	shared := info.BlockTokens + info.BlockTokens/2 + 1
	var cold, warm []wire.RunItem
	for i := range 3 {
		it := item(info, shared+5, 2+i)
		copy(it.Tokens, filler.Tokens[:shared])
		cold = append(cold, it)
		it.Cached, it.Blocks = shared, []wire.BlockID{2, 1}[:1+i%2]
		it.Part = wire.Part{Block: 0, Tokens: shared - info.BlockTokens}
		warm = append(warm, it)
	}
	want := run(t, r, cold...)
	for i := range warm {
		if got := run(t, r, warm[i]); !reflect.DeepEqual(got[0], want[i]) {
			t.Errorf("prompt %d over a part %+v, cold %+v", i, got[0], want[i])
		}
	}
	if got := run(t, r, warm...); !reflect.DeepEqual(got, want) {
		t.Errorf("three over one part %+v, cold %+v", got, want)
	}
	filled := cold[1]
	filled.Blocks, filled.Cached = []wire.BlockID{2, 1}, len(filled.Tokens)-1
	if got := run(t, r, filled); !reflect.DeepEqual(got[0], want[1]) {
		t.Errorf("over the block that the part went to %+v, cold %+v", got[0], want[1])
	}
}

// testLoaded moves a prompt's blocks to host memory, overwrites them, and loads them into other ones.
func testLoaded(t *testing.T, r executor.Runner) {
	info := r.Info()
	if info.HostBlocks == 0 {
		return
	}
	if info.HostBlocks < 3 || info.NumBlocks < 4 || info.MaxModelLen < 2*info.BlockTokens+10 {
		t.Fatalf("Info = %+v: too few blocks to tell", info)
	}
	it := item(info, 2*info.BlockTokens+7, 1)
	want := run(t, r, it)
	it.Blocks = []wire.BlockID{2, 0}
	run(t, r, it)
	if err := r.(executor.Saver).Save([]wire.Copy{{Device: 0, Host: 1}, {Device: 2, Host: 2}}); err != nil {
		t.Fatal(err)
	}
	other := item(info, 2*info.BlockTokens+7, 2)
	other.Blocks = it.Blocks
	run(t, r, other)
	it.Blocks, it.Cached = []wire.BlockID{1, 3}, 2*info.BlockTokens
	p, err := r.Begin(&wire.Run{Pass: 1, Loads: []wire.Copy{{Device: 1, Host: 2}, {Device: 3, Host: 1}}, Items: []wire.RunItem{it}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !step(t, p, maxLayers) {
		t.Fatalf("the pass did not end after %d steps", maxLayers)
	}
	if got := p.Results(); !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v, cold %+v", got, want)
	}
}

func testDropped(t *testing.T, r executor.Runner) {
	it := item(r.Info(), 30, 1)
	want := run(t, r, it)
	p := begin(t, r, item(r.Info(), 40, 2))
	step(t, p, 1)
	p.Close()
	if got := run(t, r, it); !reflect.DeepEqual(got, want) {
		t.Errorf("after a dropped pass %+v, before %+v", got, want)
	}
}

func testPrompt(t *testing.T, r executor.Runner) {
	it := item(r.Info(), 30, 1)
	it.Ask.PromptLogprobs, it.Ask.PromptTop = true, 3
	scores := run(t, r, it)[0].Prompt
	if len(scores) != len(it.Tokens)-1 {
		t.Fatalf("%d prompt scores for %d tokens", len(scores), len(it.Tokens))
	}
	for i, s := range scores {
		if s.Logprob > 0 || len(s.Top) != 3 || !slices.IsSortedFunc(s.Top, byRank) {
			t.Errorf("score %d = %+v, want a logprob and 3 entries in order", i, s)
		}
	}
}
