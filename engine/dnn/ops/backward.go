package ops

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/move"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/spatial"
	"github.com/prefillonly/prefillonly/engine/dnn/vjp"
)

// backwards are operations of ours that gradients need and ONNX lacks.
var backwards = map[string]op.Definition{
	vjp.SliceGrad:       op.Define(sliceGrad, op.Floats, 1, op.Many, 1),
	vjp.GatherGrad:      op.Define(gatherGrad, op.Floats, 2, 2, 1),
	vjp.PadGrad:         op.Define(padGrad, op.Floats, 2, 4, 1),
	vjp.MaxPoolGrad:     op.Define(maxPoolGrad, op.Floats, 2, 2, 1),
	vjp.AveragePoolGrad: op.Define(averagePoolGrad, op.Floats, 1, 1, 1),
	vjp.ResizeGrad:      op.Define(resizeGrad, op.Floats, 1, 4, 1),
	vjp.GridSampleGrad:  op.Define(gridSampleGrad, op.Floats, 2, 2, 1),
}

// undoneCall is the call of the operation that this one undoes: its first input has the shape of this one's result,
// which is the attribute shape.
func undoneCall(c *op.Call) *op.Call {
	shape, ok := c.List("shape")
	if !ok {
		c.Fail("missing attribute shape")
	}
	c.Shaped(0, shape...)
	if !op.Known(shape) {
		c.Fail("invalid attribute shape %v: want sizes of 0 or more", shape)
	}
	x := graph.NewValue("")
	x.Set(c.Out[0].Type, append([]int{}, shape...)) // without dimensions it is not nil
	return &op.Call{Node: c.Node, In: append([]*graph.Value{x}, c.In[1:]...), Out: []*graph.Value{graph.NewValue("")}, Limit: c.Limit}
}

// expectGradient checks the shape of input 0, as far as it is known.
func expectGradient(c *op.Call, shape ...int) { c.Expect(0, shape...) }

func sliceGrad(c *op.Call) {
	shape := undoneCall(c).In[0].Shape
	starts, _ := c.List("starts")
	steps, _ := c.List("steps")
	rank := len(shape)
	if len(starts) != rank*len(c.In) || len(steps) != len(starts) {
		c.Fail("invalid attributes starts %v and steps %v: want one for each of %d tensors and %d dimensions", starts, steps, len(c.In), rank)
	}
	for i := range c.In {
		c.Same(i)
		d := c.Ranked(i, rank, rank)
		for k, n := range d {
			first, step := starts[i*rank+k], steps[i*rank+k]
			if last := first + (n-1)*step; n > 0 && (min(first, last) < 0 || max(first, last) >= shape[k]) || max(step, -step) > c.Limit {
				c.Fail("cannot place %d elements of input %d from %d in steps of %d in dimension %d of %v", n, i, first, step, k, shape)
			}
		}
	}
	c.OnFloats(func(in [][]float64) []float64 {
		y, dense := make([]float64, op.Product(shape)), op.Strides(shape)
		for i, v := range c.In {
			stride, off := make([]int, rank), 0
			for k := range shape {
				stride[k] = dense[k] * steps[i*rank+k]
				off += dense[k] * starts[i*rank+k]
			}
			for k, o := range op.Offsets(v.Shape, stride) {
				if k < len(in[i]) {
					y[off+o] += in[i][k]
				}
			}
		}
		return y
	})
}

func gatherGrad(c *op.Call) {
	c.Elements(1, op.Indices)
	d, at := undoneCall(c).In[0].Shape, c.Dims(1)
	axis := c.Axis("axis", 0, len(d))
	expectGradient(c, slices.Concat(d[:axis], at, d[axis+1:])...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		var index []int
		for _, k := range in[1].Ints() {
			index = append(index, c.Place(k, d[axis]))
		}
		return op.One(c.Floats(0, scatterAlongAxis(in[0].Floats(), d, axis, index)))
	}
}

// scatterAlongAxis adds the entries of a tensor to those of a dimension of zeros that index names; -1 is none.
func scatterAlongAxis(g []float64, shape []int, axis int, index []int) []float64 {
	outer, n, inner := op.Around(shape, axis)
	y := make([]float64, outer*n*inner)
	for i := range outer {
		for _, k := range index {
			for j := range inner {
				if k >= 0 {
					y[(i*n+k)*inner+j] += g[j]
				}
			}
			g = g[inner:]
		}
	}
	return y
}

