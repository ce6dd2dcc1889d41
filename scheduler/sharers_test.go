package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/events"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// counted counts what a policy is asked.
type counted struct {
	queue.Calibrated
	asked *int
}

func (c counted) Key(j *queue.Job, m *cost.Model) float64 {
	*c.asked++
	return c.Calibrated.Key(j, m)
}

func (c counted) Saved(m *cost.Model, cached int) float64 {
	*c.asked++
	return c.Calibrated.Saved(m, cached)
}

func named(t testing.TB, policy string) queue.Policy {
	t.Helper()
	p, err := queue.NewPolicy(policy, DefaultConfig().Fairness)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sharers is a Core in which n jobs wait that share a prefix of eight blocks, all that the cache has
// room for, and have a block of their own each; host blocks are below the cache.
func sharers(t testing.TB, p queue.Policy, n, host int) (*world, *wire.Run) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Eviction, cfg.MaxQueuedJobs, cfg.PeerTimeout = kvcache.EvictLRU, 1<<30, 1<<62
	w := newWorld(t, cfg)
	w.core.fleet.Policy = p
	w.frontend("web")
	info := executorInfo()
	info.BlockTokens, info.NumBlocks, info.HostBlocks, info.MaxPassRows = 64, 8, host, 0
	w.executor("cpu", 1, info)
	run := runs(w.submit("web", sharer(0)))[0]
	for i := 1; i <= n; i++ {
		w.submit("web", sharer(i))
	}
	return w, run
}

func sharer(i int) *submission {
	t := tokens(1, 600)
	t[512], t[513] = engine.TokenID(i&0xffff), engine.TokenID(i>>16)
	return &submission{Job: engine.JobID(i + 1), Tokens: t, MaxTokens: 1}
}

// alternate ends the pass of a sharer, which stores the prefix, and starts one of a stranger that was
// first in the queue, which evicts it: that is the Step timed. Then it ends the stranger's pass and
// returns the next sharer's.
func alternate(w *world, run *wire.Run, id engine.JobID, timed func(step func())) *wire.Run {
	w.now += time.Millisecond
	w.submit("web", &submission{Job: id, Tokens: tokens(2, 552), MaxTokens: 1, Waited: time.Hour})
	done := answer(run, time.Millisecond)
	timed(func() { run = runs(w.core.Step(w.now, "cpu", done))[0] })
	return runs(w.core.Step(w.now, "cpu", answer(run, time.Millisecond)))[0]
}

// TestWorkOfAStep bounds what a step does when a prefix that all waiting jobs share is stored, and
// then evicted: the keys computed must not grow with the jobs that wait.
func TestWorkOfAStep(t *testing.T) {
	for _, host := range []int{0, 100} {
		t.Run(fmt.Sprintf("host=%d", host), func(t *testing.T) {
			asked := 0
			w, run := sharers(t, counted{named(t, "srjf-calibrated").(queue.Calibrated), &asked}, 20_000, host)
			w.core.RecordCacheEvents()
			for i := range 20 {
				run = alternate(w, run, engine.JobID(1<<30+i), func(step func()) {
					asked = 0
					step()
					stored, evicted := 0, 0
					for _, e := range w.core.CacheEvents() {
						switch e.Change {
						case events.Stored:
							stored += len(e.Hashes)
						case events.Removed:
							evicted += len(e.Hashes)
						}
					}
					if stored < 8 || evicted != 8 { // what comes back from host memory is stored too
						t.Fatalf("%d blocks are stored and %d evicted, want 8", stored, evicted)
					}
					if asked > 16 {
						t.Errorf("%d keys are computed", asked)
					}
				})
			}
		})
	}
}
