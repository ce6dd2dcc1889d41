package residency

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// arrivals feeds streams of some period to a ledger for so many seconds, the n-th of them beginning n periods / streams
// late, and returns how many frames of each were refused after the first second.
func arrivals(l *Reservations, streams int, period, seconds float64, f Reservation, block float64, jitter float64) (refused []int) {
	rng := rand.New(rand.NewPCG(1, 1))
	refused = make([]int, streams)
	for k := 0; float64(k)*period < seconds; k++ {
		for i := range streams {
			at := float64(k)*period + float64(i)*period/float64(streams) + jitter*rng.Float64()
			if r := l.Admit(at, fmt.Sprint(i), f, block); r != nil && at > 1 {
				refused[i]++
			}
		}
	}
	return refused
}

// TestAdmission holds the test to the arithmetic: what fits is taken, the stream that comes last is what is not.
func TestAdmission(t *testing.T) {
	const fps = 1.0 / 30
	for _, tt := range []struct {
		name     string
		streams  int
		cost     float64
		deadline float64
		block    float64
		admitted int
	}{
		{"0.69 of the device", 23, 0.001, fps, 0, 23},
		{"0.72", 24, 0.001, fps, 0, 23},
		{"a layer of 5.9 ms leaves more than is promised", 23, 0.001, fps, 0.0059, 23},
		{"a layer of 284 ms leaves nothing", 1, 0.001, fps, 0.284, 0},
		{"a chunk of 15 ms leaves 0.45", 23, 0.001, fps, 0.015, 15},
		{"deadlines of half a period leave half of the device", 23, 0.001, fps / 2, 0, 15},
		{"deadlines of three periods", 30, 0.001, 3 * fps, 0.015, 23},
		{"one frame takes longer than its deadline", 1, 0.05, fps, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &Reservations{}
			admitted := 0
			for i, n := range arrivals(l, tt.streams, fps, 5, Reservation{"m", tt.cost, tt.deadline, 0}, tt.block, 0.002) {
				if n == 0 {
					admitted++
					if i != admitted-1 {
						t.Errorf("stream %d is served, one before it is not", i)
					}
				} else if n < 100 {
					t.Errorf("stream %d has %d frames refused: it comes and goes", i, n)
				}
			}
			if admitted != tt.admitted {
				t.Errorf("%d streams are served, want %d", admitted, tt.admitted)
			}
			if use := l.Use(5); use > MostReserved*slack {
				t.Errorf("%.2f of the device is promised", use)
			}
		})
	}
}

// TestAStreamThatEndsLeavesItsRoom, and is not forgotten between two of its frames.
func TestAStreamThatEndsLeavesItsRoom(t *testing.T) {
	l := &Reservations{}
	slow := Reservation{"m", 1.2, 2, 0}
	for k := range 10 {
		if r := l.Admit(2*float64(k), "slow", slow, 0); r != nil {
			t.Fatalf("frame %d: %v", k, r)
		}
	}
	r := l.Admit(19, "other", Reservation{"n", 0.4, 1, 0}, 0)
	if r == nil || !strings.Contains(r.Error(), "100 % of the device, the limit is 70 %") {
		t.Errorf("beside it another gets %v", r)
	}
	if !l.Needs(19, "m") || l.Needs(19, "n") || !l.Holds("slow") || l.Holds("other") {
		t.Error("what is promised is not what was admitted")
	}
	if r := l.Admit(39, "other", Reservation{"n", 0.4, 1, 0}, 0); r != nil {
		t.Errorf("after its end: %v", r)
	}
}

// TestAFasterStreamIsOut: one that sends more than it was admitted for is refused, not those before it.
func TestAFasterStreamIsOut(t *testing.T) {
	l := &Reservations{}
	f := Reservation{"m", 0.01, 0.1, 0}
	out := map[string]int{}
	for k := range 400 {
		at := float64(k) * 0.01
		if k%10 == 0 {
			if l.Admit(at, "steady", f, 0) != nil {
				out["steady"]++
			}
		}
		if k%10 == 5 || k > 200 {
			if l.Admit(at+0.001, "growing", f, 0) != nil {
				out["growing"]++
			}
		}
	}
	if out["steady"] > 0 || out["growing"] == 0 {
		t.Errorf("refused %v", out)
	}
}

// TestForget holds that the streams of a model are dropped with it, and no others.
func TestForget(t *testing.T) {
	l := &Reservations{}
	for i, model := range []string{"faces", "cars", "faces"} {
		if r := l.Admit(0, string(rune('a'+i)), Reservation{Model: model, Cost: 0.001, Deadline: 1}, 0); r != nil {
			t.Fatal(r)
		}
	}
	l.Forget("faces")
	if l.Holds("a") || !l.Holds("b") || l.Holds("c") || l.Needs(0, "faces") || !l.Needs(0, "cars") {
		t.Errorf("models %v are left", l.Models(0))
	}
}

// TestSpare: what is left to streams that were admitted is not there for others, and they are out when it is used up.
func TestSpare(t *testing.T) {
	l := &Reservations{}
	f := Reservation{"m", 0.03, 0.1, 0}
	admit := func(k int, name string, block float64, want bool) {
		t.Helper()
		if r := l.Admit(float64(k)*0.1, name, f, block); (r == nil) != want {
			t.Errorf("frame %d of %s beside steps of %v: %v", k, name, block, r)
		}
	}
	for k := range 10 {
		admit(k, "one", 0.02, true)
		admit(k, "two", 0.02, true)
	}
	admit(10, "one", 0.039, true)
	admit(11, "one", 0.039, true)
	f.Cost = 0.001
	admit(11, "three", 0.039, false)
	f.Cost = 0.03
	admit(12, "one", 0.041, true) // it comes before two
	admit(12, "two", 0.041, false)
	admit(13, "two", 0.035, false)
	admit(14, "two", 0.029, true)
}

// TestPriority: streams of a higher number stand back: they are admitted by what all others need, and refused when one of those comes that needs their room; and
// a frame of a later deadline counts as work that others wait for.
func TestPriority(t *testing.T) {
	l := &Reservations{}
	frame, gradient := Reservation{"m", 0.02, 0.1, 0}, Reservation{"m", 0.05, 1, 1}
	admit := func(now float64, name string, f Reservation, want bool) {
		t.Helper()
		if r := l.Admit(now, name, f, 0.01); (r == nil) != want {
			t.Errorf("%s at %v: %v", name, now, r)
		}
	}
	admit(0, "one", frame, true)
	admit(0, "one/gradient", gradient, true) // 0.05/0.1 and 0.2 + 0.05
	admit(0.1, "two", frame, true)           // 0.01/0.1 and 0.4
	admit(0.1, "two/gradient", gradient, false)
	for n := range 19 {
		admit(0.2+0.1*float64(n), "one", frame, true)
		admit(0.2+0.1*float64(n), "two", frame, true)
	}
	admit(2, "short", Reservation{"m", 0.01, 0.04, 0}, false) // 0.02/0.04, for which it may wait for one of the others, and 0.65
	admit(2, "one/gradient", gradient, true)                  // 0.05/0.1 and 0.45: it was admitted before
	admit(2, "four", Reservation{"m", 0.01, 0.1, 0}, true)    // 0.01/0.1 and 0.5
	admit(2.1, "one/gradient", gradient, false)
}
