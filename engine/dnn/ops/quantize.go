package ops

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/combine"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/spatial"
)

const (
	bytes8   op.Kinds = 1<<engine.Int8 | 1<<engine.Uint8
	quanta   op.Kinds = bytes8 | 1<<engine.Int16 | 1<<engine.Uint16
	float32s op.Kinds = 1 << engine.FP32
)

// quantisations go from numbers to small integers, of which each stands for (integer - zero point) * scale, back,
// and compute on these.
var quantisations = map[string]op.Definition{
	"QuantizeLinear":        op.Define(quantizeLinear, op.Floats|1<<engine.Int32, 2, 3, 1),
	"DequantizeLinear":      op.Define(dequantizeLinear, quanta|1<<engine.Int32, 2, 3, 1),
	"DynamicQuantizeLinear": op.Define(dynamicQuantizeLinear, float32s, 1, 1, 3),
	"MatMulInteger":         op.Define(matMulInteger, bytes8, 2, 4, 1),
	"ConvInteger":           op.Define(convInteger, bytes8, 2, 4, 1),
	"QLinearMatMul":         op.Define(qLinearMatMul, 1<<engine.Uint8, 8, 8, 1), // of INT8, ONNX's tests want results that wrap around
	"QLinearConv":           op.Define(qLinearConv, bytes8, 8, 9, 1),
}

// checkScaling checks that an input is one number, one for each entry of dimension axis of d, or one for each block of entries.
func checkScaling(c *op.Call, i int, d []int, axis, block int) {
	if !c.Has(i) || c.In[i].Rank < 0 {
		return
	}
	switch s := c.In[i].Shape; {
	case op.Product(s) == 1 && block == 0:
	case len(s) == 1 && block == 0 && axis < len(d):
		c.Expect(i, d[axis])
	default:
		if block == 0 || axis >= len(d) {
			c.Fail("input %d has shape %v, which does not fit input %v", i, s, d)
		}
		want := slices.Clone(d)
		if d[axis] >= 0 {
			want[axis] = (d[axis] + block - 1) / block
		}
		c.Expect(i, want...)
	}
}

// spreadScaling is one of a scaling's tensors in the shape d.
func spreadScaling(t *graph.Tensor, d []int, axis, block int) []float64 {
	switch {
	case t.Len() == 1 && block == 0:
		return op.Filled(op.Product(d), t.Floats()[0])
	case block > 0:
		return op.Taken(t, axis, op.Indexed(d[axis], func(k int) int { return k / block }), nil).Floats()
	}
	one := op.Filled(len(d), 1)
	one[axis] = d[axis]
	return op.Expanded(t.Reshaped(one...), d).Floats()
}

// dequantisedFloats is what integers stand for.
func dequantisedFloats(t, scale, zero *graph.Tensor, axis, block int) []float64 {
	x := t.Floats()
	if zero != nil {
		for i, z := range spreadScaling(zero, t.Shape, axis, block) {
			x[i] -= z
		}
	}
	for i, s := range spreadScaling(scale, t.Shape, axis, block) {
		x[i] *= s
	}
	return x
}

// quantisedTensor are the nearest integers of a type. Quotients are rounded to float32 first, as those who compute so do.
func quantisedTensor(x []float64, d []int, scale, zero *graph.Tensor, to engine.DType, axis, block int) *graph.Tensor {
	least, most := rangeOfType(to)
	for i, s := range spreadScaling(scale, d, axis, block) {
		x[i] = math.RoundToEven(float64(float32(x[i] / s)))
	}
	if zero != nil {
		for i, z := range spreadScaling(zero, d, axis, block) {
			x[i] += z
		}
	}
	return graph.FromFloats(to, d, op.Mapped(func(v float64) float64 { return op.Clamp(v, least, most) }, x))
}

func rangeOfType(t engine.DType) (least, most float64) {
	bits := float64(8 * t.Size())
	if op.Unsigned.Have(t) {
		return 0, math.Exp2(bits) - 1
	}
	return -math.Exp2(bits - 1), math.Exp2(bits-1) - 1
}

