package networktest

import (
	"math"
)

// checkSums compares a result with what the oracle says.
func (d *device) checkSums(what string, got Array, want []Sum) {
	d.t.Helper()
	if len(got.V) != len(want) {
		d.t.Fatalf("%s: %d values, want %d", what, len(got.V), len(want))
	}
	for i, w := range want {
		g := got.V[i]
		if g == w.Value || math.IsNaN(w.Value) && math.IsNaN(g) || math.Abs(g-w.Value) <= w.Bound() && !math.IsInf(g, 0) {
			continue
		}
		d.t.Fatalf("%s: element %d of %v is %v, want %v: error %.3g, bound %.3g", what, i, got.Shape, g, w.Value, math.Abs(g-w.Value), w.Bound())
	}
}

// checkEqual compares a result that is exact.
func (d *device) checkEqual(what string, got Array, want []float64) {
	d.t.Helper()
	if len(got.V) != len(want) {
		d.t.Fatalf("%s: %d values, want %d", what, len(got.V), len(want))
	}
	for i, w := range want {
		if g := got.V[i]; g != w && !(math.IsNaN(g) && math.IsNaN(w)) {
			d.t.Fatalf("%s: element %d of %v is %v, want %v", what, i, got.Shape, g, w)
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
