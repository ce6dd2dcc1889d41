package expiry

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestOrder holds a Queue against a list that is searched whole.
func TestOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q Queue
	entries := make([]*Entry, 50)
	for i := range entries {
		entries[i] = &Entry{Of: i, Order: uint64(i)}
	}
	due := map[int]time.Duration{}
	for range 5000 {
		i := rng.IntN(len(entries))
		if rng.IntN(3) > 0 {
			due[i] = time.Duration(rng.IntN(20))
			q.Set(entries[i], due[i])
		} else {
			delete(due, i)
			q.Forget(entries[i])
		}
		var known []int
		for i := range due {
			known = append(known, i)
		}
		of, at, ok := q.First()
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
