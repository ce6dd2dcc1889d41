package ops

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// shapes are operations on shapes and conditions, those that make tensors out of little, and If.
var shapes = map[string]definition{
	"Shape":           {shapeOf, anything, 1, 1, 1},
	"Size":            {sizeOf, anything, 1, 1, 1},
	"Constant":        {constant, anything, 0, 0, 1},
	"ConstantOfShape": {constantOfShape, 1 << engine.Int64, 1, 1, 1},
	"Range":           {rangeOf, indices | 1<<engine.Int16 | 1<<engine.FP32 | 1<<engine.FP64, 3, 3, 1},
	"EyeLike":         {eyeLike, anything, 1, 1, 1},
	"OneHot":          {oneHot, numbers, 3, 3, 1},
	"If":              {choose, booleans, 1, many, many},
}

func shapeOf(c *call) {
	c.typed(0, engine.Int64)
	start, end := c.int("start", 0), c.int("end", math.MaxInt)
	if c.in[0].Rank < 0 {
		return
	}
	d := c.in[0].Shape
	k := cutOf(len(d), start, end, 1)
	c.shaped(0, k.count)
	c.run = func([]*graph.Tensor) []*graph.Tensor {
		out := []int64{}
		for _, n := range d[k.start : k.start+k.count] {
			out = append(out, int64(n))
		}
		return one(graph.Vector(out...))
	}
}

func sizeOf(c *call) {
	c.typed(0, engine.Int64)
	c.shaped(0)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		return one(graph.FromInts(engine.Int64, []int{}, []int64{int64(in[0].Len())}))
	}
}

// constant is the tensor that an attribute is.
func constant(c *call) {
	var t *graph.Tensor
	for name, a := range c.node.Attrs {
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
			c.fail("attribute %s is %T, which is not done", name, a)
		}
	}
	if t == nil || len(c.node.Attrs) != 1 {
		c.fail("%d attributes, of 1 that is its value", len(c.node.Attrs))
	}
	c.checkData([]*graph.Tensor{t})
	c.typed(0, t.Type)
	c.shaped(0, t.Shape...)
	c.run = func([]*graph.Tensor) []*graph.Tensor { return one(t) }
}

func constantOfShape(c *call) {
	value, ok := attribute[*graph.Tensor](c, "value")
	if !ok {
		value = graph.NewTensor(engine.FP32, 1)
	}
	c.checkData([]*graph.Tensor{value})
	if value.Len() != 1 {
		c.fail("attribute value is %v, not one element", value)
	}
	c.typed(0, value.Type)
	n := c.vector(0)
	if shape, ok := c.ints(0); ok {
		if c.checkShape("output 0", shape); !known(shape) {
			c.fail("the shape is %v", shape)
		}
		c.shaped(0, shape...)
	} else if n >= 0 {
		c.shaped(0, filled(min(n, 64), -1)...)
	}
	c.run = func([]*graph.Tensor) []*graph.Tensor {
		return one(&graph.Tensor{Type: value.Type, Shape: c.out[0].Shape, Data: slices.Repeat(value.Data, product(c.out[0].Shape))})
	}
}

func rangeOf(c *call) {
	c.same(1, 2)
	c.shaped(0, -1)
	var from, to, step float64
	for i, v := range []*float64{&from, &to, &step} {
		x, ok := c.scalar(i)
		if !ok {
			return
		}
		*v = x
	}
	n := math.Ceil((to - from) / step)
	if math.IsNaN(n) || n > float64(c.limit) {
		c.fail("%g numbers from %g to %g by %g", n, from, to, step)
	}
	c.shaped(0, int(max(n, 0)))
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		n := c.out[0].Shape[0]
		if !graph.Floating(in[0].Type) {
			first, by := in[0].Ints()[0], in[2].Ints()[0]
			return one(graph.FromInts(in[0].Type, []int{n}, intsOf(n, func(i int) int64 { return first + int64(i)*by })))
		}
		out := make([]float64, n)
		for i := range out {
			out[i] = from + float64(i)*step
		}
		return one(c.floats(0, out))
	}
}

func intsOf(n int, f func(int) int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func eyeLike(c *call) {
	c.typed(0, c.dtype("dtype", c.in[0].Type))
	d := c.ranked(0, 2, 2)
	k := c.int("k", 0)
	c.shaped(0, d...)
	c.run = func([]*graph.Tensor) []*graph.Tensor {
		return one(graph.FromInts(c.out[0].Type, d, intsOf(product(d), func(i int) int64 { return truth[int64](i%d[1]-i/d[1] == k) })))
	}
}

// oneHot takes indices of any type, and a depth whose fraction is dropped.
func oneHot(c *call) {
	c.elements(1, numbers)
	c.typed(0, c.elements(2, anything))
	c.expect(2, 2)
	d := c.dims(0)
	axis := c.int("axis", -1)
	if axis < -len(d)-1 || axis > len(d) {
		c.fail("attribute axis is %d, of %d dimensions", axis, len(d)+1)
	}
	if axis < 0 {
		axis += len(d) + 1
	}
	depth := -1
	if x, ok := c.scalar(1); ok {
		if !(x >= 0 && x <= float64(c.limit)) {
			c.fail("the depth is %g", x)
		}
		depth = int(x)
	}
	c.shaped(0, slices.Insert(slices.Clone(d), axis, depth)...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		size := in[2].Type.Size()
		out := &graph.Tensor{Type: in[2].Type, Shape: c.out[0].Shape, Data: slices.Repeat(in[2].Data[:size], product(c.out[0].Shape))}
		inner := product(d[axis:])
		for i, x := range in[0].Ints() {
			if x >= -int64(depth) && x < int64(depth) {
				at := (i/inner*depth+c.place(x, depth))*inner + i%inner
				copy(out.Data[at*size:(at+1)*size], in[2].Data[size:])
			}
		}
		return one(out)
	}
}
