package link

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestOrder holds that all happens once, in order of time, and at one time in the order in which it was said.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var line Timeline
	type said struct {
		at time.Duration
		n  int
	}
	var want, got []said
	for n := range 2000 {
		if n%3 == 2 {
			what, ok := line.Next()
			if !ok || line.Now() != what.(said).at {
				t.Fatalf("%v happens at %v", what, line.Now())
			}
			got = append(got, what.(said))
		}
		s := said{max(line.Now(), time.Duration(r.IntN(500)+n/2)), n}
		line.At(s.at-time.Duration(r.IntN(2))*time.Duration(btoi(s.at == line.Now())), s) // what is past is now
		want = append(want, s)
	}
	for what, ok := line.Next(); ok; what, ok = line.Next() {
		got = append(got, what.(said))
	}
	slices.SortFunc(want, func(a, b said) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.n - b.n
	})
	if !slices.Equal(got, want) {
		t.Errorf("%d happened, want %d in their order", len(got), len(want))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