// scalingBlocks reads the axis and block size of a scaling of input 0 by inputs 1 and 2.
func scalingBlocks(c *op.Call) (d []int, axis, block int) {
	d = c.Dims(0)
	if axis = c.Int("axis", 1); axis != 1 || len(d) > 1 {
		axis = c.Dimension("attribute axis", axis, max(len(d), 1))
	}
	if block = c.Int("block_size", 0); block < 0 || block > c.Limit {
		c.Fail("invalid attribute block_size %d", block)
	}
	checkScaling(c, 1, d, axis, block)
	checkScaling(c, 2, d, axis, block)
	return d, axis, block
}

func quantizeLinear(c *op.Call) {
	to := c.Dtype("output_dtype", engine.Uint8)
	if c.Has(2) {
		to = c.Elements(2, quanta)
	}
	c.Typed(0, to)
	if to != 0 && !quanta.Have(to) {
		c.Fail("invalid type %v: want one of %v", to, quanta)
	}
	c.Elements(1, op.Floats)
	d, axis, block := scalingBlocks(c)
	c.Shaped(0, d...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		return op.One(quantisedTensor(in[0].Floats(), d, in[1], optionalInput(in, 2), to, axis, block))
	}
}

// optionalInput is an input that may not be given.
func optionalInput(in []*graph.Tensor, i int) *graph.Tensor {
	if i < len(in) {
		return in[i]
	}
	return nil
}

func dequantizeLinear(c *op.Call) {
	c.Same(2)
	c.Typed(0, c.Dtype("output_dtype", c.Elements(1, op.Floats)))
	d, axis, block := scalingBlocks(c)
	c.Shaped(0, d...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		return op.One(c.Floats(0, dequantisedFloats(in[0], in[1], optionalInput(in, 2), axis, block)))
	}
}

func dynamicQuantizeLinear(c *op.Call) {
	c.Typed(0, engine.Uint8)
	c.Typed(2, engine.Uint8)
	c.Shaped(1)
	c.Shaped(2)
	c.Shaped(0, c.Dims(0)...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x := in[0].Floats()
		low, high := min(0, op.Least(x)), max(0, op.Largest(x))
		scale := graph.Scalar(engine.FP32, (high-low)/255)
		zero := quantisedTensor([]float64{-low}, []int{}, scale, nil, engine.Uint8, 0, 0)
		return []*graph.Tensor{quantisedTensor(x, in[0].Shape, scale, zero, engine.Uint8, 0, 0), scale, zero}[:len(c.Out)]
	}
}

// callInFloat64 is d applied to inputs of float64, of the shapes of these, with c's attributes. Output 0 gets its shape.
func callInFloat64(c *op.Call, d op.Definition, in ...*graph.Value) *op.Call {
	inner := &op.Call{Node: c.Node, Limit: c.Limit, Evaluates: c.Evaluates, Out: []*graph.Value{graph.NewValue("")}}
	for _, v := range in {
		x := graph.NewValue("")
		x.Type, x.Shape, x.Rank = engine.FP64, v.Shape, v.Rank
		inner.In = append(inner.In, x)
	}
	inner.Typed(0, engine.FP64)
	d.Apply(inner)
	if inner.Out[0].Rank >= 0 {
		c.Shaped(0, inner.Out[0].Shape...)
	}
	return inner
}

func float64Tensor(d []int, x []float64) *graph.Tensor { return graph.FromFloats(engine.FP64, d, x) }

var unit = graph.Scalar(engine.FP64, 1)

// matrixAxes are the dimensions along which the factors of a product may have scalings: rows and columns.
func matrixAxes(c *op.Call, a, b int) (rows, columns int) {
	x, y := c.Ranked(a, 1, 1<<10), c.Ranked(b, 1, 1<<10)
	return max(len(x)-2, 0), len(y) - 1
}

