package elementwise

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Binaries are operations on elements of inputs that are broadcast to one shape.
var Binaries = map[string]op.Definition{
	"Add":   op.Define(foldInputs(sum[float64], sum[int64], sum[uint64]), op.Numbers, 2, 2, 1),
	"Sub":   op.Define(foldInputs(difference[float64], difference[int64], difference[uint64]), op.Numbers, 2, 2, 1),
	"Mul":   op.Define(foldInputs(Times[float64], Times[int64], Times[uint64]), op.Numbers, 2, 2, 1),
	"Div":   op.Define(foldInputs(func(a, b float64) float64 { return a / b }, quotient[int64], quotient[uint64]), op.Numbers, 2, 2, 1),
	"Max":   op.Define(foldInputs(Larger[float64], Larger[int64], Larger[uint64]), op.Numbers, 1, op.Many, 1),
	"Min":   op.Define(foldInputs(Smaller[float64], Smaller[int64], Smaller[uint64]), op.Numbers, 1, op.Many, 1),
	"Sum":   op.Define(foldInputs(sum[float64], nil, nil), op.Floats, 1, op.Many, 1),
	"Mean":  op.Define(mean, op.Floats, 1, op.Many, 1),
	"Mod":   op.Define(mod, op.Numbers, 2, 2, 1),
	"Pow":   op.Define(pow, op.Numbers, 2, 2, 1),
	"PRelu": op.Define(prelu, op.Numbers, 2, 2, 1),

	"And":        op.Define(logicOp(func(a, b int64) int64 { return a & b }), op.Booleans, 2, 2, 1),
	"Or":         op.Define(logicOp(func(a, b int64) int64 { return a | b }), op.Booleans, 2, 2, 1),
	"Xor":        op.Define(logicOp(func(a, b int64) int64 { return a ^ b }), op.Booleans, 2, 2, 1),
	"BitwiseAnd": op.Define(logicOp(func(a, b int64) int64 { return a & b }), op.Integers, 2, 2, 1),
	"BitwiseOr":  op.Define(logicOp(func(a, b int64) int64 { return a | b }), op.Integers, 2, 2, 1),
	"BitwiseXor": op.Define(logicOp(func(a, b int64) int64 { return a ^ b }), op.Integers, 2, 2, 1),
	"BitShift":   op.Define(bitShift, op.Unsigned, 2, 2, 1),

	"Equal":          op.Define(compareOp(equal[float64], equal[int64], equal[uint64]), op.Anything, 2, 2, 1),
	"Less":           op.Define(compareOp(less[float64], less[int64], less[uint64]), op.Numbers, 2, 2, 1),
	"LessOrEqual":    op.Define(compareOp(atMost[float64], atMost[int64], atMost[uint64]), op.Numbers, 2, 2, 1),
	"Greater":        op.Define(compareOp(swapArguments(less[float64]), swapArguments(less[int64]), swapArguments(less[uint64])), op.Numbers, 2, 2, 1),
	"GreaterOrEqual": op.Define(compareOp(swapArguments(atMost[float64]), swapArguments(atMost[int64]), swapArguments(atMost[uint64])), op.Numbers, 2, 2, 1),
}

func sum[T op.Number](a, b T) T        { return a + b }
func difference[T op.Number](a, b T) T { return a - b }

// Times is the product.
func Times[T op.Number](a, b T) T { return a * b }

// Larger is the larger of two; with NaN it is NaN.
func Larger[T op.Number](a, b T) T { return max(a, b) }

// Smaller is the smaller of two; with NaN it is NaN.
func Smaller[T op.Number](a, b T) T { return min(a, b) }
func equal[T op.Number](a, b T) T   { return op.Truth[T](a == b) }
func less[T op.Number](a, b T) T    { return op.Truth[T](a < b) }
func atMost[T op.Number](a, b T) T  { return op.Truth[T](a <= b) }

// quotient drops the fraction. By 0 it is 0.
func quotient[T int64 | uint64](a, b T) T {
	if b == 0 {
		return 0
	}
	return a / b
}

