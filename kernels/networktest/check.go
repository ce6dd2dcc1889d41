package networktest

import "math"

// sum is what the oracle says of a sum: its value, the sum of its terms' absolute values, and their number.
type sum struct {
	value, size float64
	terms       int
}

func (s *sum) add(term float64) {
	s.value += term
	s.size += math.Abs(term)
	s.terms++
}

// scaled is the sum of terms that are each multiplied.
func (s sum) scaled(factor float64) sum { return sum{s.value * factor, s.size * factor, s.terms} }

// bound is how far a sum in float32, in any order, may be off: rounding errors are random, so that their sum
// grows with the root of their number.
func (s sum) bound() float64 {
	return (4+2*math.Sqrt(float64(s.terms)))*0x1p-24*s.size + 0x1p-149*float64(s.terms+1)
}

// checkSums compares a result with what the oracle says.
func (d *device) checkSums(what string, got array, want []sum) {
	d.t.Helper()
	if len(got.v) != len(want) {
		d.t.Fatalf("%s: %d values, want %d", what, len(got.v), len(want))
	}
	for i, w := range want {
		g := got.v[i]
		if g == w.value || math.IsNaN(w.value) && math.IsNaN(g) || math.Abs(g-w.value) <= w.bound() && !math.IsInf(g, 0) {
			continue
		}
		d.t.Fatalf("%s: element %d of %v is %v, want %v: error %.3g, bound %.3g", what, i, got.shape, g, w.value, math.Abs(g-w.value), w.bound())
	}
}

// checkEqual compares a result that is exact.
func (d *device) checkEqual(what string, got array, want []float64) {
	d.t.Helper()
	if len(got.v) != len(want) {
		d.t.Fatalf("%s: %d values, want %d", what, len(got.v), len(want))
	}
	for i, w := range want {
		if g := got.v[i]; g != w && !(math.IsNaN(g) && math.IsNaN(w)) {
			d.t.Fatalf("%s: element %d of %v is %v, want %v", what, i, got.shape, g, w)
		}
	}
}

// sameBits compares two results that must not differ.
func (d *device) sameBits(what string, got, want []uint32) {
	d.t.Helper()
	if len(got) != len(want) {
		d.t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if got[i] != w {
			d.t.Fatalf("%s: element %d is %v, by itself %v: other bits", what, i, math.Float32frombits(got[i]), math.Float32frombits(w))
		}
	}
}

// ulps is the distance of two float32 numbers, counted in numbers; infinity comes after the largest one.
func ulps(a, b float32) int64 {
	order := func(x float32) int64 {
		bits := int64(math.Float32bits(x) & 0x7fffffff)
		if math.Signbit(float64(x)) {
			return -bits
		}
		return bits
	}
	n := order(a) - order(b)
	return max(n, -n)
}
