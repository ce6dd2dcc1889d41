package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/scheduler"
)

// swapped is what became of requests for more models than fit.
type swapped struct {
	loads int // of whole models
	lru   int // that there would be if each request were answered before the next one comes
	mean  time.Duration
	waits []time.Duration // sorted
}

// threeModels are Poisson requests for three LLMs, of which two fit, on a processor: each answers in 0.15 s and is
// loaded in 0.5 s of the processor's time.
func threeModels(t *testing.T, policy string, busy float64) (o swapped) {
	t.Helper()
	const parts = 24
	e := Executor{Name: "cpu", Host: Host{Memory: 2 * parts, LoadRate: parts / 0.5}}
	for i, name := range []string{"a", "b", "c"} {
		m := Hosted{Name: name, Cost: Cost{Base: 0.01, Token: 0.0007}, Layers: parts, BlockTokens: 64, NumBlocks: 100, MaxModelLen: 4096}
		for p := range parts {
			m.Pieces = append(m.Pieces, uint32(i*parts+p))
			e.Pieces = append(e.Pieces, 1)
		}
		e.Models = append(e.Models, m)
	}
	rng := rand.New(rand.NewPCG(3, 9))
	var requests []Request
	at := 0.0
	for i := range 3000 {
		at += rng.ExpFloat64() * 0.15 / busy
		n := 50 + rng.IntN(300)
		q := Request{At: time.Duration(at * 1e9), Model: []string{"a", "a", "a", "a", "a", "a", "b", "b", "b", "c"}[rng.IntN(10)], Tokens: make([]engine.TokenID, n)}
		q.Tokens[0], q.Tokens[1] = engine.TokenID(i), engine.TokenID(i)
		requests = append(requests, q)
	}
	c := scheduler.DefaultConfig()
	c.Policy, c.MaxPassItems = policy, 1
	out := run(t, c, []Executor{e}, requests...)
	for _, m := range out.Models {
		o.loads += int(m.LoadedBytes / parts)
	}
	var there []string // by when they were used last
	for _, r := range out.Records {
		if r.Code != 0 {
			t.Fatalf("%s: a request of %s is refused: %v", policy, r.Model, r.Code)
		}
		o.waits = append(o.waits, r.Latency())
		o.mean += r.Latency() / time.Duration(len(out.Records))
		if !slices.Contains(there, r.Model) {
			o.lru++
		}
		there = append(slices.DeleteFunc(there, func(m string) bool { return m == r.Model }), r.Model)
		there = there[max(0, len(there)-2):]
	}
	slices.Sort(o.waits)
	return o
}

// TestThreeModelsInMemoryForTwo compares the order with that of arrival, in which the model used longest ago makes room.
func TestThreeModelsInMemoryForTwo(t *testing.T) {
	for _, c := range []struct{ busy, fewer float64 }{{0.3, 1.2}, {0.5, 1.4}, {0.7, 2}} {
		busy, fewer := c.busy, c.fewer
		ours, theirs := threeModels(t, "srjf-calibrated", busy), threeModels(t, "fcfs", busy)
		p99 := func(l []time.Duration) time.Duration { return l[len(l)*99/100] }
		t.Logf("busy %.1f: %d loads, mean %v, P99 %v, longest %v; in the order of arrival %d loads, or fewer where others run meanwhile: %d, mean %v, P99 %v",
			busy, ours.loads, ours.mean, p99(ours.waits), ours.waits[len(ours.waits)-1], ours.lru, theirs.loads, theirs.mean, p99(theirs.waits))
		if float64(ours.loads)*fewer > float64(ours.lru) || ours.loads >= theirs.loads || ours.mean >= theirs.mean {
			t.Errorf("busy %.1f: %d loads and a mean of %v; in the order of arrival %d or %d, and %v", busy, ours.loads, ours.mean, ours.lru, theirs.loads, theirs.mean)
		}
		if longest := ours.waits[len(ours.waits)-1]; longest > 30*time.Second {
			t.Errorf("busy %.1f: a request waits for %v", busy, longest)
		}
	}
}

// TestSwapsRepeat: which models are loaded and dropped follows from the requests alone, however maps and tables are laid out.
func TestSwapsRepeat(t *testing.T) {
	first := threeModels(t, "srjf-calibrated", 0.7)
	for range 5 {
		if again := threeModels(t, "srjf-calibrated", 0.7); !reflect.DeepEqual(again, first) {
			t.Fatalf("the same requests take %d loads and a mean of %v, and once more %d and %v", first.loads, first.mean, again.loads, again.mean)
		}
	}
}
