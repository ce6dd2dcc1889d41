package kvcache

import (
	"math/rand/v2"
	"testing"
)

// hitRate runs n requests of users chosen by pick, each a profile of 55 blocks and a block of its
// own, and returns the percentage of profile blocks found from request skip on.
func hitRate(x *Index, n, skip int, pick func(i int) uint16) float64 {
	const profile = 55
	hits, queries := 0, 0
	for i := range n {
		reused := pass(x, testChain(append(run(pick(i), profile), uint16(20000+i))...))
		if i >= skip {
			hits += min(reused, profile)
			queries += profile
		}
	}
	return 100 * float64(hits) / float64(queries)
}

// TestEvictionAdapts lets all users be replaced by others: those must come to be kept as LRU keeps
// them.
func TestEvictionAdapts(t *testing.T) {
	rates := map[Eviction]float64{}
	for _, e := range []Eviction{EvictReuse, EvictLRU} {
		x := newIndex(t, 1000, e)
		rng := rand.New(rand.NewPCG(1, 1))
		hitRate(x, 1000, 0, func(int) uint16 { return uint16(rng.IntN(12)) })
		rates[e] = hitRate(x, 300, 100, func(int) uint16 { return uint16(100 + rng.IntN(12)) })
	}
	t.Logf("hit rate of new users' profiles: reuse %.1f %%, lru %.1f %%", rates[EvictReuse], rates[EvictLRU])
	if rates[EvictReuse] < rates[EvictLRU]-5 {
		t.Errorf("new users hit %.1f %% of their profiles, %.1f %% with LRU", rates[EvictReuse], rates[EvictLRU])
	}
}

// TestUsersWithFewRequests lets users be replaced again and again after four requests each, more than there is
// room for: a new user's profile must have the room of those who are gone from its first request on, as under LRU.
func TestUsersWithFewRequests(t *testing.T) {
	const users, perUser = 6, 4
	for _, blocks := range []int{108, 165, 220} {
		rates := map[Eviction]float64{}
		for _, e := range []Eviction{EvictReuse, EvictLRU} {
			rng := rand.New(rand.NewPCG(1, 1))
			rates[e] = hitRate(newIndex(t, blocks, e), 100*users*perUser, 0, func(i int) uint16 {
				return uint16(i/(users*perUser)*users + rng.IntN(users))
			})
		}
		t.Logf("hit rate with %d blocks: reuse %.1f %%, lru %.1f %%", blocks, rates[EvictReuse], rates[EvictLRU])
		if rates[EvictReuse] < rates[EvictLRU]-0.5 {
			t.Errorf("hit rate with %d blocks %.1f %%, LRU %.1f %%", blocks, rates[EvictReuse], rates[EvictLRU])
		}
	}
}

// TestUsersAmongSessions has users who stay, beside long prompts that come twice and, or not, others that come once: those who
// stay must keep what LRU leaves them, and in the flood more.
func TestUsersAmongSessions(t *testing.T) {
	for _, flood := range []bool{false, true} {
		rates := map[Eviction]float64{}
		for _, e := range []Eviction{EvictReuse, EvictLRU} {
			x, rng := newIndex(t, 1000, e), rand.New(rand.NewPCG(1, 1))
			rates[e] = hitRate(x, 2000, 200, func(i int) uint16 {
				if session := uint16(i / 24); i%24 == 0 {
					for range 2 {
						pass(x, testChain(append([]uint16{1000 + session}, run(98, 300)...)...))
					}
					if flood {
						pass(x, testChain(append([]uint16{2000 + session}, run(99, 234)...)...))
					}
				}
				return uint16(rng.IntN(12))
			})
		}
		t.Logf("hit rate of users who stay, flood %t: reuse %.1f %%, lru %.1f %%", flood, rates[EvictReuse], rates[EvictLRU])
		if least := rates[EvictLRU] - 0.5; rates[EvictReuse] < least || flood && rates[EvictReuse] < rates[EvictLRU]+10 {
			t.Errorf("hit rate of users who stay, flood %t: %.1f %%, LRU %.1f %%", flood, rates[EvictReuse], rates[EvictLRU])
		}
	}
}

// TestCyclesLargerThanTheCache has users in turn, more than there is room for: LRU drops each just
// before its turn, and keeps none.
func TestCyclesLargerThanTheCache(t *testing.T) {
	rates := map[Eviction]float64{}
	for _, e := range []Eviction{EvictReuse, EvictLRU} {
		rates[e] = hitRate(newIndex(t, 1000, e), 2000, 200, func(i int) uint16 { return uint16(i % 25) })
	}
	t.Logf("hit rate of 25 users in turn, room for 18: reuse %.1f %%, lru %.1f %%", rates[EvictReuse], rates[EvictLRU])
	if rates[EvictReuse] < 20 || rates[EvictReuse] <= rates[EvictLRU] {
		t.Errorf("hit rate %.1f %%, LRU %.1f %%; want some of the users kept", rates[EvictReuse], rates[EvictLRU])
	}
}

// TestSessionsOneAfterAnother has users who come in sessions, each when the one before is gone, to a
// cache that holds little more than one profile: what the users before have left must make room.
func TestSessionsOneAfterAnother(t *testing.T) {
	const perSession, users = 20, 10
	for _, blocks := range []int{57, 72, 300} {
		rates := map[Eviction]float64{}
		for _, e := range []Eviction{EvictReuse, EvictLRU} {
			rates[e] = hitRate(newIndex(t, blocks, e), 3*users*perSession, 0, func(i int) uint16 { return uint16(i / perSession % users) })
		}
		t.Logf("hit rate with %d blocks: reuse %.1f %%, lru %.1f %%", blocks, rates[EvictReuse], rates[EvictLRU])
		if rates[EvictLRU] < 90 || rates[EvictReuse] < rates[EvictLRU]-0.5 {
			t.Errorf("hit rate with %d blocks %.1f %%, LRU %.1f %%", blocks, rates[EvictReuse], rates[EvictLRU])
		}
	}
}

// TestFloodThenSessions: what a flood has taught must be unlearnt when users come and go.
func TestFloodThenSessions(t *testing.T) {
	rates := map[Eviction]float64{}
	for _, e := range []Eviction{EvictReuse, EvictLRU} {
		x := newIndex(t, 72, e)
		for i := range 400 {
			pass(x, testChain(append(run(0, 55), uint16(1000+i))...))
			pass(x, testChain(append([]uint16{uint16(2000 + i)}, run(99, 200)...)...))
		}
		rates[e] = hitRate(x, 1000, 200, func(i int) uint16 { return uint16(1 + i/20) })
	}
	t.Logf("hit rate after a flood: reuse %.1f %%, lru %.1f %%", rates[EvictReuse], rates[EvictLRU])
	if rates[EvictReuse] < rates[EvictLRU]-1 {
		t.Errorf("hit rate after a flood %.1f %%, LRU %.1f %%", rates[EvictReuse], rates[EvictLRU])
	}
}
