package ops

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

const (
	bytes8   kinds = 1<<engine.Int8 | 1<<engine.Uint8
	quanta   kinds = bytes8 | 1<<engine.Int16 | 1<<engine.Uint16
	float32s kinds = 1 << engine.FP32
)

// quantisations go from numbers to small integers, of which each stands for (integer - zero point) * scale, back,
// and compute on these.
var quantisations = map[string]definition{
	"QuantizeLinear":        {quantizeLinear, floats | 1<<engine.Int32, 2, 3, 1},
	"DequantizeLinear":      {dequantizeLinear, quanta | 1<<engine.Int32, 2, 3, 1},
	"DynamicQuantizeLinear": {dynamicQuantizeLinear, float32s, 1, 1, 3},
	"MatMulInteger":         {matMulInteger, bytes8, 2, 4, 1},
	"ConvInteger":           {convInteger, bytes8, 2, 4, 1},
	"QLinearMatMul":         {qLinearMatMul, 1 << engine.Uint8, 8, 8, 1}, // of INT8, ONNX's tests want results that wrap around
	"QLinearConv":           {qLinearConv, bytes8, 8, 9, 1},
}

// scaling checks that an input is one number, one for each entry of dimension axis of d, or one for each block of entries.
func (c *call) scaling(i int, d []int, axis, block int) {
	if !c.has(i) || c.in[i].Rank < 0 {
		return
	}
	switch s := c.in[i].Shape; {
	case product(s) == 1 && block == 0:
	case len(s) == 1 && block == 0 && axis < len(d):
		c.expect(i, d[axis])
	default:
		if block == 0 || axis >= len(d) {
			c.fail("input %d has the shape %v, for the input %v", i, s, d)
		}
		want := slices.Clone(d)
		if d[axis] >= 0 {
			want[axis] = (d[axis] + block - 1) / block
		}
		c.expect(i, want...)
	}
}

// spread is one of a scaling's tensors in the shape d.
func spread(t *graph.Tensor, d []int, axis, block int) []float64 {
	switch {
	case t.Len() == 1 && block == 0:
		return filled(product(d), t.Floats()[0])
	case block > 0:
		return taken(t, axis, indexed(d[axis], func(k int) int { return k / block }), nil).Floats()
	}
	one := filled(len(d), 1)
	one[axis] = d[axis]
	return expanded(t.Reshaped(one...), d).Floats()
}

// dequantised is what integers stand for.
func dequantised(t, scale, zero *graph.Tensor, axis, block int) []float64 {
	x := t.Floats()
	if zero != nil {
		for i, z := range spread(zero, t.Shape, axis, block) {
			x[i] -= z
		}
	}
	for i, s := range spread(scale, t.Shape, axis, block) {
		x[i] *= s
	}
	return x
}

// quantised are the nearest integers of a type. Quotients are rounded to float32 first, as those who compute so do.
func quantised(x []float64, d []int, scale, zero *graph.Tensor, to engine.DType, axis, block int) *graph.Tensor {
	least, most := rangeOfType(to)
	for i, s := range spread(scale, d, axis, block) {
		x[i] = math.RoundToEven(float64(float32(x[i] / s)))
	}
	if zero != nil {
		for i, z := range spread(zero, d, axis, block) {
			x[i] += z
		}
	}
	return graph.FromFloats(to, d, mapped(func(v float64) float64 { return clamp(v, least, most) }, x))
}

func rangeOfType(t engine.DType) (least, most float64) {
	bits := float64(8 * t.Size())
	if unsigned.have(t) {
		return 0, math.Exp2(bits) - 1
	}
	return -math.Exp2(bits - 1), math.Exp2(bits-1) - 1
}

// blocks reads the axis and block size of a scaling of input 0 by inputs 1 and 2.
func (c *call) blocks() (d []int, axis, block int) {
	d = c.dims(0)
	if axis = c.int("axis", 1); axis != 1 || len(d) > 1 {
		axis = c.dimension("attribute axis", axis, max(len(d), 1))
	}
	if block = c.int("block_size", 0); block < 0 || block > c.limit {
		c.fail("attribute block_size is %d", block)
	}
	c.scaling(1, d, axis, block)
	c.scaling(2, d, axis, block)
	return d, axis, block
}

func quantizeLinear(c *call) {
	to := c.dtype("output_dtype", engine.Uint8)
	if c.has(2) {
		to = c.elements(2, quanta)
	}
	c.typed(0, to)
	if to != 0 && !quanta.have(to) {
		c.fail("to %v, which is none of %v", to, quanta)
	}
	c.elements(1, floats)
	d, axis, block := c.blocks()
	c.shaped(0, d...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		return one(quantised(in[0].Floats(), d, in[1], optional(in, 2), to, axis, block))
	}
}

// optional is an input that may not be given.
func optional(in []*graph.Tensor, i int) *graph.Tensor {
	if i < len(in) {
		return in[i]
	}
	return nil
}

func dequantizeLinear(c *call) {
	c.same(2)
	c.typed(0, c.dtype("output_dtype", c.elements(1, floats)))
	d, axis, block := c.blocks()
	c.shaped(0, d...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		return one(c.floats(0, dequantised(in[0], in[1], optional(in, 2), axis, block)))
	}
}

