package sim

import (
	"iter"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler"
)

// prompt makes n tokens, the first shared ones of which are the same for equal users.
func prompt(user, own, shared, n int) []engine.TokenID {
	tokens := make([]engine.TokenID, n)
	for i := range tokens {
		tokens[i] = engine.TokenID(user*1000 + i%997)
		if i >= shared {
			tokens[i] = engine.TokenID(500_000 + own*1000 + i%997)
		}
	}
	return tokens
}

func run(t *testing.T, config scheduler.Config, executors []Executor, requests ...Request) *Outcome {
	t.Helper()
	out, err := Run(config, executors, slices.Values(requests))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func gpu() Executor {
	return Executor{
		Name: "gpu",
		Model: Model{
			Cost: Cost{Base: 0.1, Token: 0.001}, Layers: 10,
			BlockTokens: 16, NumBlocks: 1000, MaxModelLen: 100_000, MaxPassRows: 512,
		},
	}
}

func config(policy string) scheduler.Config {
	c := scheduler.DefaultConfig()
	c.Policy = policy
	c.MaxPassItems = 1
	return c
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

func near(a, b time.Duration) bool { return (a - b).Abs() < time.Microsecond }

func TestCostOfAPass(t *testing.T) {
	c := Cost{Base: 1, Token: 0.5, Pair: 0.25, Chunk: 4, Extra: 10}
	// 6 tokens in two chunks; 8^2-4^2 = 48 and 2^2 = 4 halves of pairs.
	got := c.Pass([]Item{{Tokens: 8, Cached: 4}, {Tokens: 2}})
	if want := seconds(1 + 3 + 0.25*26 + 10); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if (Cost{}).Pass([]Item{{Tokens: 1}}) <= 0 {
		t.Error("a pass of no cost takes no time: the simulation would not move")
	}
}

func TestQueueingAndCaching(t *testing.T) {
	out := run(t, config("fcfs"), []Executor{gpu()},
		Request{At: 0, Tokens: prompt(1, 1, 160, 200)},
		Request{At: seconds(0.1), Tokens: prompt(1, 2, 160, 200)},
		Request{At: seconds(5), Tokens: prompt(2, 3, 160, 200)},
	)
	first, second := seconds(0.3), seconds(0.3+0.1+0.040)
	for i, want := range []time.Duration{first, second, seconds(5.3)} {
		if got := out.Records[i].Done; !near(got, want) {
			t.Errorf("request %d is done at %v, want %v", i, got, want)
		}
	}
	if out.Records[1].Cached != 160 || out.Records[0].Cached != 0 || out.Records[2].Cached != 0 {
		t.Errorf("cached tokens: %+v", out.Records)
	}
	if !near(out.Busy[0], seconds(0.3+0.14+0.3)) {
		t.Errorf("busy for %v", out.Busy[0])
	}
}

// A pause must stop the long pass at the end of a layer, and the rest of it must still be paid for.
func TestPauseKeepsTheWork(t *testing.T) {
	requests := []Request{
		{At: 0, Tokens: prompt(1, 1, 0, 9900)},
		{At: seconds(2.5), Tokens: prompt(2, 2, 0, 100)},
	}
	out := run(t, config("srpt"), []Executor{gpu()}, requests...)
	// The long pass takes 10 s in 10 layers: it stops at 3 s; the short one takes 0.2 s.
	if got := out.Records[1].Done; !near(got, seconds(3.2)) {
		t.Errorf("the short request is done at %v, want 3.2s", got)
	}
	if got := out.Records[0].Done; !near(got, seconds(10.2)) {
		t.Errorf("the long request is done at %v, want 10.2s", got)
	}
	if out.Stats.Preemptions != 1 || !near(out.Busy[0], seconds(10.2)) {
		t.Errorf("%d pauses, busy for %v", out.Stats.Preemptions, out.Busy[0])
	}
	plain := run(t, config("srjf-calibrated"), []Executor{gpu()}, requests...)
	if got := plain.Records[1].Done; !near(got, seconds(10.2)) {
		t.Errorf("without pauses the short request is done at %v, want 10.2s", got)
	}
}

func TestPipelineOverlapsPasses(t *testing.T) {
	e := gpu()
	e.Stages = 2
	out := run(t, config("fcfs"), []Executor{e},
		Request{At: 0, Tokens: prompt(1, 1, 0, 900)}, Request{At: 0, Tokens: prompt(2, 2, 0, 900)}, Request{At: 0, Tokens: prompt(3, 3, 0, 900)})
	for i, want := range []float64{2, 3, 4} {
		if got := out.Records[i].Done; !near(got, seconds(want)) {
			t.Errorf("request %d is done at %v, want %vs", i, got, want)
		}
	}
}

// A prompt that has left the device comes back from host memory beside what is computed, and what it
// takes the place of goes there before.
func TestCopiesTakeTime(t *testing.T) {
	e := gpu()
	e.NumBlocks, e.HostBlocks, e.CopyBlock = 10, 100, 10*time.Millisecond
	requests := []Request{
		{At: 0, Tokens: prompt(1, 1, 160, 200)},
		{At: seconds(5), Tokens: prompt(2, 2, 160, 200)},
		{At: seconds(10), Tokens: prompt(1, 3, 160, 200)},
	}
	config := config("fcfs")
	config.Eviction = kvcache.EvictLRU
	out := run(t, config, []Executor{e}, requests...)
	// 10 blocks to save in 0.1 s; to load, 0.01 s a layer, beside 0.014 s of computing.
	for i, want := range []float64{0.3, 5.3 + 0.1, 10 + 0.1 + 0.01 + 10*0.014} {
		if got := out.Records[i].Done; !near(got, seconds(want)) {
			t.Errorf("request %d is done at %v, want %vs", i, got, want)
		}
	}
	if out.Records[2].Cached != 160 || out.Models[0].HostHits != 160 || out.Models[0].PrefixHits != 0 {
		t.Errorf("%d tokens cached, %d of them in host memory, %d on the device", out.Records[2].Cached, out.Models[0].HostHits, out.Models[0].PrefixHits)
	}
	e.CopyBlock = 20 * time.Millisecond // a block is computed in 16 ms
	if out := run(t, config, []Executor{e}, requests...); out.Models[0].HostHits != 0 {
		t.Error("blocks are loaded, although to compute them is faster")
	}
}

// mix is a small random load on a few executors.
func mix(n int) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for i := range n {
			user := i * 7 % 5
			q := Request{At: time.Duration(i) * 40 * time.Millisecond, User: string(rune('a' + user)), Tokens: prompt(user, i, 300, 320+i%50)}
			if !yield(q) {
				return
			}
		}
	}
}

