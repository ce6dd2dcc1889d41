package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// checkQueue compares a queue with what a look at every job and every block says, and returns the
// first difference.
func checkQueue(q *queue, now float64) error {
	var next *job
	var least float64
	n := 0
	for j := range q.all() {
		n++
		if j.continuing() {
			continue
		}
		fresh := q.reach(j)
		if got := q.orderOf(j).tree.reach(j); got != fresh {
			return fmt.Errorf("job %v is taken to have %+v blocks in the cache, has %+v", j.submit.Job, got, fresh)
		}
		cached, loads := q.useful(fresh)
		rank := q.policy.key(j) - q.savedTokens(cached*j.chainOf, loads)
		if q.aging != nil {
			rank = q.aging.score(j.class, j.key, now)
		}
		if next == nil || rank < least || rank == least && j.order < next.order {
			next, least = j, rank
		}
	}
	if got := q.min(now, nil); got != next {
		return fmt.Errorf("the next job is taken to be %+v, is %+v", got, next)
	}
	if n != q.size {
		return fmt.Errorf("%d jobs wait, counted %d", n, q.size)
	}
	if err := checkPrefixes(q); err != nil {
		return err
	}
	for _, o := range []*order{q.plain, q.paged} {
		for i, g := range o.tree.groups {
			if g.position != i || !g.leads() {
				return fmt.Errorf("group %d is taken to be at %d; leads: %v", i, g.position, g.leads())
			}
		}
		if _, err := checkNode(o.tree, o.tree.root); err != nil {
			return err
		}
	}
	return nil
}

// checkPrefixes holds wanted and shared to their words, for every prefix of every waiting job.
func checkPrefixes(q *queue) error {
	ends := map[kvcache.Hash]bool{}
	begins := map[kvcache.Hash]bool{}
	for j := range q.all() {
		if j.continuing() {
			continue
		}
		for _, h := range j.chain[:j.usable()] {
			begins[h] = true
		}
		if n := q.index.Match(j.chain[:j.usable()]); n > 0 {
			ends[j.chain[n-1]] = true
		}
	}
	for j := range q.all() {
		common := 0
		for _, h := range j.chain {
			if q.wanted(h) != ends[h] {
				return fmt.Errorf("block %v is wanted: %v, want %v", h, q.wanted(h), ends[h])
			}
			if begins[h] {
				common++
			}
		}
		if got := q.shared(j.chain, 0); got != common {
			return fmt.Errorf("%d blocks of job %v are shared, want %d", got, j.submit.Job, common)
		}
	}
	return nil
}

// checkNode holds a node and those below it to their invariants, and counts the nodes.
func checkNode(t *tree, n *node) (nodes int, err error) {
	nodes = 1
	if n != t.root {
		switch blocks := n.blocks(); {
		case len(blocks) == 0 || t.first[blocks[0]] != n:
			return 0, fmt.Errorf("node of blocks %d to %d is not found by its first", n.start, n.depth)
		case n.resident > 0 && t.present[blocks[n.resident-1]] != n:
			return 0, fmt.Errorf("node of blocks %d to %d is not found by its last resident block", n.start, n.depth)
		case n.resident > 0 && n.resident < len(blocks) && t.missing[blocks[n.resident]] != n:
			return 0, fmt.Errorf("node of blocks %d to %d is not found by the block it misses", n.start, n.depth)
		case n.resident > 0 && n.parent.cached() < n.parent.depth:
			return 0, fmt.Errorf("node of blocks %d to %d is resident, its parent is not", n.start, n.depth)
		case len(n.slots) < 2 && n.slots[0].on != nil:
			return 0, fmt.Errorf("node of blocks %d to %d has one node below it and no job", n.start, n.depth)
		case n.rep.node == nil || n.rep.chain[n.depth-1] != blocks[len(blocks)-1]:
			return 0, fmt.Errorf("node of blocks %d to %d is spelt by a job that does not wait below", n.start, n.depth)
		}
	}
	best := []*job{nil}
	leading := 0
	for i, s := range n.slots {
		best = append(best, s.best())
		if s.on == nil {
			if s.job.node != n || s.job.slot != i {
				return 0, fmt.Errorf("job %v is not where it is taken to be", s.job.submit.Job)
			}
			continue
		}
		if s.on.parent != n || s.on.slot != i || s.on.start != n.depth {
			return 0, fmt.Errorf("node of blocks %d to %d is not where it is taken to be", s.on.start, s.on.depth)
		}
		if s.on.leads() {
			if leading++; n.leaders[s.on.leader] != s.on {
				return 0, fmt.Errorf("node of blocks %d to %d is not among the leaders where it is taken to be", s.on.start, s.on.depth)
			}
		}
		below, err := checkNode(t, s.on)
		if err != nil {
			return 0, err
		}
		nodes += below
	}
	slices.SortFunc(best, func(a, b *job) int {
		if earlier(a, b) {
			return -1
		}
		return 1
	})
	if n.best != best[0] {
		return 0, fmt.Errorf("node of blocks %d to %d: the best job is taken to be %+v, is %+v", n.start, n.depth, n.best, best[0])
	}
	if leading != len(n.leaders) {
		return 0, fmt.Errorf("node of blocks %d to %d: %d nodes lead groups, counted %d", n.start, n.depth, leading, len(n.leaders))
	}
	if n == t.root && nodes != len(t.first)+1 {
		return 0, fmt.Errorf("%d nodes, %d are found by their first block", nodes, len(t.first)+1)
	}
	return nodes, nil
}

