package ops

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// binaries are operations on elements of inputs that are broadcast to one shape.
var binaries = map[string]definition{
	"Add":   {fold(sum[float64], sum[int64], sum[uint64]), numbers, 2, 2, 1},
	"Sub":   {fold(difference[float64], difference[int64], difference[uint64]), numbers, 2, 2, 1},
	"Mul":   {fold(times[float64], times[int64], times[uint64]), numbers, 2, 2, 1},
	"Div":   {fold(func(a, b float64) float64 { return a / b }, quotient[int64], quotient[uint64]), numbers, 2, 2, 1},
	"Max":   {fold(larger[float64], larger[int64], larger[uint64]), numbers, 1, many, 1},
	"Min":   {fold(smaller[float64], smaller[int64], smaller[uint64]), numbers, 1, many, 1},
	"Sum":   {fold(sum[float64], nil, nil), floats, 1, many, 1},
	"Mean":  {mean, floats, 1, many, 1},
	"Mod":   {mod, numbers, 2, 2, 1},
	"Pow":   {pow, numbers, 2, 2, 1},
	"PRelu": {prelu, numbers, 2, 2, 1},

	"And":        {logic(func(a, b int64) int64 { return a & b }), booleans, 2, 2, 1},
	"Or":         {logic(func(a, b int64) int64 { return a | b }), booleans, 2, 2, 1},
	"Xor":        {logic(func(a, b int64) int64 { return a ^ b }), booleans, 2, 2, 1},
	"BitwiseAnd": {logic(func(a, b int64) int64 { return a & b }), integers, 2, 2, 1},
	"BitwiseOr":  {logic(func(a, b int64) int64 { return a | b }), integers, 2, 2, 1},
	"BitwiseXor": {logic(func(a, b int64) int64 { return a ^ b }), integers, 2, 2, 1},
	"BitShift":   {bitShift, unsigned, 2, 2, 1},

	"Equal":          {compare(equal[float64], equal[int64], equal[uint64]), anything, 2, 2, 1},
	"Less":           {compare(less[float64], less[int64], less[uint64]), numbers, 2, 2, 1},
	"LessOrEqual":    {compare(atMost[float64], atMost[int64], atMost[uint64]), numbers, 2, 2, 1},
	"Greater":        {compare(swapped(less[float64]), swapped(less[int64]), swapped(less[uint64])), numbers, 2, 2, 1},
	"GreaterOrEqual": {compare(swapped(atMost[float64]), swapped(atMost[int64]), swapped(atMost[uint64])), numbers, 2, 2, 1},
}

func sum[T number](a, b T) T        { return a + b }
func difference[T number](a, b T) T { return a - b }
func times[T number](a, b T) T      { return a * b }
func larger[T number](a, b T) T     { return max(a, b) }
func smaller[T number](a, b T) T    { return min(a, b) }
func equal[T number](a, b T) T      { return truth[T](a == b) }
func less[T number](a, b T) T       { return truth[T](a < b) }
func atMost[T number](a, b T) T     { return truth[T](a <= b) }

// quotient drops the fraction. By 0 it is 0.
func quotient[T int64 | uint64](a, b T) T {
	if b == 0 {
		return 0
	}
	return a / b
}

func swapped[T any](f func(a, b T) T) func(a, b T) T {
	return func(a, b T) T { return f(b, a) }
}

// broadcast gives output 0 the shape that inputs are broadcast to.
func (c *call) broadcast(inputs ...int) {
	var shape []int
	for _, i := range inputs {
		c.dims(i)
	}
	for k, i := range inputs {
		d := c.dims(i)
		if k == 0 {
			shape = d
			continue
		}
		to, ok := broadcastShape(shape, d)
		if !ok {
			c.fail("input %d has the shape %v, which does not broadcast with %v", i, d, shape)
		}
		shape = to
	}
	c.shaped(0, shape...)
}

func (c *call) broadcastAll() {
	all := make([]int, len(c.in))
	for i := range all {
		all[i] = i
	}
	c.broadcast(all...)
}

