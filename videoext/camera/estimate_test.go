package camera

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// wire carries bytes at a rate, and what it has carried is acknowledged a round trip later: as dumb as it can be, millisecond by millisecond.
type wire struct {
	now       time.Duration
	rtt       time.Duration
	rate      float64 // bytes a second
	waiting   float64
	carried   float64
	given     int
	delivered []int // at each millisecond
}

func (w *wire) run(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += time.Millisecond {
		step := min(w.waiting, w.rate/1000)
		w.waiting -= step
		w.carried += step
		w.delivered = append(w.delivered, int(math.Round(w.carried)))
	}
}

func (w *wire) give(bytes int) { w.given, w.waiting = w.given+bytes, w.waiting+float64(bytes) }

// seen is what the camera sees: how much is acknowledged, and how much is not.
func (w *wire) seen() (delivered, outstanding int) {
	if at := len(w.delivered) - 1 - int(w.rtt/time.Millisecond); at >= 0 {
		delivered = w.delivered[at]
	}
	return delivered, w.given - delivered
}

// watch lets time pass in ticks that are never quite the same.
func (w *wire) watch(e *estimate, r *rand.Rand, d time.Duration, each func()) {
	for end := w.now + d; w.now < end; {
		w.run(tick/2 + time.Duration(r.IntN(int(tick/time.Millisecond)))*time.Millisecond)
		delivered, outstanding := w.seen()
		e.observeDelivery(w.now, delivered, outstanding)
		each()
	}
}

// TestEstimate: while enough waits, the estimate comes to what the wire carries, whatever the round trip and the sizes of messages are; a
// wire that carries nothing is said to, and one that carries again is known anew.
func TestEstimate(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		rate := math.Exp(math.Log(20e3) + r.Float64()*math.Log(100)) // 160 kbit to 16 Mbit a second
		w := &wire{rtt: time.Duration(r.IntN(300)) * time.Millisecond, rate: rate}
		e := &estimate{}
		if l := e.methodLink(); l.Bandwidth != 0 || l.Backlog != 0 {
			t.Errorf("before anything was sent the link is %+v", l)
		}
		busy := func() { // so much that it never waits for more
			if l := e.methodLink(); l.Bandwidth > 0 && l.Backlog != w.given-e.delivered {
				t.Errorf("seed %d: %d bytes wait, want %d", seed, l.Backlog, w.given-e.delivered)
			}
			if w.waiting < rate {
				w.give(int(rate * (0.5 + r.Float64())))
			}
		}
		near := func(when string, want float64) {
			t.Helper()
			if off := e.methodLink().Bandwidth/want - 1; math.Abs(off) > 0.15 {
				t.Errorf("seed %d, %s: %.0f bytes a second, want %.0f, %.0f %% off; round trip %v", seed, when, e.methodLink().Bandwidth, want, 100*off, w.rtt)
			}
		}
		busy()
		w.watch(e, r, 4*time.Second, busy)
		near("busy", rate)
		w.rate = rate / 4
		w.watch(e, r, 4*time.Second, busy)
		near("at a quarter", rate/4)
		w.rate = 0
		w.watch(e, r, 2*quiet, busy)
		if got := e.methodLink().Bandwidth; got != nothing {
			t.Errorf("seed %d: a link that carries nothing is said to carry %v", seed, got)
		}
		if stalled := e.stalledFor(w.now); stalled < quiet || stalled > 2*quiet+2*tick {
			t.Errorf("seed %d: nothing has come for %v, want about %v", seed, stalled, 2*quiet-w.rtt)
		}
		w.rate = rate
		w.watch(e, r, w.rtt+700*time.Millisecond, busy)
		near("again", rate)
	}
}

// TestEstimateOfBursts: of segments with pauses between them, the estimate is never far above what the wire carries, and not far below
// it when a segment takes some time.
func TestEstimateOfBursts(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		rate := math.Exp(math.Log(50e3) + r.Float64()*math.Log(20))
		w := &wire{rtt: time.Duration(r.IntN(150)) * time.Millisecond, rate: rate}
		e := &estimate{}
		for segment := range 20 {
			w.give(int(rate * (0.4 + r.Float64())))
			w.watch(e, r, time.Second+time.Duration(r.IntN(1500))*time.Millisecond, func() {
				if got := e.methodLink().Bandwidth; got > 1.1*rate || segment > 5 && got < 0.8*rate {
					t.Fatalf("seed %d, segment %d: %.0f bytes a second, want %.0f; round trip %v", seed, segment, got, rate, w.rtt)
				}
			})
		}
		for range 30 { // what is small says nothing of a link that is known
			w.give(1 + int(rate/100))
			w.watch(e, r, 500*time.Millisecond, func() {})
		}
		if got := e.methodLink().Bandwidth; got > 1.1*rate || got < 0.8*rate {
			t.Errorf("seed %d, after small messages: %.0f bytes a second, want %.0f", seed, got, rate)
		}
	}
}
