package media

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestClockOnlyGoesOn: whatever a source says, times grow, by no more than is said or has passed; where it says sensible times they are those.
func TestClockOnlyGoesOn(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := Clock{Step: time.Duration(r.IntN(100)) * time.Millisecond, Leap: 10 * time.Second}
		now, said, last, jumps := time.Unix(1, 0), time.Duration(r.IntN(1000)), time.Duration(-1), 0
		for i := range 200 {
			passed := time.Duration(r.IntN(2000)) * time.Millisecond
			now = now.Add(passed)
			before, sensible := said, false
			switch n := r.IntN(20); {
			case n == 0:
				said = time.Duration(r.Uint64()) // of any sign and size
			case n == 1: // it stands still
			case n == 2:
				said = before - time.Duration(r.IntN(400_000))*time.Millisecond
			case n == 3:
				said = math.MinInt64
			default:
				said, sensible = before+passed+time.Duration(r.IntN(100))*time.Millisecond+1, before >= -farthest && before < farthest
			}
			at, jumped := c.Time(said, now)
			if i > 0 && at <= last {
				t.Fatalf("seed %d: %v behind %v", seed, at, last)
			}
			if sensible && i > 0 && (jumped || last+said-before != at && at != last+time.Millisecond) {
				t.Fatalf("seed %d: %v grew to %v and was given as %v behind %v, jumped %t", seed, before, said, at, last, jumped)
			}
			if i > 0 && at-last > passed+c.Leap+c.Step+time.Second {
				t.Fatalf("seed %d: %v behind %v after %v", seed, at, last, passed)
			}
			if last = at; jumped {
				jumps++
			}
		}
		if jumps == 0 {
			t.Errorf("seed %d: no discontinuity is told of", seed)
		}
	}
}

// TestClockGoesOn over what happens to cameras and files, each with the time that is right.
func TestClockGoesOn(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for name, frames := range map[string][]struct {
		passed, said, want time.Duration
		jumped             bool
	}{
		"a camera whose clock is set back":          {{0, 5 * s, 5 * s, false}, {100 * ms, 5*s + 100*ms, 5*s + 100*ms, false}, {100 * ms, -295 * s, 5*s + 200*ms, true}, {100 * ms, -295*s + 100*ms, 5*s + 300*ms, false}},
		"a camera whose clock is set ahead":         {{0, 0, 0, false}, {100 * ms, 300 * s, 100 * ms, true}, {100 * ms, 300*s + 100*ms, 200 * ms, false}},
		"a camera that gives all frames one time":   {{0, 7 * s, 7 * s, false}, {200 * ms, 7 * s, 7*s + 200*ms, true}, {200 * ms, 7 * s, 7*s + 400*ms, true}},
		"a slow camera":                             {{0, 0, 0, false}, {20 * s, 20 * s, 20 * s, false}, {0, 25 * s, 25 * s, false}},
		"a file that another is joined to":          {{0, 4 * s, 4 * s, false}, {0, 0, 4*s + 40*ms, true}, {0, 40 * ms, 4*s + 80*ms, false}},
		"a file that a much later one is joined to": {{0, 4 * s, 4 * s, false}, {0, 26 * 3600 * s, 4*s + 40*ms, true}},
	} {
		c, now := Clock{Step: 40 * ms, Leap: 10 * s}, time.Unix(1, 0)
		for i, f := range frames {
			now = now.Add(f.passed)
			if at, jumped := c.Time(f.said, now); at != f.want || jumped != f.jumped {
				t.Errorf("%s, frame %d: %v, jumped %t; want %v, %t", name, i, at, jumped, f.want, f.jumped)
			}
		}
	}
}

// TestClockReopened goes on by as long as a camera was away, and counts no discontinuity.
func TestClockReopened(t *testing.T) {
	var c Clock
	now := time.Unix(100, 0)
	c.Resume(10*time.Second, now)
	for i, f := range []struct{ wait, said, want time.Duration }{
		{3 * time.Second, 0, 13 * time.Second}, // opened 3 s after the process began
		{time.Second, time.Second, 14 * time.Second},
		{5 * time.Second, 0, 19 * time.Second}, // opened anew
		{0, time.Second, 20 * time.Second},
	} {
		if now = now.Add(f.wait); i == 0 || i == 2 {
			c.Reopen()
		}
		if got, jumped := c.Time(f.said, now); got != f.want || jumped {
			t.Errorf("step %d: %v, jumped %t; want %v", i, got, jumped, f.want)
		}
	}
	c.Reopen()
	now = now.Add(2 * time.Second)
	if at := c.Untimed(now); at != 22*time.Second {
		t.Errorf("opened anew without a time: %v", at)
	}
	if at, jumped := c.Time(0, now.Add(time.Second)); at != 22*time.Second+time.Millisecond || jumped {
		t.Errorf("behind a frame without a time: %v, jumped %t", at, jumped)
	}
	var fresh Clock
	first, second := fresh.Untimed(now), fresh.Untimed(now)
	if at, jumped := fresh.Time(5*time.Second, now); first != 0 || second != time.Millisecond || at != 5*time.Second || jumped {
		t.Errorf("without times %v, %v, then %v, jumped %t", first, second, at, jumped)
	}
}
