package residency

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestVictimsAreInOrder: victims are as if all were compared with each other: those of no whole model first, then those whose best
// demand is worst, then those used longest ago, then the greatest number.
func TestVictimsAreInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 3000 {
		d := newDevice(t, rng)
		for range 30 {
			d.demands = d.demands[:0]
			for id := range d.specs {
				if rng.IntN(2) == 0 {
					d.demands = append(d.demands, Demand{Model: id, Work: Frames{Run: 1, Frames: 1, Share: float64(rng.IntN(3)) / 2}, Kept: rng.IntN(9) == 0})
				}
			}
			slices.SortFunc(d.demands, func(a, b Demand) int { return cmp.Compare(a.Model, b.Model) })
			if a, ok := d.m.Next(d.demands); ok {
				d.m.Loaded(a.Load)
			}
			for _, l := range d.demands {
				if d.m.Ready(l.Model) {
					if _, ok := d.m.Begin(l.Model, 0, d.demands); ok {
						d.m.End(l.Model, 0)
					}
				}
			}
			d.m.weighDemands(d.demands)
			if !slices.IsSortedFunc(d.m.victims, compareVictims) {
				t.Fatalf("victims are %+v", d.m.victims)
			}
			checkVictims(t, d.m)
		}
	}
}

func compareVictims(v, w victim) int {
	return cmp.Or(
		cmp.Compare(min(v.chunk.whole, 1), min(w.chunk.whole, 1)), cmp.Compare(w.key, v.key),
		cmp.Compare(v.chunk.used, w.chunk.used), cmp.Compare(w.chunk.id, v.chunk.id))
}

// checkVictims counts them: all that are there and are not kept.
func checkVictims(t *testing.T, m *Memory) {
	t.Helper()
	want, sum := 0, int64(0)
	for _, c := range m.chunks {
		if c != nil && c.state == resident && c.keeps == 0 && (c.round != m.round || !c.fixed) {
			want++
		}
	}
	for _, v := range m.victims {
		if sum += v.chunk.bytes; v.sum != sum {
			t.Fatalf("the sum of %d is %d, want %d", v.chunk.id, v.sum, sum)
		}
	}
	if len(m.victims) != want {
		t.Fatalf("%d victims, want %d", len(m.victims), want)
	}
}
