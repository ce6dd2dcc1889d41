// Package kerneltest is the suite that every kernels.Backend runs: each operation against a slow
// oracle in float64, the independence of a row's bits from everything around it, random shapes, and
// benchmarks. Its oracle is not kernels/ref, which is a backend under test too and computes in float32; and it is not networktest's, whose
// operations are others: on tensors of any strides, not on rows of matrices.
package kerneltest

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// Tolerance bounds the error of a backend. Max bounds the error of each element, relative to the
// larger of its expected value and the root mean square of all expected values; RMS bounds the root
// mean square of the errors, relative to that of the expected values. Where an operation adds, the
// values are what it adds.
type Tolerance struct {
	Max, RMS float64
}

// Open makes a backend for one test and arranges for its Close.
type Open = func(t testing.TB) kernels.Backend

// Run tests every operation of the backend that open returns.
func Run(t *testing.T, open Open, tol Tolerance) {
	s := suite{open: open, tol: tol}
	t.Run("Buffer", s.testBuffer)
	t.Run("Free", s.testFree)
	t.Run("Embed", s.testEmbed)
	t.Run("NormLinear", s.testNormLinear)
	t.Run("AddLinear", s.testAddLinear)
	t.Run("MLP", s.testMLP)
	t.Run("CentredLinear", s.testCentredLinear)
	t.Run("CentredMLP", s.testCentredMLP)
	t.Run("AddNorm", s.testAddNorm)
	t.Run("Products", s.testProducts)
	t.Run("LowRank", s.testLowRank)
	t.Run("Logits", s.testLogits)
	t.Run("Attention", s.testAttention)
	t.Run("CappedAttention", s.testCappedAttention)
	t.Run("WholeNorms", s.testWholeNorms)
	t.Run("CopiedBlocks", s.testCopiedBlocks)
	t.Run("SharedPrefix", s.testSharedPrefix)
	t.Run("AttentionExtremes", s.testAttentionExtremes)
	t.Run("NormExtremes", s.testNormExtremes)
	t.Run("RowsOfLinears", s.testRowsOfLinears)
	t.Run("RowsOfAttention", s.testRowsOfAttention)
	t.Run("Malformed", s.testMalformed)
	t.Run("Rank", s.testRank)
}

type suite struct {
	open Open
	tol  Tolerance

	// Of weights in codes:
	quantised bool // what they are multiplied with is, too
	ranks     int  // how many quantise a part each of the rows that AddLinear and MLP multiply
}

// checkValues compares results with what the oracle says.
func checkValues(t testing.TB, what string, tol Tolerance, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	square, squareError := 0.0, 0.0
	for i := range want {
		e := got[i] - want[i]
		if math.IsNaN(e) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
		square += want[i] * want[i]
		squareError += e * e
	}
	n := float64(max(1, len(want)))
	scale, rms := math.Sqrt(square/n), math.Sqrt(squareError/n)
	if rms > tol.RMS*scale {
		t.Errorf("%s: root mean square of errors %.3g, bound %.3g", what, rms, tol.RMS*scale)
	}
	for i := range want {
		if e, bound := math.Abs(got[i]-want[i]), tol.Max*max(scale, math.Abs(want[i])); e > bound {
			t.Errorf("%s: element %d is %v, want %v: error %.3g, bound %.3g", what, i, got[i], want[i], e, bound)
			return
		}
	}
}

func subtractValues(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}