func dynamicQuantizeLinear(c *call) {
	c.typed(0, engine.Uint8)
	c.typed(2, engine.Uint8)
	c.shaped(1)
	c.shaped(2)
	c.shaped(0, c.dims(0)...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		x := in[0].Floats()
		low, high := min(0, least(x)), max(0, largest(x))
		scale := graph.Scalar(engine.FP32, (high-low)/255)
		zero := quantised([]float64{-low}, []int{}, scale, nil, engine.Uint8, 0, 0)
		return []*graph.Tensor{quantised(x, in[0].Shape, scale, zero, engine.Uint8, 0, 0), scale, zero}[:len(c.out)]
	}
}

// real is d applied to inputs of float64, of the shapes of these, with c's attributes. Output 0 gets its shape.
func (c *call) real(d definition, in ...*graph.Value) *call {
	inner := &call{node: c.node, limit: c.limit, evaluates: c.evaluates, out: []*graph.Value{graph.NewValue("")}}
	for _, v := range in {
		x := graph.NewValue("")
		x.Type, x.Shape, x.Rank = engine.FP64, v.Shape, v.Rank
		inner.in = append(inner.in, x)
	}
	inner.typed(0, engine.FP64)
	d.apply(inner)
	if inner.out[0].Rank >= 0 {
		c.shaped(0, inner.out[0].Shape...)
	}
	return inner
}

func float64s(d []int, x []float64) *graph.Tensor { return graph.FromFloats(engine.FP64, d, x) }

var unit = graph.Scalar(engine.FP64, 1)

// matrixAxes are the dimensions along which the factors of a product may have scalings: rows and columns.
func (c *call) matrixAxes(a, b int) (rows, columns int) {
	x, y := c.ranked(a, 1, 1<<10), c.ranked(b, 1, 1<<10)
	return max(len(x)-2, 0), len(y) - 1
}

func matMulInteger(c *call) {
	c.typed(0, engine.Int32)
	c.elements(1, bytes8)
	rows, columns := c.matrixAxes(0, 1)
	c.scaling(2, c.dims(0), rows, 0)
	c.scaling(3, c.dims(1), columns, 0)
	inner := c.real(linears["MatMul"], c.in[0], c.in[1])
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		a, b := dequantised(in[0], unit, optional(in, 2), rows, 0), dequantised(in[1], unit, optional(in, 3), columns, 0)
		out := inner.run([]*graph.Tensor{float64s(in[0].Shape, a), float64s(in[1].Shape, b)})
		return one(retyped(out[0], engine.Int32))
	}
}

func convInteger(c *call) {
	c.typed(0, engine.Int32)
	c.elements(1, bytes8)
	c.scaling(2, nil, 0, 0)
	c.scaling(3, c.dims(1), 0, 0)
	inner := c.real(convolutions["Conv"], c.in[0], c.in[1])
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		x, w := dequantised(in[0], unit, optional(in, 2), 0, 0), dequantised(in[1], unit, optional(in, 3), 0, 0)
		out := inner.run([]*graph.Tensor{float64s(in[0].Shape, x), float64s(in[1].Shape, w)})
		return one(retyped(out[0], engine.Int32))
	}
}

// quantisedFactors checks inputs a, its scale and zero point, b and its own, and those of the result.
func (c *call) quantisedFactors(axisA, axisB int) {
	for i, of := range []kinds{bytes8, floats, bytes8, bytes8, floats, bytes8, floats, bytes8} {
		c.elements(i, of)
	}
	for i := 1; i < 3; i++ {
		c.scaling(i, c.dims(0), axisA, 0)
		c.scaling(3+i, c.dims(3), axisB, 0)
	}
	c.scaling(6, nil, 0, 0)
	c.scaling(7, nil, 0, 0)
	c.typed(0, c.in[7].Type)
}

func qLinearMatMul(c *call) {
	rows, columns := c.matrixAxes(0, 3)
	c.quantisedFactors(rows, columns)
	inner := c.real(linears["MatMul"], c.in[0], c.in[3])
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		a, b := dequantised(in[0], in[1], in[2], rows, 0), dequantised(in[3], in[4], in[5], columns, 0)
		out := inner.run([]*graph.Tensor{float64s(in[0].Shape, a), float64s(in[3].Shape, b)})[0]
		return one(quantised(out.Floats(), out.Shape, in[6], in[7], in[7].Type, 0, 0))
	}
}

func qLinearConv(c *call) {
	c.quantisedFactors(math.MaxInt, 0)
	factors := []*graph.Value{c.in[0], c.in[3]}
	if c.has(8) {
		c.elements(8, 1<<engine.Int32)
		factors = append(factors, c.in[8])
	}
	inner := c.real(convolutions["Conv"], factors...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		x, w := dequantised(in[0], in[1], in[2], 0, 0), dequantised(in[3], in[4], in[5], 0, 0)
		numbers := []*graph.Tensor{float64s(in[0].Shape, x), float64s(in[3].Shape, w)}
		if c.has(8) { // in units of both scales
			scale := in[1].Floats()[0]
			bias := dequantised(in[8], in[4], nil, 0, 0)
			numbers = append(numbers, float64s(in[8].Shape, mapped(func(v float64) float64 { return v * scale }, bias)))
		}
		out := inner.run(numbers)[0]
		return one(quantised(out.Floats(), out.Shape, in[6], in[7], in[7].Type, 0, 0))
	}
}