func TestSameInputSameOutcome(t *testing.T) {
	for _, policy := range scheduler.Policies() {
		executors := []Executor{gpu(), gpu()}
		executors[1].Name = "gpu2"
		var outs [2]*Outcome
		for i := range outs {
			var err error
			if outs[i], err = Run(config(policy), executors, mix(300)); err != nil {
				t.Fatal(policy, err)
			}
		}
		if !reflect.DeepEqual(outs[0], outs[1]) {
			t.Errorf("%s: two runs differ", policy)
		}
	}
}

// What must hold whatever the policy: changing one thing changes the outcome as expected, or not at all.
func TestMetamorphic(t *testing.T) {
	one := []Executor{gpu()}
	outcome := func(c scheduler.Config, e []Executor) *Outcome {
		t.Helper()
		out, err := Run(c, e, mix(300))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	calibrated := config("srjf-calibrated")
	calibrated.Fairness = 0
	none, off := gpu(), config("fcfs")
	none.NumBlocks = 0
	off.PrefixCaching = false
	if a, b := outcome(config("fcfs"), []Executor{none}), outcome(off, one); !reflect.DeepEqual(a.Records, b.Records) {
		t.Error("a cache of no pages differs from caching switched off")
	}
	slow := gpu()
	slow.Cost.Base *= 2
	slow.Cost.Token *= 2
	if a, b := outcome(calibrated, one), outcome(calibrated, []Executor{slow}); a.Span >= b.Span {
		t.Error("a slower executor finished no later")
	}
	old := calibrated
	old.Fairness = 1e9
	if a, b := outcome(old, one), outcome(config("fcfs"), one); !reflect.DeepEqual(a.Records, b.Records) {
		t.Error("boundless fairness is not first come, first served")
	}
}

func TestRefusalsAreRecorded(t *testing.T) {
	out := run(t, config("fcfs"), []Executor{gpu()}, Request{Tokens: make([]engine.TokenID, 200_000)})
	if got := out.Records[0].Code; got != engine.CodeTooLong {
		t.Errorf("code %v, want %v", got, engine.CodeTooLong)
	}
}

// BenchmarkRun is the time of one simulated request, of 320 tokens on eight executors.
func BenchmarkRun(b *testing.B) {
	var executors []Executor
	for i := range 8 {
		e := gpu()
		e.Name = string(rune('a' + i))
		executors = append(executors, e)
	}
	b.ReportAllocs()
	if _, err := Run(config("srjf-calibrated"), executors, mix(b.N)); err != nil {
		b.Fatal(err)
	}
}
