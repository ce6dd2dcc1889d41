package lidar

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// inside says whether a point is in a prism, by its corner's coordinates.
func (p *prism) inside(x, y, z float64) bool {
	sin, cos := math.Sincos(p.Yaw)
	dx, dy := x-p.X, y-p.Y
	return z >= p.low && z <= p.high && math.Abs(dx*cos+dy*sin) <= p.Length/2 && math.Abs(-dx*sin+dy*cos) <= p.Width/2
}

// TestCast: rays hit what one that goes on by a centimetre at a time is first in.
func TestCast(t *testing.T) {
	const step = 0.01
	things, _ := NewStreet(7).thingsInReach(3 * time.Second)
	ranges, hits := castRays(things)
	r, met := rand.New(rand.NewPCG(1, 1)), 0
	for range 600 {
		column, beam := r.IntN(columns), r.IntN(beams)
		sin, cos := math.Sincos(float64(column) * betweenRays)
		want := math.Inf(1)
		for d := step; d < reach && math.IsInf(want, 1); d += step {
			z := mountedAt + d*beamRise[beam]
			if z <= 0 || slices.ContainsFunc(things, func(p prism) bool { return p.inside(d*cos, d*sin, z) }) {
				want = d
			}
		}
		got := ranges[column][beam]
		if !math.IsInf(want, 1) && hits[column][beam] >= 0 {
			met++
		}
		// What is thinner than a step is jumped over.
		if math.Abs(got-want) > 2*step && (got < reach || want < reach) && !grazes(things, hits[column][beam], got, column, beam) {
			t.Errorf("column %d, beam %d: %.3f, want %.3f", column, beam, got, want)
		}
	}
	if met < 100 {
		t.Errorf("%d rays hit things", met)
	}
}

// grazes says that a ray is in what it hits for less than a few centimetres.
func grazes(things []prism, hit int, at float64, column, beam int) bool {
	if hit < 0 {
		return false
	}
	d := at + 0.02
	sin, cos := math.Sincos(float64(column) * betweenRays)
	return !things[hit].inside(d*cos, d*sin, mountedAt+d*beamRise[beam])
}

// TestSweep: sweeps are the same a second time and differ by seed and time; points that are said to be of cars are on them.
func TestSweep(t *testing.T) {
	s := NewStreet(3)
	sweep, again := s.Sweep(2*time.Second), NewStreet(3).Sweep(2*time.Second)
	if !slices.Equal(sweep.Points, again.Points) || !slices.Equal(sweep.Cars, again.Cars) {
		t.Error("the sweep is not the same a second time")
	}
	if slices.Equal(sweep.Points, s.Sweep(2100*time.Millisecond).Points) || slices.Equal(sweep.Points, NewStreet(4).Sweep(2*time.Second).Points) {
		t.Error("another time or street looks the same")
	}
	seen := map[int]int{}
	for i, p := range sweep.Points {
		of := sweep.Of[i]
		if of < 0 {
			continue
		}
		seen[of]++
		around := prism{Box: sweep.Cars[of], high: 3}
		around.Length, around.Width = around.Length+0.3, around.Width+0.3
		if !around.inside(float64(p.X), float64(p.Y), float64(p.Z)) {
			t.Fatalf("point %v is said to be on the car at %v", p, sweep.Cars[of])
		}
	}
	if len(sweep.Points) < 8000 || len(seen) < 6 {
		t.Errorf("%d points, of %d cars", len(sweep.Points), len(seen))
	}
}

// TestCarsStayApart: cars do not stand in each other.
func TestCarsStayApart(t *testing.T) {
	for seed := range uint64(6) {
		_, cars := NewStreet(seed).thingsInReach(5 * time.Second)
		for i, a := range cars {
			for _, b := range cars[:i] {
				if math.Hypot(a.X-b.X, a.Y-b.Y) < 2 {
					t.Errorf("street %d: cars at %v and %v", seed, a, b)
				}
			}
		}
	}
}
