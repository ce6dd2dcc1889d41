package networktest

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// Sum is a sum, with what says how far off it may be in float32.
type Sum struct {
	Value float64
	size  float64 // the sum of the terms' absolute values
	terms int
}

func (s *Sum) addTerm(term float64) {
	s.Value += term
	s.size += math.Abs(term)
	s.terms++
}

// scaledBy is the sum of terms that are each multiplied.
func (s Sum) scaledBy(factor float64) Sum { return Sum{s.Value * factor, s.size * factor, s.terms} }

// Bound is how far a sum in float32, in any order, may be off: rounding errors are random, so that their sum
// grows with the root of their number.
func (s Sum) Bound() float64 {
	return (4+2*math.Sqrt(float64(s.terms)))*0x1p-24*s.size + 0x1p-149*float64(s.terms+1)
}

// Interpolate sums the taps of x along a dimension.
func Interpolate(x Array, dim int, taps kernels.Taps) []Sum {
	out := slices.Clone(x.Shape)
	out[dim] = len(taps.Start) - 1
	var sums []Sum
	Places(out, func(at []int) {
		from, s := slices.Clone(at), Sum{}
		for j := taps.Start[at[dim]]; j < taps.Start[at[dim]+1]; j++ {
			from[dim] = int(taps.Index[j])
			s.addTerm(x.elementAt(from) * float64(taps.Weight[j]))
		}
		sums = append(sums, s)
	})
	return sums
}

// MatMul multiplies matrices, which are the last two dimensions.
func MatMul(a, b Array) []Sum {
	batch := len(a.Shape) - 2
	m, n, k := a.Shape[batch], b.Shape[batch+1], b.Shape[batch]
	lead := a.Shape[:batch:batch]
	var sums []Sum
	Places(append(lead, m, n), func(at []int) {
		s, lead := Sum{}, at[:batch:batch]
		for i := range k {
			s.addTerm(a.elementAt(append(lead, at[batch], i)) * b.elementAt(append(lead, i, at[batch+1])))
		}
		sums = append(sums, s)
	})
	return sums
}

// neutral is a reduction's result of nothing.
var neutral = map[kernels.Reduction]float64{kernels.Product: 1, kernels.Largest: math.Inf(-1), kernels.Smallest: math.Inf(1)}

// Reduce makes x a shape of which each dimension is that of x or 1.
func Reduce(x Array, how kernels.Reduction, shape []int) []Sum {
	out := Array{Shape: shape}
	sums := make([]Sum, Product(shape))
	for i := range sums {
		sums[i].Value = neutral[how]
	}
	Places(x.Shape, func(at []int) {
		to := slices.Clone(at)
		for i := range to {
			to[i] = min(to[i], shape[i]-1)
		}
		s, v := &sums[out.elementIndex(to)], x.elementAt(at)
		switch how {
		case kernels.Sum:
			s.addTerm(v)
		case kernels.Product:
			s.Value *= v
			s.terms++
		case kernels.Largest:
			s.Value = max(s.Value, v)
		case kernels.Smallest:
			s.Value = min(s.Value, v)
		}
	})
	if how == kernels.Product { // errors add up, not at random where factors repeat
		for i := range sums {
			sums[i].size = math.Abs(sums[i].Value) * math.Sqrt(float64(sums[i].terms))
		}
	}
	return sums
}
