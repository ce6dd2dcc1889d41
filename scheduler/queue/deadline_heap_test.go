package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestOrder holds a Queue against a list that is searched whole.
func TestOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q DeadlineHeap[int]
	entries := make([]*Expiry[int], 50)
	for i := range entries {
		entries[i] = &Expiry[int]{Job: i, Order: uint64(i)}
	}
	due := map[int]time.Duration{}
	for range 5000 {
		i := rng.IntN(len(entries))
		if rng.IntN(3) > 0 {
			due[i] = time.Duration(rng.IntN(20))
			q.SetExpiry(entries[i], due[i])
		} else {
			delete(due, i)
			q.ForgetExpiry(entries[i])
		}
		var known []int
		for i := range due {
			known = append(known, i)
		}
		of, at, ok := q.FirstExpiry()
		if ok != (len(known) > 0) {
			t.Fatalf("of %d entries something expires: %t", len(known), ok)
		}
		if !ok {
			continue
		}
		want := slices.MinFunc(known, func(a, b int) int {
			if due[a] != due[b] {
				return int(due[a] - due[b])
			}
			return a - b
		})
		if of != want || at != due[want] {
			t.Fatalf("entry %v expires next, at %v; want %d at %v", of, at, want, due[want])
		}
	}
}