func matMulInteger(c *op.Call) {
	c.Typed(0, engine.Int32)
	c.Elements(1, bytes8)
	rows, columns := matrixAxes(c, 0, 1)
	checkScaling(c, 2, c.Dims(0), rows, 0)
	checkScaling(c, 3, c.Dims(1), columns, 0)
	inner := callInFloat64(c, combine.Linears["MatMul"], c.In[0], c.In[1])
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		a, b := dequantisedFloats(in[0], unit, optionalInput(in, 2), rows, 0), dequantisedFloats(in[1], unit, optionalInput(in, 3), columns, 0)
		out := inner.Run([]*graph.Tensor{float64Tensor(in[0].Shape, a), float64Tensor(in[1].Shape, b)})
		return op.One(op.Retyped(out[0], engine.Int32))
	}
}

func convInteger(c *op.Call) {
	c.Typed(0, engine.Int32)
	c.Elements(1, bytes8)
	checkScaling(c, 2, nil, 0, 0)
	checkScaling(c, 3, c.Dims(1), 0, 0)
	inner := callInFloat64(c, spatial.Convolutions["Conv"], c.In[0], c.In[1])
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x, w := dequantisedFloats(in[0], unit, optionalInput(in, 2), 0, 0), dequantisedFloats(in[1], unit, optionalInput(in, 3), 0, 0)
		out := inner.Run([]*graph.Tensor{float64Tensor(in[0].Shape, x), float64Tensor(in[1].Shape, w)})
		return op.One(op.Retyped(out[0], engine.Int32))
	}
}

// quantisedFactors checks inputs a, its scale and zero point, b and its own, and those of the result.
func quantisedFactors(c *op.Call, axisA, axisB int) {
	for i, of := range []op.Kinds{bytes8, op.Floats, bytes8, bytes8, op.Floats, bytes8, op.Floats, bytes8} {
		c.Elements(i, of)
	}
	for i := 1; i < 3; i++ {
		checkScaling(c, i, c.Dims(0), axisA, 0)
		checkScaling(c, 3+i, c.Dims(3), axisB, 0)
	}
	checkScaling(c, 6, nil, 0, 0)
	checkScaling(c, 7, nil, 0, 0)
	c.Typed(0, c.In[7].Type)
}

func qLinearMatMul(c *op.Call) {
	rows, columns := matrixAxes(c, 0, 3)
	quantisedFactors(c, rows, columns)
	inner := callInFloat64(c, combine.Linears["MatMul"], c.In[0], c.In[3])
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		a, b := dequantisedFloats(in[0], in[1], in[2], rows, 0), dequantisedFloats(in[3], in[4], in[5], columns, 0)
		out := inner.Run([]*graph.Tensor{float64Tensor(in[0].Shape, a), float64Tensor(in[3].Shape, b)})[0]
		return op.One(quantisedTensor(out.Floats(), out.Shape, in[6], in[7], in[7].Type, 0, 0))
	}
}

func qLinearConv(c *op.Call) {
	quantisedFactors(c, math.MaxInt, 0)
	factors := []*graph.Value{c.In[0], c.In[3]}
	if c.Has(8) {
		c.Elements(8, 1<<engine.Int32)
		factors = append(factors, c.In[8])
	}
	inner := callInFloat64(c, spatial.Convolutions["Conv"], factors...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x, w := dequantisedFloats(in[0], in[1], in[2], 0, 0), dequantisedFloats(in[3], in[4], in[5], 0, 0)
		numbers := []*graph.Tensor{float64Tensor(in[0].Shape, x), float64Tensor(in[3].Shape, w)}
		if c.Has(8) { // in units of both scales
			scale := in[1].Floats()[0]
			bias := dequantisedFloats(in[8], in[4], nil, 0, 0)
			numbers = append(numbers, float64Tensor(in[8].Shape, op.Mapped(func(v float64) float64 { return v * scale }, bias)))
		}
		out := inner.Run(numbers)[0]
		return op.One(quantisedTensor(out.Floats(), out.Shape, in[6], in[7], in[7].Type, 0, 0))
	}
}