func padGrad(c *op.Call) {
	forward := undoneCall(c)
	move.Pad(forward)
	d := forward.In[0].Shape
	expectGradient(c, forward.Out[0].Shape...)
	mode := c.Word("mode", "constant", "reflect", "edge", "wrap")
	before, _, ok := move.PadInputs(forward, len(d))
	if !ok {
		return
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		g, shape := in[0].Floats(), slices.Clone(in[0].Shape)
		for i, n := range d {
			index := op.Indexed(shape[i], func(k int) int { return move.PadSource(mode, k-before[i], n) })
			shape[i] = n
			g = scatterAlongAxis(g, shape, i, index)
		}
		return op.One(c.Floats(0, g))
	}
}

// poolGrad gives each element of a gradient, input 0, to elements of the input of the pooling: give adds to d what
// output o with the gradient g gives to the inputs in.
func poolGrad(c *op.Call, forward *op.Call, x func(in [][]float64) []float64, give func(w *spatial.Window3, d, x []float64, o int, in []int, g float64)) {
	w := spatial.PoolWindow(forward)
	d := forward.Dims(0)
	// Where only part of a window is inside, the attributes do not tell whether it counts, but the gradient does.
	if c.In[0].Known() && len(c.In[0].Shape) == len(d) {
		w.Out = slices.Clone(c.In[0].Shape[2:])
	}
	expectGradient(c, append([]int{d[0], d[1]}, w.Out...)...)
	c.Shaped(0, d...)
	c.OnFloats(func(in [][]float64) []float64 {
		y, each, space, from := make([]float64, op.Product(d)), op.Product(w.Out), op.Product(d[2:]), x(in)
		spatial.Pooled(forward, w, func(w *spatial.Window3, image []float64, channel, o int, inside []int) {
			give(w, y[channel*space:(channel+1)*space], image, o, inside, in[0][channel*each+o])
		})(from)
		return y
	})
}

func maxPoolGrad(c *op.Call) {
	c.Same(1)
	forward := &op.Call{Node: c.Node, In: c.In[1:], Limit: c.Limit}
	second := func(in [][]float64) []float64 { return in[1] }
	poolGrad(c, forward, second, func(_ *spatial.Window3, d, x []float64, _ int, in []int, g float64) {
		best, at := math.Inf(-1), -1
		for k, i := range in {
			if v := x[i]; k == 0 || v > best || v != v {
				best, at = v, i
			}
		}
		if at >= 0 {
			d[at] += g
		}
	})
}

func averagePoolGrad(c *op.Call) {
	padding := c.Flag("count_include_pad", false)
	forward := undoneCall(c)
	none := func([][]float64) []float64 { return make([]float64, op.Product(forward.In[0].Shape)) }
	poolGrad(c, forward, none, func(w *spatial.Window3, d, _ []float64, o int, in []int, g float64) {
		n := len(in)
		if padding {
			n = w.Counted(o)
		}
		for _, i := range in {
			d[i] += g / float64(max(n, 1))
		}
	})
}

// transposeTaps gives to each of n inputs what outputs have of it. Outputs outside of the input have nothing.
func transposeTaps(t *spatial.Taps, n int) spatial.Taps {
	out := spatial.Taps{Axis: t.Axis, Start: make([]int, n+1)}
	count := len(t.Index)
	for o, outside := range t.Outside {
		if outside {
			count -= t.Start[o+1] - t.Start[o]
		}
	}
	out.Index, out.Weight = make([]int, count), make([]float64, count)
	each := func(f func(o, i int)) {
		for o := range len(t.Start) - 1 {
			for i := t.Start[o]; i < t.Start[o+1] && (t.Outside == nil || !t.Outside[o]); i++ {
				f(o, i)
			}
		}
	}
	each(func(_, i int) { out.Start[t.Index[i]+1]++ })
	for k := range n {
		out.Start[k+1] += out.Start[k]
	}
	next := slices.Clone(out.Start)
	each(func(o, i int) {
		at := next[t.Index[i]]
		next[t.Index[i]]++
		out.Index[at], out.Weight[at] = o, t.Weight[i]
	})
	return out
}

func resizeGrad(c *op.Call) {
	forward := undoneCall(c)
	r, ok := spatial.Resizing(forward)
	if !ok {
		return
	}
	d := forward.Dims(0)
	expectGradient(c, r.Shape...)
	c.OnFloats(func(in [][]float64) []float64 {
		g, shape := in[0], slices.Clone(r.Shape)
		for _, t := range r.Taps(d) {
			back := transposeTaps(&t, d[t.Axis])
			g = back.Apply(g, shape)
			shape[t.Axis] = d[t.Axis]
		}
		return g
	})
}

func gridSampleGrad(c *op.Call) {
	g, d, at := spatial.Grid(undoneCall(c))
	expectGradient(c, append([]int{d[0], d[1]}, at[1:len(at)-1]...)...)
	c.OnFloats(func(in [][]float64) []float64 {
		y := make([]float64, op.Product(d))
		g.Read(d, at, in[1], func(to, from int, weight float64) { y[from] += weight * in[0][to] })
		return y
	})
}
