package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// takeFirst serves the queue once.
func takeFirst(q *Rotation[string, *waiting]) *waiting {
	w, ok := q.First()
	if !ok {
		return nil
	}
	q.Remove(w.entry)
	return w
}

// waiting is a value that knows its entry.
type waiting struct {
	flow  string
	n     int
	entry *Turn[string, *waiting]
}

func pushWaiting(q *Rotation[string, *waiting], flow string, n int) *waiting {
	w := &waiting{flow: flow, n: n}
	w.entry = q.Push(flow, w)
	return w
}

func TestFlowsTakeTurns(t *testing.T) {
	var q Rotation[string, *waiting]
	for i := range 4 {
		pushWaiting(&q, "much", i)
	}
	pushWaiting(&q, "little", 0)
	pushWaiting(&q, "late", 0)
	var got []string
	for q.Len() > 0 {
		w := takeFirst(&q)
		got = append(got, fmt.Sprint(w.flow, w.n))
	}
	if want := []string{"much0", "little0", "late0", "much1", "much2", "much3"}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
	if takeFirst(&q) != nil {
		t.Error("an empty queue serves something")
	}
}

// TestNobodyIsPassedTwice pushes, serves and withdraws at random: between two of a flow that has more
// waiting, no other flow is served twice, and a flow's own are served in their order.
func TestNobodyIsPassedTwice(t *testing.T) {
	for seed := range 200 {
		rng := rand.New(rand.NewPCG(uint64(seed), 71))
		var q Rotation[string, *waiting]
		var all []*waiting
		since := map[string]map[string]int{} // served since a flow that waits was, by flow
		last := map[string]int{}             // served last, by flow
		for i := range 400 {
			switch op := rng.IntN(8); {
			case op < 4:
				w := pushWaiting(&q, fmt.Sprint(rng.IntN(5)), i)
				all = append(all, w)
				if since[w.flow] == nil {
					since[w.flow] = map[string]int{}
				}
			case op < 7 && q.Len() > 0:
				w := takeFirst(&q)
				all = slices.DeleteFunc(all, func(o *waiting) bool { return o == w })
				if w.n < last[w.flow] {
					t.Fatalf("seed %d: entry %d of flow %s is served after %d", seed, w.n, w.flow, last[w.flow])
				}
				last[w.flow] = w.n
				for flow, counts := range since {
					if counts[w.flow]++; flow != w.flow && counts[w.flow] > 1 {
						t.Fatalf("seed %d: flow %s is served %d times while %s waits", seed, w.flow, counts[w.flow], flow)
					}
				}
				delete(since, w.flow)
				if slices.ContainsFunc(all, func(o *waiting) bool { return o.flow == w.flow }) {
					since[w.flow] = map[string]int{}
				}
			case len(all) > 0:
				k := rng.IntN(len(all))
				w := all[k]
				all = slices.Delete(all, k, k+1)
				q.Remove(w.entry)
				q.Remove(w.entry)
				if since[w.flow] = map[string]int{}; !slices.ContainsFunc(all, func(o *waiting) bool { return o.flow == w.flow }) {
					delete(since, w.flow)
				}
			}
			if q.Len() != len(all) {
				t.Fatalf("seed %d: %d wait, counted %d", seed, len(all), q.Len())
			}
		}
	}
}
