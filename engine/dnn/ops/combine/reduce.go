// Package combine has the operations that make each element of many: products of matrices, reductions, normalisations,
// searches and recurrences.
package combine

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/elementwise"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Reductions make elements along some dimensions one.
var Reductions = map[string]op.Definition{
	"ReduceSum":       op.Define(reduceOp(op.Total[float64], op.Total[int64], nil), op.Numbers, 1, 2, 1),
	"ReduceProd":      op.Define(reduceOp(multiplyElements[float64], multiplyElements[int64], nil), op.Numbers, 1, 2, 1),
	"ReduceSumSquare": op.Define(reduceOp(sumSquares[float64], sumSquares[int64], nil), op.Numbers, 1, 2, 1),
	"ReduceL1":        op.Define(reduceOp(op.Norm(1), sumMagnitudes, nil), op.Numbers, 1, 2, 1),
	"ReduceL2":        op.Define(reduceOp(op.Norm(2), nil, nil), op.Numbers, 1, 2, 1),
	"ReduceMean":      op.Define(reduceOp(op.Average, nil, nil), op.Numbers, 1, 2, 1),
	"ReduceLogSum":    op.Define(reduceOp(func(x []float64) float64 { return math.Log(op.Total(x)) }, nil, nil), op.Numbers, 1, 2, 1),
	"ReduceLogSumExp": op.Define(reduceOp(logSumExp, nil, nil), op.Numbers, 1, 2, 1),
	"ReduceMax":       op.Define(reduceOp(op.Largest, foldElements(elementwise.Larger[int64]), foldElements(elementwise.Larger[uint64])), op.Anything, 1, 2, 1),
	"ReduceMin":       op.Define(reduceOp(op.Least, foldElements(elementwise.Smaller[int64]), foldElements(elementwise.Smaller[uint64])), op.Anything, 1, 2, 1),
	"CumSum":          op.Define(cumSum, op.Numbers, 2, 2, 1),
}

func multiplyElements[T op.Number](x []T) T {
	n := T(1)
	for _, v := range x {
		n *= v
	}
	return n
}

func sumSquares[T op.Number](x []T) (n T) {
	for _, v := range x {
		n += v * v
	}
	return n
}

func sumMagnitudes(x []int64) (n int64) {
	for _, v := range x {
		n += elementwise.Magnitude(v)
	}
	return n
}

// foldElements is of at least one element.
func foldElements[T op.Number](f func(a, b T) T) func([]T) T {
	return func(x []T) T {
		best := x[0]
		for _, v := range x[1:] {
			best = f(best, v)
		}
		return best
	}
}

// reductionAxes are the dimensions that a reduction is along; ok is false if they are not known. Along none, each element is
// reduced alone.
func reductionAxes(c *op.Call, rank int) (axes []int, ok bool) {
	if c.Has(1) {
		if axes, ok = c.Ints(1); !ok {
			return nil, false
		}
	}
	if len(axes) == 0 && !c.Flag("noop_with_empty_axes", false) {
		return op.Indexed(rank, func(i int) int { return i }), true
	}
	return c.Dimensions("the axes", axes, rank), true
}

// reducedShape is a shape whose axes are 1, or left out.
func reducedShape(d, axes []int, keep bool) []int {
	gone := map[int]bool{}
	for _, a := range axes {
		gone[a] = true
	}
	out := []int{}
	for i, n := range d {
		switch {
		case !gone[i]:
			out = append(out, n)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

// reduceOp applies u to uint64 and i to other integers; without them, f, whose results are rounded towards 0.
func reduceOp(f func([]float64) float64, i func([]int64) int64, u func([]uint64) uint64) func(*op.Call) {
	return func(c *op.Call) {
		keep := c.Flag("keepdims", true)
		d := c.Dims(0)
		axes, ok := reductionAxes(c, len(d))
		if !ok {
			if keep {
				c.Shaped(0, op.Filled(len(d), -1)...)
			}
			return
		}
		c.Shaped(0, reducedShape(d, axes, keep)...)
		c.Run = func(in []*graph.Tensor) []*graph.Tensor {
			t, shape, l := in[0], c.Out[0].Shape, op.LanesOf(d, axes)
			switch {
			case graph.Floating(t.Type) || i == nil:
				return op.One(graph.FromFloats(t.Type, shape, op.Reduced(l, t.Floats(), f)))
			case u != nil && len(l.Steps) == 0 && len(l.Starts) > 0:
				c.Fail("no elements to reduce along %v of %v: %v has no infinity", axes, d, t.Type)
			case u != nil && t.Type == engine.Uint64:
				return op.One(graph.FromInts(t.Type, shape, op.Converted[int64](op.Reduced(l, op.Converted[uint64](t.Ints()), u))))
			}
			return op.One(graph.FromInts(t.Type, shape, op.Reduced(l, t.Ints(), i)))
		}
	}
}

func cumSum(c *op.Call) {
	exclusive, reverse := c.Flag("exclusive", false), c.Flag("reverse", false)
	c.Elements(1, op.Indices)
	d := c.Ranked(0, 1, math.MaxInt)
	c.Shaped(0, d...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		if in[1].Len() != 1 {
			c.Fail("axis has shape %v, want one element", in[1].Shape)
		}
		l := op.LanesOf(d, []int{c.Dimension("the axis", int(in[1].Ints()[0]), len(d))})
		if graph.Floating(in[0].Type) {
			return op.One(c.Floats(0, cumSumLanes(l, in[0].Floats(), exclusive, reverse)))
		}
		return op.One(graph.FromInts(in[0].Type, d, cumSumLanes(l, in[0].Ints(), exclusive, reverse)))
	}
}

func cumSumLanes[T op.Number](l op.Lanes, x []T, exclusive, reverse bool) []T {
	for _, start := range l.Starts {
		var total T
		for k := range l.Steps {
			if reverse {
				k = len(l.Steps) - 1 - k
			}
			v := &x[start+l.Steps[k]]
			before := total
			total += *v
			if *v = total; exclusive {
				*v = before
			}
		}
	}
	return x
}
