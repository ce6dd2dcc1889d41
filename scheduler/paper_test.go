package scheduler

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

// figure52 runs the example of the paper's figure 5.2: requests of lengths A < C < B < D come
// altogether, A and D share a prefix, so do B and C, and the cache can store one request. It
// returns the order in which they ran and the number that hit the cache.
func figure52(t *testing.T, policy string) (order string, hits int) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Policy, cfg.MaxPassItems, cfg.Eviction = policy, 1, kvcache.EvictLRU
	w := newWorld(t, cfg)
	w.frontend("web")
	for _, job := range []struct {
		name      rune
		stem, len int
	}{{'A', 1, 40}, {'B', 2, 60}, {'C', 2, 50}, {'D', 1, 70}} {
		w.submit("web", &submission{Job: engine.JobID(job.name), Tokens: tokens(job.stem, job.len), MaxTokens: 1})
	}
	info := executorInfo()
	info.BlockTokens, info.NumBlocks = 10, 5
	for pending := runs(w.executor("cpu", 1, info)); len(pending) > 0; {
		run := pending[0]
		order += string(rune(run.Items[0].Job))
		if item(run, 0).Cached > 0 {
			hits++
		}
		w.now += time.Millisecond
		pending = runs(w.step("cpu", answer(run, time.Millisecond)))
	}
	return order, hits
}

func TestFigure52(t *testing.T) {
	for _, tt := range []struct {
		policy, order string
		hits          int
	}{
		{"fcfs", "ABCD", 1},
		{"srjf", "ACBD", 1},
		{"srjf-calibrated", "ADCB", 2},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			order, hits := figure52(t, tt.policy)
			if order != tt.order || hits != tt.hits {
				t.Errorf("order %s with %d cache hits, want %s with %d", order, hits, tt.order, tt.hits)
			}
		})
	}
}

// TestAlgorithm1 holds the fairness term to the paper's unit: lambda cache-miss tokens a second.
func TestAlgorithm1(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lambda float64
		waited time.Duration
		first  engine.JobID
	}{
		{"a long job that has waited 1.9 s is still behind one 1000 tokens shorter", 500, 1900 * time.Millisecond, 3},
		{"after 2.1 s it is before it", 500, 2100 * time.Millisecond, 2},
		{"without lambda it never is", 0, time.Hour, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Fairness, cfg.MaxPassItems = tt.lambda, 1
			w := newWorld(t, cfg)
			w.frontend("web")
			w.executor("cpu", 1, executorInfo())
			run := runs(w.submit("web", &submission{Job: 1, Tokens: tokens(1, 9), MaxTokens: 1}))[0]
			w.submit("web", &submission{Job: 2, Tokens: tokens(2, 1100), MaxTokens: 1})
			w.now += tt.waited
			w.submit("web", &submission{Job: 3, Tokens: tokens(3, 100), MaxTokens: 1})
			next := runs(w.step("cpu", answer(run, time.Second)))
			if len(next) != 1 || next[0].Items[0].Job != tt.first {
				t.Errorf("the next pass is %+v, want job %d", next, tt.first)
			}
		})
	}
}
