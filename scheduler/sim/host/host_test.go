package host

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

func systems() map[string]System {
	m := map[string]System{"sequential": {Sequential: true}, "free": {Free: true}}
	for _, p := range stages.Policies() {
		for slots := range 4 {
			m[string(p)+string(rune('1'+slots))] = System{Slots: stages.Parameters{Slots: slots + 1, Policy: p, LostCause: time.Hour, Express: slots == 2}, Rest: slots > 1, Yields: slots == 1}
		}
	}
	return m
}

func draw(rng *rand.Rand, n int) (list []Request) {
	ms := func(n int) time.Duration { return time.Duration(1+rng.IntN(n)) * time.Millisecond }
	for i := range n {
		r := Request{At: time.Duration(i) * 50 * time.Millisecond, Within: time.Second + 20*ms(100), Kind: "r"}
		for k := range 1 + rng.IntN(4) {
			p := Part{Kind: "cpu", Takes: ms(100), Took: ms(100)}
			if k%2 == 1 {
				p = Part{Kind: "pass", Takes: ms(30), Took: ms(30), Device: true}
			} else if rng.IntN(2) == 0 {
				p.Chunk = 20 * time.Millisecond
			}
			r.Parts = append(r.Parts, p)
		}
		list = append(list, r)
	}
	return list
}

func took(r *Record) (sum time.Duration) {
	for _, p := range r.Parts {
		sum += p.Took
	}
	return sum
}

// TestNothingIsFasterThanItsParts, all that is not dropped is answered, and processors and device do no more than they can.
func TestNothingIsFasterThanItsParts(t *testing.T) {
	for name, system := range systems() {
		for _, h := range []Host{{Processors: 2}, {Processors: 2, Threads: 2}, {Processors: 1, Threads: 1}} {
			records := h.Run(system, slices.Values(draw(rand.New(rand.NewPCG(1, 2)), 200)))
			var last, work, passes time.Duration
			for i, r := range records {
				if !r.Answered && !(system.Slots.Policy == stages.OnTime) {
					t.Fatalf("%s: request %d is not answered", name, i)
				}
				if r.Answered && (r.Latency < took(r)/time.Duration(max(1, h.Threads))-time.Microsecond || len(r.Ran) != len(r.Parts)) {
					t.Fatalf("%s: request %d took %v for %v, %d parts of %d ran", name, i, r.Latency, took(r), len(r.Ran), len(r.Parts))
				}
				last = max(last, r.At+r.Latency)
				work += r.Processors()
				for k := range r.Ran {
					if r.Parts[k].Device {
						passes += r.Parts[k].Took
					}
				}
			}
			if h.Threads > 0 {
				work += passes
			}
			if most := time.Duration(h.Processors) * last; work > most+time.Millisecond {
				t.Errorf("%s: %v of work in %v", name, work, most)
			}
		}
	}
}

// TestOneRequestAloneTakesItsParts, in every system.
func TestOneRequestAloneTakesItsParts(t *testing.T) {
	for name, system := range systems() {
		r := Host{Processors: 2}.Run(system, slices.Values(draw(rand.New(rand.NewPCG(3, 4)), 1)))[0]
		if d := r.Latency - took(r); !r.Answered || d.Abs() > time.Microsecond {
			t.Errorf("%s: it takes %v, want %v", name, r.Latency, took(r))
		}
	}
}

// TestProcessorsAreShared: three stages on two processors each have two thirds of one.
func TestProcessorsAreShared(t *testing.T) {
	one := Request{Within: time.Hour, Parts: []Part{{Kind: "cpu", Takes: 200 * time.Millisecond, Took: 200 * time.Millisecond}}}
	for _, r := range (Host{Processors: 2}).Run(System{Free: true}, slices.Values([]Request{one, one, one})) {
		if d := r.Latency - 300*time.Millisecond; d.Abs() > time.Microsecond {
			t.Errorf("it takes %v, want 300ms", r.Latency)
		}
	}
}
