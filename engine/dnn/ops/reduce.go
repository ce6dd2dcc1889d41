package ops

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// reductions make elements along some dimensions one.
var reductions = map[string]definition{
	"ReduceSum":       {reduce(total[float64], total[int64], nil), numbers, 1, 2, 1},
	"ReduceProd":      {reduce(multiplied[float64], multiplied[int64], nil), numbers, 1, 2, 1},
	"ReduceSumSquare": {reduce(squares[float64], squares[int64], nil), numbers, 1, 2, 1},
	"ReduceL1":        {reduce(norm(1), magnitudes, nil), numbers, 1, 2, 1},
	"ReduceL2":        {reduce(norm(2), nil, nil), numbers, 1, 2, 1},
	"ReduceMean":      {reduce(average, nil, nil), numbers, 1, 2, 1},
	"ReduceLogSum":    {reduce(func(x []float64) float64 { return math.Log(total(x)) }, nil, nil), numbers, 1, 2, 1},
	"ReduceLogSumExp": {reduce(logSumExp, nil, nil), numbers, 1, 2, 1},
	"ReduceMax":       {reduce(largest, folded(larger[int64]), folded(larger[uint64])), anything, 1, 2, 1},
	"ReduceMin":       {reduce(least, folded(smaller[int64]), folded(smaller[uint64])), anything, 1, 2, 1},
	"CumSum":          {cumulate, numbers, 2, 2, 1},
}

func total[T number](x []T) (n T) {
	for _, v := range x {
		n += v
	}
	return n
}

func multiplied[T number](x []T) T {
	n := T(1)
	for _, v := range x {
		n *= v
	}
	return n
}

func squares[T number](x []T) (n T) {
	for _, v := range x {
		n += v * v
	}
	return n
}

func magnitudes(x []int64) (n int64) {
	for _, v := range x {
		n += magnitude(v)
	}
	return n
}

func least(x []float64) float64 {
	best := math.Inf(1)
	for _, v := range x {
		best = min(best, v)
	}
	return best
}

// folded is of at least one element.
func folded[T number](f func(a, b T) T) func([]T) T {
	return func(x []T) T {
		best := x[0]
		for _, v := range x[1:] {
			best = f(best, v)
		}
		return best
	}
}

// axes are the dimensions that a reduction is along; ok is false if they are not known. Along none, each element is
// reduced alone.
func (c *call) axes(rank int) (axes []int, ok bool) {
	if c.has(1) {
		if axes, ok = c.ints(1); !ok {
			return nil, false
		}
	}
	if len(axes) == 0 && !c.flag("noop_with_empty_axes", false) {
		return indexed(rank, func(i int) int { return i }), true
	}
	return c.dimensions("the axes", axes, rank), true
}

// without is a shape whose axes are 1, or left out.
func without(d, axes []int, keep bool) []int {
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

// reduce applies u to uint64 and i to other integers; without them, f, whose results are rounded towards 0.
func reduce(f func([]float64) float64, i func([]int64) int64, u func([]uint64) uint64) func(*call) {
	return func(c *call) {
		keep := c.flag("keepdims", true)
		d := c.dims(0)
		axes, ok := c.axes(len(d))
		if !ok {
			if keep {
				c.shaped(0, filled(len(d), -1)...)
			}
			return
		}
		c.shaped(0, without(d, axes, keep)...)
		c.run = func(in []*graph.Tensor) []*graph.Tensor {
			t, shape, l := in[0], c.out[0].Shape, lanesOf(d, axes)
			switch {
			case graph.Floating(t.Type) || i == nil:
				return one(graph.FromFloats(t.Type, shape, reduced(l, t.Floats(), f)))
			case u != nil && len(l.steps) == 0 && len(l.starts) > 0:
				c.fail("no elements along %v of %v, and %v has no infinity", axes, d, t.Type)
			case u != nil && t.Type == engine.Uint64:
				return one(graph.FromInts(t.Type, shape, converted[int64](reduced(l, converted[uint64](t.Ints()), u))))
			}
			return one(graph.FromInts(t.Type, shape, reduced(l, t.Ints(), i)))
		}
	}
}

func cumulate(c *call) {
	exclusive, reverse := c.flag("exclusive", false), c.flag("reverse", false)
	c.elements(1, indices)
	d := c.ranked(0, 1, math.MaxInt)
	c.shaped(0, d...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		if in[1].Len() != 1 {
			c.fail("the axis has the shape %v", in[1].Shape)
		}
		l := lanesOf(d, []int{c.dimension("the axis", int(in[1].Ints()[0]), len(d))})
		if graph.Floating(in[0].Type) {
			return one(c.floats(0, cumulated(l, in[0].Floats(), exclusive, reverse)))
		}
		return one(graph.FromInts(in[0].Type, d, cumulated(l, in[0].Ints(), exclusive, reverse)))
	}
}

func cumulated[T number](l lanes, x []T, exclusive, reverse bool) []T {
	for _, start := range l.starts {
		var total T
		for k := range l.steps {
			if reverse {
				k = len(l.steps) - 1 - k
			}
			v := &x[start+l.steps[k]]
			before := total
			total += *v
			if *v = total; exclusive {
				*v = before
			}
		}
	}
	return x
}