func swapArguments[T any](f func(a, b T) T) func(a, b T) T {
	return func(a, b T) T { return f(b, a) }
}

// broadcastOutput gives output 0 the shape that inputs are broadcast to.
func broadcastOutput(c *op.Call, inputs ...int) {
	var shape []int
	for _, i := range inputs {
		c.Dims(i)
	}
	for k, i := range inputs {
		d := c.Dims(i)
		if k == 0 {
			shape = d
			continue
		}
		to, ok := op.BroadcastShape(shape, d)
		if !ok {
			c.Fail("input %d has shape %v, which does not broadcast with %v", i, d, shape)
		}
		shape = to
	}
	c.Shaped(0, shape...)
}

func broadcastAll(c *op.Call) {
	all := make([]int, len(c.In))
	for i := range all {
		all[i] = i
	}
	broadcastOutput(c, all...)
}

// foldInputs combines the elements of all inputs from the first to the last.
func foldInputs(f func(a, b float64) float64, i func(a, b int64) int64, u func(a, b uint64) uint64) func(*op.Call) {
	return func(c *op.Call) {
		for k := range c.In {
			c.Same(k)
		}
		broadcastAll(c)
		c.Run = func(in []*graph.Tensor) []*graph.Tensor {
			return op.One(op.Combined(c.Out[0].Type, c.Out[0].Shape, in, f, i, u))
		}
	}
}

func logicOp(i func(a, b int64) int64) func(*op.Call) { return foldInputs(nil, i, nil) }

func compareOp(f func(a, b float64) float64, i func(a, b int64) int64, u func(a, b uint64) uint64) func(*op.Call) {
	return func(c *op.Call) {
		c.Typed(0, engine.Bool)
		foldInputs(f, i, u)(c)
	}
}

func mean(c *op.Call) {
	n := float64(len(c.In))
	foldInputs(sum[float64], nil, nil)(c)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		total := c.Floats(0, op.Zipped(c.Out[0].Shape, in, (*graph.Tensor).Floats, sum[float64])) // which may overflow
		return op.One(c.Floats(0, op.Mapped(func(x float64) float64 { return x / n }, total.Floats())))
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

func mod(c *op.Call) {
	if c.Flag("fmod", false) {
		foldInputs(math.Mod, truncatedRemainder[int64], truncatedRemainder[uint64])(c)
		return
	}
	if graph.Floating(c.In[0].Type) {
		c.Fail("invalid attribute fmod 0 for input 0 of %v: want 1, or integers", c.In[0].Type)
	}
	foldInputs(nil, remainder[int64], remainder[uint64])(c)
}

// pow computes integers in float64 too.
func pow(c *op.Call) {
	c.Elements(1, op.Numbers)
	broadcastOutput(c, 0, 1)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		return op.One(c.Floats(0, op.Zipped(c.Out[0].Shape, in, (*graph.Tensor).Floats, math.Pow)))
	}
}

func prelu(c *op.Call) {
	c.Same(1)
	broadcastOutput(c, 0, 1)
	checkKeepsShape(c, 0)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		return op.One(op.Combined(c.Out[0].Type, c.Out[0].Shape, in, leakyRelu[float64], leakyRelu[int64], leakyRelu[uint64]))
	}
}

func leakyRelu[T op.Number](x, slope T) T {
	if x < 0 {
		return slope * x
	}
	return x
}

// checkKeepsShape checks that an input has output 0's shape, so that it is the others alone that are broadcast.
func checkKeepsShape(c *op.Call, i int) {
	if d := c.Dims(i); !op.Fits(c.Out[0].Shape, d) {
		c.Fail("input %d has shape %v, which broadcasts to another, %v", i, d, c.Out[0].Shape)
	}
}

func bitShift(c *op.Call) {
	shift := func(a, b int64) int64 { return int64(uint64(a) << uint64(b)) }
	switch c.Word("direction", "", "LEFT", "RIGHT") {
	case "RIGHT":
		shift = func(a, b int64) int64 { return int64(uint64(a) >> uint64(b)) }
	case "":
		c.Fail("missing attribute direction")
	}
	foldInputs(nil, shift, nil)(c)
}