// broadcastShape is the shape that two are broadcast to. Of a dimension that is not known and one above 1 it is that.
func broadcastShape(a, b []int) ([]int, bool) {
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

// fold combines the elements of all inputs from the first to the last.
func fold(f func(a, b float64) float64, i func(a, b int64) int64, u func(a, b uint64) uint64) func(*call) {
	return func(c *call) {
		for k := range c.in {
			c.same(k)
		}
		c.broadcastAll()
		c.run = func(in []*graph.Tensor) []*graph.Tensor {
			return one(combined(c.out[0].Type, c.out[0].Shape, in, f, i, u))
		}
	}
}

// combined folds the elements of tensors, broadcast to a shape, into a tensor.
func combined(to engine.DType, shape []int, in []*graph.Tensor, f func(a, b float64) float64, i func(a, b int64) int64, u func(a, b uint64) uint64) *graph.Tensor {
	switch t := in[0].Type; {
	case graph.Floating(t):
		return graph.FromFloats(to, shape, zipped(shape, in, (*graph.Tensor).Floats, f))
	case t == engine.Uint64 && u != nil:
		ints := func(t *graph.Tensor) []uint64 { return converted[uint64](t.Ints()) }
		return graph.FromInts(to, shape, converted[int64](zipped(shape, in, ints, u)))
	}
	return graph.FromInts(to, shape, zipped(shape, in, (*graph.Tensor).Ints, i))
}

func zipped[T any](shape []int, in []*graph.Tensor, elements func(*graph.Tensor) []T, f func(a, b T) T) []T {
	out := elements(expanded(in[0], shape))
	for _, t := range in[1:] {
		if t.Len() == 1 {
			y := elements(t)[0]
			for k, x := range out {
				out[k] = f(x, y)
			}
			continue
		}
		for k, y := range elements(expanded(t, shape)) {
			out[k] = f(out[k], y)
		}
	}
	return out
}

func logic(i func(a, b int64) int64) func(*call) { return fold(nil, i, nil) }

func compare(f func(a, b float64) float64, i func(a, b int64) int64, u func(a, b uint64) uint64) func(*call) {
	return func(c *call) {
		c.typed(0, engine.Bool)
		fold(f, i, u)(c)
	}
}

func mean(c *call) {
	n := float64(len(c.in))
	fold(sum[float64], nil, nil)(c)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		total := zipped(c.out[0].Shape, in, (*graph.Tensor).Floats, sum[float64])
		return one(c.floats(0, mapped(func(x float64) float64 { return x / n }, total)))
	}
}

// remainder has the sign of the divisor. By 0 it is 0.
func remainder[T int64 | uint64](a, b T) T {
	if b == 0 {
		return 0
	}
	r := a % b
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// truncatedRemainder has the sign of the dividend.
func truncatedRemainder[T int64 | uint64](a, b T) T {
	if b == 0 {
		return 0
	}
	return a % b
}

func mod(c *call) {
	if c.flag("fmod", false) {
		fold(math.Mod, truncatedRemainder[int64], truncatedRemainder[uint64])(c)
		return
	}
	if graph.Floating(c.in[0].Type) {
		c.fail("attribute fmod is 0, which is for integers, and input 0 is of %v", c.in[0].Type)
	}
	fold(nil, remainder[int64], remainder[uint64])(c)
}

// pow computes integers in float64 too.
func pow(c *call) {
	c.elements(1, numbers)
	c.broadcast(0, 1)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		return one(c.floats(0, zipped(c.out[0].Shape, in, (*graph.Tensor).Floats, math.Pow)))
	}
}

func prelu(c *call) {
	c.same(1)
	c.broadcast(0, 1)
	c.keeps(0)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		return one(combined(c.out[0].Type, c.out[0].Shape, in, leak[float64], leak[int64], leak[uint64]))
	}
}

func leak[T number](x, slope T) T {
	if x < 0 {
		return slope * x
	}
	return x
}

// keeps checks that an input has output 0's shape, so that it is the others alone that are broadcast.
func (c *call) keeps(i int) {
	if d := c.dims(i); len(d) != len(c.out[0].Shape) || known(d) && product(d) != product(c.out[0].Shape) {
		c.fail("input %d has the shape %v, and the others broadcast it to %v", i, d, c.out[0].Shape)
	}
}

func bitShift(c *call) {
	shift := func(a, b int64) int64 { return int64(uint64(a) << uint64(b)) }
	switch c.word("direction", "", "LEFT", "RIGHT") {
	case "RIGHT":
		shift = func(a, b int64) int64 { return int64(uint64(a) >> uint64(b)) }
	case "":
		c.fail("attribute direction is not given")
	}
	fold(nil, shift, nil)(c)
}
