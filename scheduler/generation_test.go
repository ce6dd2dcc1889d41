package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// generators is a world in which jobs that generate keep one executor busy, and what they got.
type generators struct {
	*world
	run    *wire.Run
	parked map[wire.PassID]*wire.Run
	passes int                  // started so far
	tokens map[engine.JobID]int // of each that generates
	ended  map[engine.JobID]int // passes started when a job ended
}

// startGenerators submits jobs that generate more than any test takes.
func startGenerators(t *testing.T, cfg Config, n int, info llm) *generators {
	g := &generators{world: newWorld(t, cfg), parked: map[wire.PassID]*wire.Run{}, tokens: map[engine.JobID]int{}, ended: map[engine.JobID]int{}}
	g.frontend("web")
	g.follow(g.executor("cpu", 1, info))
	for i := range n {
		user := "many"
		if i == 0 {
			user = "one"
		}
		g.ask(&submission{Job: engine.JobID(1000 + i), Tokens: tokens(i, 12), MaxTokens: 4000, User: user})
	}
	return g
}

func (g *generators) ask(m *submission) { g.follow(g.submit("web", m)) }

// follow obeys what the Core says.
func (g *generators) follow(out []Envelope) {
	for _, r := range results(out) {
		if r.Err != nil {
			g.t.Fatalf("job %v: %v", r.Job, r.Err)
		}
		if r.Finish == engine.FinishNone {
			g.tokens[r.Job]++
		} else {
			g.ended[r.Job] = g.passes
		}
	}
	if begun := runs(out); len(begun) > 0 {
		g.run = begun[0]
		g.passes++
	}
	for _, m := range pick[*wire.Resume](out) {
		g.run = g.parked[m.Pass]
	}
	for _, m := range pick[*wire.Pause](out) {
		if generates(g.run) {
			g.t.Fatalf("a pass in which there is one that generates is paused: %s", describeMessage(g.run))
		}
		g.parked[m.Pass] = g.run
		g.follow(g.step("cpu", &wire.Paused{Pass: m.Pass}))
	}
}

// generates says whether a pass has jobs that go on from a token.
func generates(run *wire.Run) bool {
	return slices.ContainsFunc(parts(run), func(it part) bool { return it.Draw > 0 })
}

// pass ends the running pass, which takes what its tokens do.
func (g *generators) pass() {
	rows := newRowsOf(g.run)
	took := 2*time.Millisecond + time.Duration(rows)*time.Millisecond/10
	g.now += took
	g.follow(g.step("cpu", answer(g.run, took)))
}

// warm runs until n jobs have a token, and returns how many they have.
func (g *generators) warm(n int) map[engine.JobID]int {
	for len(g.tokens) < n {
		g.pass()
	}
	return maps.Clone(g.tokens)
}

// spread is by how many tokens those that generate differ since before.
func (g *generators) spread(before map[engine.JobID]int) int {
	least, most := 1<<30, 0
	for id, n := range before {
		least, most = min(least, g.tokens[id]-n), max(most, g.tokens[id]-n)
	}
	return most - least
}

// eachWay runs a test under every policy, with and without fairness among users and packing.
func eachWay(t *testing.T, test func(t *testing.T, cfg Config, info llm)) {
	for _, policy := range Policies() {
		for way, items := range []int{1, 1, 8, 8, 64, 64} {
			cfg := DefaultConfig()
			cfg.Policy, cfg.UserFairness, cfg.MaxPassItems = policy, way%2 == 1, items
			info := executorInfo()
			info.NumBlocks = 200_000
			if items > 1 {
				info.CostBase, info.CostToken = 600*time.Microsecond, 100*time.Microsecond
			}
			t.Run(fmt.Sprintf("%s/users=%v,pack=%d", policy, cfg.UserFairness, items), func(t *testing.T) { test(t, cfg, info) })
		}
	}
}

