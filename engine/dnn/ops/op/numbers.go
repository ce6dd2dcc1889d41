package op

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Number is what elements are computed as: floats as float64, uint64 as it is, and other integers as int64.
type Number interface{ float64 | int64 | uint64 }

// Truth is 1 or 0.
func Truth[T Number](b bool) T {
	if b {
		return 1
	}
	return 0
}

// Mapped replaces elements by f of them.
func Mapped[T any](f func(T) T, x []T) []T {
	for i, v := range x {
		x[i] = f(v)
	}
	return x
}

// Filled are n times the same.
func Filled[T any](n int, value T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = value
	}
	return out
}

// Converted are the same bits as other integers.
func Converted[B, A int64 | uint64](x []A) []B {
	out := make([]B, len(x))
	for i, v := range x {
		out[i] = B(v)
	}
	return out
}

// Indexed are f of 0 to n-1.
func Indexed(n int, f func(int) int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// Multiple and over are of a dimension that may not be known.
func Multiple(d, by int) int {
	if d < 0 {
		return -1
	}
	return d * by
}

// Over is a quotient of a dimension that may not be known.
func Over(d, by int) int {
	if d < 0 {
		return -1
	}
	return d / by
}

// Clamp is x between two bounds.
func Clamp(x, least, most float64) float64 { return min(max(x, least), most) }

// Norm is that of order p.
func Norm(p int) func([]float64) float64 {
	return func(x []float64) float64 {
		total := 0.0
		for _, v := range x {
			switch p {
			case 1:
				total += math.Abs(v)
			case 2:
				total += v * v
			default:
				total += math.Pow(math.Abs(v), float64(p))
			}
		}
		switch p {
		case 1:
			return total
		case 2:
			return math.Sqrt(total)
		}
		return math.Pow(total, 1/float64(p))
	}
}

// Total is the sum.
func Total[T Number](x []T) (n T) {
	for _, v := range x {
		n += v
	}
	return n
}

// Largest is the largest, of none -Inf; with NaN it is NaN.
func Largest(x []float64) float64 {
	best := math.Inf(-1)
	for _, v := range x {
		best = max(best, v)
	}
	return best
}

// Least is the smallest, of none +Inf; with NaN it is NaN.
func Least(x []float64) float64 {
	best := math.Inf(1)
	for _, v := range x {
		best = min(best, v)
	}
	return best
}

// Average is the mean; of none it is NaN.
func Average(x []float64) float64 {
	total := 0.0
	for _, v := range x {
		total += v
	}
	return total / float64(len(x))
}

// Combined folds the elements of tensors, broadcast to a shape, into a tensor.
func Combined(to engine.DType, shape []int, in []*graph.Tensor, f func(a, b float64) float64, i func(a, b int64) int64, u func(a, b uint64) uint64) *graph.Tensor {
	switch t := in[0].Type; {
	case graph.Floating(t):
		return graph.FromFloats(to, shape, Zipped(shape, in, (*graph.Tensor).Floats, f))
	case t == engine.Uint64 && u != nil:
		ints := func(t *graph.Tensor) []uint64 { return Converted[uint64](t.Ints()) }
		return graph.FromInts(to, shape, Converted[int64](Zipped(shape, in, ints, u)))
	}
	return graph.FromInts(to, shape, Zipped(shape, in, (*graph.Tensor).Ints, i))
}

// Zipped folds by f the elements of tensors that are broadcast to a shape.
func Zipped[T any](shape []int, in []*graph.Tensor, elements func(*graph.Tensor) []T, f func(a, b T) T) []T {
	out := elements(Expanded(in[0], shape))
	for _, t := range in[1:] {
		if t.Len() == 1 {
			y := elements(t)[0]
			for k, x := range out {
				out[k] = f(x, y)
			}
			continue
		}
		for k, y := range elements(Expanded(t, shape)) {
			out[k] = f(out[k], y)
		}
	}
	return out
}

// Retyped is t's elements as those of another type.
func Retyped(t *graph.Tensor, to engine.DType) *graph.Tensor {
	switch {
	case t.Type == to:
		return t
	case graph.Floating(t.Type) || graph.Floating(to):
		return graph.FromFloats(to, t.Shape, t.Floats())
	}
	return graph.FromInts(to, t.Shape, t.Ints())
}

// BroadcastShape is the shape that two are broadcast to. Of a dimension that is not known and one above 1 it is that.
func BroadcastShape(a, b []int) ([]int, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append([]int{}, a...)
	skip := len(a) - len(b)
	for i, d := range b {
		switch e := a[skip+i]; {
		case d == e || d == 1:
		case e == 1 || e < 0:
			out[skip+i] = d
		case d < 0:
		default:
			return nil, false
		}
	}
	return out, true
}
