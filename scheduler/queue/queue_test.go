package queue

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

// TestQueueEqualsRescan pushes and takes jobs of branching prompts at random, while blocks come and
// go, and compares the queue with a look at everything after each.
func TestQueueEqualsRescan(t *testing.T) {
	for _, name := range []string{"srjf-calibrated", "hrrn", "fcfs"} {
		for seed := range 100 {
			rng := rand.New(rand.NewPCG(uint64(seed), 57))
			index, err := kvcache.New(kvcache.Config{BlockTokens: 2, NumBlocks: 4 + rng.IntN(30), HostBlocks: rng.IntN(2) * rng.IntN(60)})
			if err != nil {
				t.Fatal(err)
			}
			m := cost.New(wire.Cost{Unit: time.Second, Pair: float64(rng.IntN(2)) / 64, Load: time.Duration(rng.IntN(5)) * time.Second / 2})
			q := NewOwned[uint64](named(t, name), &m, index, 2)
			var waiting []*Job
			for i := range 120 {
				switch op := rng.IntN(8); {
				case op < 4 || len(waiting) == 0:
					j := branchingJob(rng, i)
					q.Push(j, j.Order)
					waiting = append(waiting, j)
				case op < 6:
					k := rng.IntN(len(waiting))
					q.Remove(waiting[k])
					waiting = slices.Delete(waiting, k, k+1)
				default:
					chain := branchingJob(rng, i).Chain
					lease, moves := index.Acquire(kvcache.Request{Chain: chain, Reuse: len(chain), Load: rng.IntN(2) == 0, Fill: len(chain)})
					q.Evicted(moves.Evicted, moves.Lost)
					q.Stored(index.Commit(lease).Hashes)
					index.Release(lease)
				}
				if err := q.CheckIntegrity(float64(i)); err != nil {
					t.Fatalf("%s, seed %d, step %d: %v", name, seed, i, err)
				}
				orders := slices.Collect(q.Owners())
				for j := range q.All() {
					if len(orders) == 0 || orders[0] != j.Order {
						t.Fatalf("%s, seed %d, step %d: the owners are %v at job %d", name, seed, i, orders, j.Order)
					}
					orders = orders[1:]
				}
			}
		}
	}
}

func named(t testing.TB, policy string) Policy {
	t.Helper()
	p, err := NewPolicy(policy, 500)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// branchingJob is a job of up to 12 blocks, each of which is one of two that may follow the one
// before.
func branchingJob(rng *rand.Rand, order int) *Job {
	var ids []engine.TokenID
	for range 1 + rng.IntN(25) {
		ids = append(ids, engine.TokenID(rng.IntN(8)/7))
	}
	return &Job{
		Order: uint64(order), Aged: float64(rng.IntN(64)) / 64, Paged: rng.IntN(3) == 0,
		Sequence: Sequence{Prompt: ids, Chain: new(kvcache.Hasher).Chain(ids, 2, ""), ChainOf: 2},
	}
}

// TestJobsMovedByAPrefix bounds how many of 20,000 waiting jobs change their places when a prefix that all
// of them share is stored, and then evicted.
func TestJobsMovedByAPrefix(t *testing.T) {
	for _, host := range []int{0, 100} {
		t.Run(fmt.Sprintf("host=%d", host), func(t *testing.T) {
			index, err := kvcache.New(kvcache.Config{BlockTokens: 64, NumBlocks: 8, HostBlocks: host, Eviction: kvcache.EvictLRU})
			if err != nil {
				t.Fatal(err)
			}
			var hasher kvcache.Hasher
			m := cost.New(wire.Cost{})
			q := New(named(t, "srjf-calibrated"), &m, index, 64)
			prompt := func(stem, own int) *Job {
				ids := make([]engine.TokenID, 600)
				for i := range ids {
					ids[i] = engine.TokenID(stem*1000 + i)
				}
				ids[512], ids[513] = engine.TokenID(own&0xffff), engine.TokenID(own>>16)
				return &Job{Order: uint64(own), Sequence: Sequence{
					Prompt: ids, Chain: hasher.Chain(ids, 64, ""), ChainOf: 64,
				}}
			}
			places := map[*Job]place{}
			for i := range 20_000 {
				j := prompt(1, i)
				q.Push(j)
				places[j] = place{}
			}
			for i := range 20 {
				chain := prompt(1+i%2, 1<<30).Chain[:8]
				lease, moves := index.Acquire(kvcache.Request{Chain: chain, Reuse: 8, Load: true, Fill: 8})
				q.Evicted(moves.Evicted, moves.Lost)
				q.Stored(index.Commit(lease).Hashes)
				index.Release(lease)
				if first := q.First(0, nil); q.Reach(first).Device != 8*((i+1)%2) {
					t.Fatalf("after %d passes the first job has %+v blocks in the cache", i+1, q.Reach(first))
				}
				moved := 0
				for j, was := range places {
					if now := (place{node: j.node, slot: j.slot, key: j.key}); now != was {
						moved++
						places[j] = now
					}
				}
				if i > 0 && moved > 64 {
					t.Errorf("%d of %d jobs moved", moved, q.Len())
				}
			}
		})
	}
}

// TestFirstJobsOfQueuesAreComparedInSeconds holds Weigh to its words: between queues of different models what
// counts is seconds, with what is to be loaded, and waiting counts the same for all.
func TestFirstJobsOfQueuesAreComparedInSeconds(t *testing.T) {
	for _, tt := range []struct {
		policy string
		first  []string // of fast and slow, at the times below
		load   float64
	}{
		// At 10 s the fast queue's job of 10,000 tokens (1 s) has waited 10 s, the slow one's of 100 (10 s) 2 s; at
		// 1,000 s those are 1,000 and 992 s.
		{"srjf-calibrated", []string{"fast", "fast"}, 0},
		{"srjf-calibrated", []string{"slow", "slow"}, 30},
		{"sjf", []string{"fast", "fast"}, 0},
		{"sjf", []string{"slow", "slow"}, 30},
		{"srjf", []string{"fast", "fast"}, 0},
		{"hrrn", []string{"fast", "fast"}, 0},
		{"hrrn", []string{"fast", "slow"}, 30},
		{"fcfs", []string{"fast", "fast"}, 30},
		{"priority", []string{"slow", "slow"}, 0},
		{"deadline", []string{"slow", "slow"}, 0},
	} {
		p := named(t, tt.policy)
		weigh := func(now, rate, aged float64, tokens, priority int, deadline time.Duration, load float64) float64 {
			m := cost.New(wire.Cost{Unit: time.Duration(rate * 1e9)})
			index, err := kvcache.New(kvcache.Config{BlockTokens: 2})
			if err != nil {
				t.Fatal(err)
			}
			q := New(p, &m, index, 2)
			j := &Job{Aged: aged, Priority: priority, Deadline: deadline, Sequence: Sequence{Prompt: make([]engine.TokenID, tokens)}}
			q.Push(j)
			return q.Weigh(q.First(now, nil), Scale{Now: now, Rate: m.Rate(), Load: load, Aging: 1})
		}
		for i, now := range []float64{10, 1000} {
			fast := weigh(now, 1e-4, 0, 10_000, 2, 0, tt.load)
			slow := weigh(now, 0.1, 8, 100, 1, 20*time.Second, 0)
			if got := map[bool]string{true: "fast", false: "slow"}[fast < slow]; got != tt.first[i] {
				t.Errorf("%s, %v s to load, at %v s: %s is first (%v, %v), want %s", tt.policy, tt.load, now, got, fast, slow, tt.first[i])
			}
		}
	}
}
