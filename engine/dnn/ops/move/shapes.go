package move

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Shapes are operations on shapes, and those that make tensors out of little.
var Shapes = map[string]op.Definition{
	"Shape":           op.Define(shapeOf, op.Anything, 1, 1, 1),
	"Size":            op.Define(sizeOf, op.Anything, 1, 1, 1),
	"Constant":        op.Define(constant, op.Anything, 0, 0, 1),
	"ConstantOfShape": op.Define(constantOfShape, 1<<engine.Int64, 1, 1, 1),
	"Range":           op.Define(rangeOf, op.Indices|1<<engine.Int16|1<<engine.FP32|1<<engine.FP64, 3, 3, 1),
	"EyeLike":         op.Define(eyeLike, op.Anything, 1, 1, 1),
	"OneHot":          op.Define(oneHot, op.Numbers, 3, 3, 1),
}

func shapeOf(c *op.Call) {
	c.Typed(0, engine.Int64)
	start, end := c.Int("start", 0), c.Int("end", math.MaxInt)
	if c.In[0].Rank < 0 {
		return
	}
	d := c.In[0].Shape
	k := cutOf(len(d), start, end, 1)
	c.Shaped(0, k.count)
	c.Run = func([]*graph.Tensor) []*graph.Tensor {
		out := []int64{}
		for _, n := range d[k.start : k.start+k.count] {
			out = append(out, int64(n))
		}
		return op.One(graph.Vector(out...))
	}
}

func sizeOf(c *op.Call) {
	c.Typed(0, engine.Int64)
	c.Shaped(0)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		return op.One(graph.FromInts(engine.Int64, []int{}, []int64{int64(in[0].Len())}))
	}
}

// constant is the tensor that an attribute is.
func constant(c *op.Call) {
	var t *graph.Tensor
	for name, a := range c.Node.Attrs {
		switch v := a.(type) {
		case *graph.Tensor:
			t = v
		case int64:
			t = graph.FromInts(engine.Int64, []int{}, []int64{v})
		case []int64:
			t = graph.Vector(v...)
		case float64:
			t = graph.Scalar(engine.FP32, v)
		case []float64:
			t = graph.FromFloats(engine.FP32, []int{len(v)}, v)
		default:
			c.Fail("attribute %s of type %T is not supported", name, a)
		}
	}
	if t == nil || len(c.Node.Attrs) != 1 {
		c.Fail("got %d attributes, want one, the value", len(c.Node.Attrs))
	}
	c.CheckData([]*graph.Tensor{t})
	c.Typed(0, t.Type)
	c.Shaped(0, t.Shape...)
	c.Run = func([]*graph.Tensor) []*graph.Tensor { return op.One(t) }
}

func constantOfShape(c *op.Call) {
	value, ok := op.Attribute[*graph.Tensor](c, "value")
	if !ok {
		value = graph.NewTensor(engine.FP32, 1)
	}
	c.CheckData([]*graph.Tensor{value})
	if value.Len() != 1 {
		c.Fail("invalid attribute value %v: want one element", value)
	}
	c.Typed(0, value.Type)
	n := c.Vector(0)
	if shape, ok := c.Ints(0); ok {
		if c.CheckShape("output 0", shape); !op.Known(shape) {
			c.Fail("invalid shape %v: want sizes of 0 or more", shape)
		}
		c.Shaped(0, shape...)
	} else if n >= 0 {
		c.Shaped(0, op.Filled(min(n, op.MaxRank+1), -1)...)
	}
	c.Run = func([]*graph.Tensor) []*graph.Tensor {
		return op.One(&graph.Tensor{Type: value.Type, Shape: c.Out[0].Shape, Data: slices.Repeat(value.Data, op.Product(c.Out[0].Shape))})
	}
}

func rangeOf(c *op.Call) {
	c.Same(1, 2)
	c.Shaped(0, -1)
	var from, to, step float64
	for i, v := range []*float64{&from, &to, &step} {
		x, ok := c.Scalar(i)
		if !ok {
			return
		}
		*v = x
	}
	n := math.Ceil((to - from) / step)
	if math.IsNaN(n) || n > float64(c.Limit) {
		c.Fail("invalid range of %g numbers, from %g to %g by %g", n, from, to, step)
	}
	c.Shaped(0, int(max(n, 0)))
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		n := c.Out[0].Shape[0]
		if !graph.Floating(in[0].Type) {
			first, by := in[0].Ints()[0], in[2].Ints()[0]
			return op.One(graph.FromInts(in[0].Type, []int{n}, intsOf(n, func(i int) int64 { return first + int64(i)*by })))
		}
		out := make([]float64, n)
		for i := range out {
			out[i] = from + float64(i)*step
		}
		return op.One(c.Floats(0, out))
	}
}

func intsOf(n int, f func(int) int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func eyeLike(c *op.Call) {
	c.Typed(0, c.Dtype("dtype", c.In[0].Type))
	d := c.Ranked(0, 2, 2)
	k := c.Int("k", 0)
	c.Shaped(0, d...)
	c.Run = func([]*graph.Tensor) []*graph.Tensor {
		return op.One(graph.FromInts(c.Out[0].Type, d, intsOf(op.Product(d), func(i int) int64 { return op.Truth[int64](i%d[1]-i/d[1] == k) })))
	}
}

// oneHot takes indices of any type, and a depth whose fraction is dropped.
func oneHot(c *op.Call) {
	c.Elements(1, op.Numbers)
	c.Typed(0, c.Elements(2, op.Anything))
	c.Expect(2, 2)
	d := c.Dims(0)
	axis := c.Int("axis", -1)
	if axis < -len(d)-1 || axis > len(d) {
		c.Fail("invalid attribute axis %d: output has %d dimensions", axis, len(d)+1)
	}
	if axis < 0 {
		axis += len(d) + 1
	}
	depth := -1
	if x, ok := c.Scalar(1); ok {
		if !(x >= 0 && x <= float64(c.Limit)) {
			c.Fail("invalid depth %g: want 0 or more", x)
		}
		depth = int(x)
	}
	c.Shaped(0, slices.Insert(slices.Clone(d), axis, depth)...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		size := in[2].Type.Size()
		out := &graph.Tensor{Type: in[2].Type, Shape: c.Out[0].Shape, Data: slices.Repeat(in[2].Data[:size], op.Product(c.Out[0].Shape))}
		inner := op.Product(d[axis:])
		for i, x := range in[0].Ints() {
			if x >= -int64(depth) && x < int64(depth) {
				at := (i/inner*depth+c.Place(x, depth))*inner + i%inner
				copy(out.Data[at*size:(at+1)*size], in[2].Data[size:])
			}
		}
		return op.One(out)
	}
}