// TestQueueEqualsRescan pushes and takes jobs of branching prompts at random, while blocks come and
// go, and compares the queue with a look at everything after each.
func TestQueueEqualsRescan(t *testing.T) {
	for _, name := range []string{"srjf-calibrated", "hrrn", "fcfs"} {
		for seed := range *histories / 100 {
			rng := rand.New(rand.NewPCG(uint64(seed), 57))
			cfg := DefaultConfig()
			cfg.Policy = name
			p, err := newPolicy(cfg)
			if err != nil {
				t.Fatal(err)
			}
			index, err := kvcache.New(kvcache.Config{BlockTokens: 2, NumBlocks: 4 + rng.IntN(30), HostBlocks: rng.IntN(2) * rng.IntN(60)})
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			info := wire.ExecutorInfo{CostToken: time.Second, CostPair: float64(rng.IntN(2)) / 64, CostLoad: time.Duration(rng.IntN(5)) * time.Second / 2}
			e := &executor{cost: cost.New(&info), index: index}
			q := newQueue(p, &e.cost, index, 2, &total)
			var waiting []*job
			for i := range 120 {
				switch op := rng.IntN(8); {
				case op < 4 || len(waiting) == 0:
					j := branchingJob(rng, e, i)
					q.push(j)
					waiting = append(waiting, j)
				case op < 6:
					k := rng.IntN(len(waiting))
					q.remove(waiting[k])
					waiting = slices.Delete(waiting, k, k+1)
				default:
					chain := branchingJob(rng, e, i).chain
					lease, moves := index.Acquire(kvcache.Request{Chain: chain, Reuse: len(chain), Load: rng.IntN(2) == 0, Fill: len(chain)})
					q.evicted(moves.Evicted, moves.Lost)
					q.stored(index.Commit(lease).Hashes)
					index.Release(lease)
				}
				if err := checkQueue(q, float64(i)); err != nil {
					t.Fatalf("%s, seed %d, step %d: %v", name, seed, i, err)
				}
			}
		}
	}
}

// branchingJob is a job of up to 12 blocks, each of which is one of two that may follow the one
// before.
func branchingJob(rng *rand.Rand, e *executor, order int) *job {
	m := &wire.Submit{Job: engine.JobID(order + 1), MaxTokens: 1}
	for range 1 + rng.IntN(25) {
		m.Tokens = append(m.Tokens, engine.TokenID(rng.IntN(8)/7))
	}
	return &job{
		submit: m, executor: e, order: uint64(order), aged: float64(rng.IntN(64)) / 64,
		paged: rng.IntN(3) == 0, seq: m.Tokens, chain: new(kvcache.Hasher).Chain(m.Tokens, 2, kvcache.Keys{}), chainOf: 2,
	}
}

// counted counts what a policy is asked.
type counted struct {
	srjfCalibrated
	asked *int
}

func (c counted) key(j *job) float64 {
	*c.asked++
	return c.srjfCalibrated.key(j)
}

func (c counted) saved(m *cost.Model, cached int) float64 {
	*c.asked++
	return c.srjfCalibrated.saved(m, cached)
}

// sharers is a Core in which n jobs wait that share a prefix of eight blocks, all that the cache has
// room for, and have a block of their own each; host blocks are below the cache.
func sharers(t testing.TB, p policy, n, host int) (*world, *wire.Run) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Eviction, cfg.MaxQueuedJobs, cfg.PeerTimeout = kvcache.EvictLRU, 1<<30, 1<<62
	w := newWorld(t, cfg)
	w.core.policy = p
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

func sharer(i int) *wire.Submit {
	t := tokens(1, 600)
	t[512], t[513] = engine.TokenID(i&0xffff), engine.TokenID(i>>16)
	return &wire.Submit{Job: engine.JobID(i + 1), Tokens: t, MaxTokens: 1}
}

// alternate ends the pass of a sharer, which stores the prefix, and starts one of a stranger that was
// first in the queue, which evicts it: that is the Step timed. Then it ends the stranger's pass and
// returns the next sharer's.
func alternate(w *world, run *wire.Run, id engine.JobID, timed func(step func())) *wire.Run {
	w.now += time.Millisecond
	w.submit("web", &wire.Submit{Job: id, Tokens: tokens(2, 552), MaxTokens: 1, Waited: time.Hour})
	done := answer(run, time.Millisecond)
	timed(func() { run = runs(w.core.Step(w.now, "cpu", done))[0] })
	return runs(w.core.Step(w.now, "cpu", answer(run, time.Millisecond)))[0]
}

// TestWorkOfAStep bounds what a step does when a prefix that all waiting jobs share is stored, and
// then evicted: the keys computed and the jobs moved must not grow with the jobs that wait.
func TestWorkOfAStep(t *testing.T) {
	for _, host := range []int{0, 100} {
		t.Run(fmt.Sprintf("host=%d", host), func(t *testing.T) { testWorkOfAStep(t, host) })
	}
}

func testWorkOfAStep(t *testing.T, host int) {
	asked := 0
	w, run := sharers(t, counted{srjfCalibrated{500}, &asked}, 20_000, host)
	w.core.RecordCacheEvents()
	q := w.core.executors[0].queue
	type place struct {
		node *node
		slot int
		key  float64
	}
	places := map[*job]place{}
	for j := range q.all() {
		places[j] = place{j.node, j.slot, j.key}
	}
	for i := range 20 {
		run = alternate(w, run, engine.JobID(1<<30+i), func(step func()) {
			asked = 0
			step()
			stored, evicted := 0, 0
			for _, e := range w.core.CacheEvents() {
				switch e.Change {
				case CacheStored:
					stored += len(e.Hashes)
				case CacheRemoved:
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
		moved := 0
		for j := range q.all() {
			if now := (place{j.node, j.slot, j.key}); now != places[j] {
				moved++
				places[j] = now
			}
		}
		if moved > 64 {
			t.Errorf("%d of %d jobs moved", moved, q.size)
		}
	}
}
