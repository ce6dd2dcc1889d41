package executor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestUpper holds a histogram to durations sorted: what it tells is exceeded by no more than may exceed it, and by
// more if it is lowered by a bucket.
func TestUpper(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var h histogram
		var all []time.Duration
		scale := 1 << rng.IntN(34)
		for range 1 + rng.IntN(3000) {
			d := time.Duration(rng.ExpFloat64() * float64(scale))
			all = append(all, d)
			h.addDuration(d)
		}
		slices.Sort(all)
		for _, exceed := range []int{0, 1, len(all) / rare, len(all) / 2, len(all) - 1} {
			exceed = min(exceed, len(all)-1)
			got, want := h.upperBound(exceed), all[len(all)-1-exceed]
			longest := all[len(all)-1]
			if limit := max(finest, want*110/100); got < want || got > longest || got > limit && want < 8*time.Second {
				t.Fatalf("of %d durations %d may exceed %v, sorted it is %v, the longest %v", len(all), exceed, got, want, longest)
			}
		}
	}
	var none histogram
	if none.upperBound(0) != 0 {
		t.Errorf("of no durations the longest is %v", none.upperBound(0))
	}
}

// TestRareSteps: a stall counts in full among few steps, and no more among a thousand; a tenth of the steps always do.
func TestRareSteps(t *testing.T) {
	var l longest
	at := time.Unix(1000, 0)
	add := func(d time.Duration, n int) {
		for range n {
			at = at.Add(10 * time.Millisecond)
			l.addStep(d, at)
		}
	}
	bound := func(low, high time.Duration) {
		t.Helper()
		if got := l.stepBound(); got < low || got > high {
			t.Errorf("the bound is %v, want %v to %v", got, low, high)
		}
	}
	add(10*time.Millisecond, 500)
	add(80*time.Millisecond, 1)
	bound(80*time.Millisecond, 80*time.Millisecond)
	add(10*time.Millisecond, 500)
	bound(10*time.Millisecond, 11*time.Millisecond)
	add(20*time.Millisecond, 100)
	bound(20*time.Millisecond, 22*time.Millisecond)
	for range 2 { // what comes after a window is over
		at = at.Add(window)
		add(5*time.Millisecond, 10)
	}
	bound(5*time.Millisecond, 6*time.Millisecond)
}