// TestScoringBesideGeneration holds the bound: a scoring prompt that comes while jobs generate, as many as
// there may be, waits for the pass that runs and for one more at most, whatever the policy. Those share what
// is left: none gets more than two tokens more than another, and all go on.
func TestScoringBesideGeneration(t *testing.T) {
	eachWay(t, func(t *testing.T, cfg Config, info llm) {
		rng := rand.New(rand.NewPCG(1, 8))
		const generating = 20
		g := startGenerators(t, cfg, generating, info)
		before := g.warm(generating)
		waited, from := 0, g.passes
		for i := range 100 {
			id := engine.JobID(1 + i)
			submitted := g.passes
			g.ask(&submission{Job: id, Tokens: tokens(100+i, 1+rng.IntN(100)), MaxTokens: 1, User: "many"})
			for g.ended[id] == 0 {
				g.pass()
			}
			// The pass that it was in is counted, the one that ran when it came is not.
			waited = max(waited, g.ended[id]-submitted-1)
			for range rng.IntN(4) {
				g.pass()
			}
		}
		if waited > 1 {
			t.Errorf("a scoring prompt waited for %d passes beside the one that ran, want 1 at most", waited)
		}
		spread := g.spread(before)
		if cfg.UserFairness {
			delete(before, 1000) // a user's only one
			spread = g.spread(before)
		}
		if spread > 2 {
			t.Errorf("those that generate got between %v tokens, a difference of %d", g.tokens, spread)
		}
		turns := (g.passes - from) / 2 // those of every other pass, at least
		if cfg.UserFairness {
			turns /= 2 // and half of these are the other user's
		}
		if got := g.tokens[1001] - before[1001]; got < turns/generating {
			t.Errorf("one that generates got %d tokens in %d passes, want %d", got, g.passes-from, turns/generating)
		}
	})
}

// TestGenerationBesideScoring has scoring prompts wait at all times: those that generate still have a token
// in one of two passes, and they share those.
func TestGenerationBesideScoring(t *testing.T) {
	eachWay(t, func(t *testing.T, cfg Config, info llm) {
		rng := rand.New(rand.NewPCG(2, 8))
		const generating = 20
		g := startGenerators(t, cfg, generating, info)
		before := g.warm(generating)
		without, next, last := 0, 0, 0
		for range 200 {
			for len(g.core.jobs) < generating+10 {
				next++
				g.ask(&submission{Job: engine.JobID(10_000 + next), Tokens: tokens(next, 1+rng.IntN(1000)), MaxTokens: 1, User: "scores"})
			}
			switch started := g.passes > last; {
			case generates(g.run):
				without = 0
			case started:
				without++
			}
			last = g.passes
			if without > 1 {
				t.Fatalf("%d passes without one that generates, the last one is %s", without, describeMessage(g.run))
			}
			g.pass()
		}
		if cfg.UserFairness {
			delete(before, 1000)
		}
		if spread := g.spread(before); spread > 2 {
			t.Errorf("those that generate got %v tokens, a difference of %d", g.tokens, spread)
		}
	})
}

// TestScoringBesideBlockedGeneration has far more jobs ask for pages than there are: those without do not
// hold up a scoring prompt, which needs none.
func TestScoringBesideBlockedGeneration(t *testing.T) {
	eachWay(t, func(t *testing.T, cfg Config, info llm) {
		info.NumBlocks = 5 * 1003 // each needs 1,003
		g := startGenerators(t, cfg, 100, info)
		for range 40 {
			g.pass()
		}
		for i := range 20 {
			id, submitted := engine.JobID(1+i), g.passes
			g.ask(&submission{Job: id, Tokens: tokens(200+i, 100), MaxTokens: 1})
			for g.ended[id] == 0 {
				if g.pass(); g.passes > submitted+2 {
					t.Fatalf("a scoring prompt still waits after %d passes", g.passes-submitted)
				}
			}
		}
	})
}

// TestFairGenerationAmongUsers has more jobs generate than a pass may hold: with fairness among users, one
// who has a single job gets as many tokens as one with 19 gets for all of those.
func TestFairGenerationAmongUsers(t *testing.T) {
	cfg := DefaultConfig()
	cfg.UserFairness, cfg.MaxPassItems = true, 2
	info := executorInfo()
	info.NumBlocks = 200_000
	g := startGenerators(t, cfg, 20, info)
	g.warm(20)
	from := g.tokens[1000]
	for range 190 {
		g.pass()
	}
	if got := g.tokens[1000] - from; got < 185 {
		t.Errorf("the single job got %d tokens in 190 passes of two", got)
	}
}

// TestAllThatGeneratePackTogether: those in a pass wait for the next one too, so that it is worth taking the
// last few along, whatever an empty pass costs.
func TestAllThatGeneratePackTogether(t *testing.T) {
	info := executorInfo()
	info.NumBlocks = 200_000
	info.CostBase, info.CostToken = 200*time.Microsecond, 100*time.Microsecond
	g := startGenerators(t, DefaultConfig(), 60, info)
	g.warm(60)
	g.pass()
	if n := len(g.run.Items); n != 60 {
		t.Errorf("a pass has %d of 60 that generate", n)
	}
}
