package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/executors"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// rescan is the oracle of Algorithm 1: at every choice it looks at every waiting job and at the
// cache as it is. Each job is in a class of its own, so that the queue asks for the score of each.
type rescan struct {
	lambda float64
	of     *history
	jobs   map[int]*executors.Job // by class, as they are found
}

func (r rescan) Key(*queue.Job, *cost.Model) float64 { return 0 }

func (r rescan) Class(j *queue.Job, _ *cost.Model) int {
	delete(r.jobs, int(j.Order)) // it may be of a Core before
	return int(j.Order)
}

// jobOf is the job of a class.
func (r rescan) jobOf(class int) *executors.Job {
	if r.jobs[class] == nil {
		for _, j := range r.of.twin.jobs {
			r.jobs[int(j.Order)] = j
		}
	}
	return r.jobs[class]
}

func (r rescan) Score(class int, _, now float64) float64 {
	j := r.jobOf(class)
	model, age := &j.Instance.Cost, r.lambda*(now-j.Aged)
	device, all := j.Instance.Cache.Index.Reach(j.Chain[:j.Usable()])
	computing := model.Units(j.Size(device * j.ChainOf))
	loading := model.Units(j.Size(all*j.ChainOf)) + model.Load*float64(all-device)
	return min(computing, loading) - age
}

// Weigh takes the score in seconds, and ages all jobs alike.
func (r rescan) Weigh(j *queue.Job, score float64, s queue.Scale) float64 {
	waited := s.Now - j.Aged
	return s.Rate*(score+r.lambda*waited) + s.Load - s.Aging*waited
}

// TestChoicesEqualFullRescan runs histories on the Core and on one that scans its whole queue at
// every choice; all they say must be equal.
func TestChoicesEqualFullRescan(t *testing.T) {
	loads, parts, idle := 0, 0, 0
	for seed := range *histories {
		rng := rand.New(rand.NewPCG(uint64(seed), 52))
		cfg := DefaultConfig()
		cfg.Fairness = 512
		cfg.Routing = []string{RoutePrefix, RouteUser, RouteLoad}[rng.IntN(3)]
		cfg.MaxPassItems = 1 + rng.IntN(4)
		oracle := &rescan{cfg.Fairness, nil, map[int]*executors.Job{}}
		h := newHistory(t, rng, cfg, oracle)
		oracle.of = h
		if rng.IntN(2) == 0 {
			h.info.CostToken, h.info.CostPair = time.Second, 1.0/1024 // floats add their multiples exactly
		}
		h.deep = seed%50 == 0
		for range 20 + rng.IntN(40) {
			h.move()
		}
		h.drain()
		parts, idle = parts+h.parts, idle+h.idle
		if loads += h.loads; t.Failed() {
			t.Fatalf("in history %d", seed)
		}
	}
	if parts < *histories/10 {
		t.Errorf("%d blocks were copied in part: too few to tell", parts)
	}
	if idle < *histories/10 {
		t.Errorf("%d passes of lowest jobs: too few to tell", idle)
	}
	if loads < *histories/10 {
		t.Errorf("%d blocks were loaded from host memory: too few to tell", loads)
	}
}
