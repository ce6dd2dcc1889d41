package oracle

import "math"

// Sum is a sum, with what says how far off it may be in float32.
type Sum struct {
	Value float64
	size  float64 // the sum of the terms' absolute values
	terms int
}

func (s *Sum) add(term float64) {
	s.Value += term
	s.size += math.Abs(term)
	s.terms++
}

// scaled is the sum of terms that are each multiplied.
func (s Sum) scaled(factor float64) Sum { return Sum{s.Value * factor, s.size * factor, s.terms} }

// Bound is how far a sum in float32, in any order, may be off: rounding errors are random, so that their sum
// grows with the root of their number.
func (s Sum) Bound() float64 {
	return (4+2*math.Sqrt(float64(s.terms)))*0x1p-24*s.size + 0x1p-149*float64(s.terms+1)
}
