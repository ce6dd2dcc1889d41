package ops

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/vjp"
)

// backwards are operations of ours that gradients need and ONNX lacks.
var backwards = map[string]definition{
	vjp.SliceGrad:       {sliceGrad, floats, 1, many, 1},
	vjp.GatherGrad:      {gatherGrad, floats, 2, 2, 1},
	vjp.PadGrad:         {padGrad, floats, 2, 4, 1},
	vjp.MaxPoolGrad:     {maxPoolGrad, floats, 2, 2, 1},
	vjp.AveragePoolGrad: {averagePoolGrad, floats, 1, 1, 1},
	vjp.ResizeGrad:      {resizeGrad, floats, 1, 4, 1},
	vjp.GridSampleGrad:  {gridSampleGrad, floats, 2, 2, 1},
}

// undone is the call of the operation that this one undoes: its first input has the shape of this one's result,
// which is the attribute shape.
func (c *call) undone() *call {
	shape, ok := c.list("shape")
	if !ok {
		c.fail("attribute shape is not given")
	}
	c.shaped(0, shape...)
	if !known(shape) {
		c.fail("attribute shape is %v", shape)
	}
	x := graph.NewValue("")
	x.Set(c.out[0].Type, append([]int{}, shape...)) // without dimensions it is not nil
	return &call{node: c.node, in: append([]*graph.Value{x}, c.in[1:]...), out: []*graph.Value{graph.NewValue("")}, limit: c.limit}
}

// expectGradient checks the shape of input 0, as far as it is known.
func (c *call) expectGradient(shape ...int) { c.expect(0, shape...) }

func sliceGrad(c *call) {
	shape := c.undone().in[0].Shape
	starts, _ := c.list("starts")
	steps, _ := c.list("steps")
	rank := len(shape)
	if len(starts) != rank*len(c.in) || len(steps) != len(starts) {
		c.fail("attributes starts and steps are %v and %v, for %d tensors of %d dimensions", starts, steps, len(c.in), rank)
	}
	for i := range c.in {
		c.same(i)
		d := c.ranked(i, rank, rank)
		for k, n := range d {
			first, step := starts[i*rank+k], steps[i*rank+k]
			if last := first + (n-1)*step; n > 0 && (min(first, last) < 0 || max(first, last) >= shape[k]) || max(step, -step) > c.limit {
				c.fail("%d elements of input %d from %d in steps of %d, in dimension %d of %v", n, i, first, step, k, shape)
			}
		}
	}
	c.onFloats(func(in [][]float64) []float64 {
		y, dense := make([]float64, product(shape)), strides(shape)
		for i, v := range c.in {
			stride, off := make([]int, rank), 0
			for k := range shape {
				stride[k] = dense[k] * steps[i*rank+k]
				off += dense[k] * starts[i*rank+k]
			}
			for k, o := range offsets(v.Shape, stride) {
				if k < len(in[i]) {
					y[off+o] += in[i][k]
				}
			}
		}
		return y
	})
}

func gatherGrad(c *call) {
	c.elements(1, indices)
	d, at := c.undone().in[0].Shape, c.dims(1)
	axis := c.axis("axis", 0, len(d))
	c.expectGradient(slices.Concat(d[:axis], at, d[axis+1:])...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		var index []int
		for _, k := range in[1].Ints() {
			index = append(index, c.place(k, d[axis]))
		}
		return one(c.floats(0, untaken(in[0].Floats(), d, axis, index)))
	}
}

// untaken adds the entries of a tensor to those of a dimension of zeros that index names; -1 is none.
func untaken(g []float64, shape []int, axis int, index []int) []float64 {
	outer, n, inner := around(shape, axis)
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

func padGrad(c *call) {
	forward := c.undone()
	pad(forward)
	d := forward.in[0].Shape
	c.expectGradient(forward.out[0].Shape...)
	mode := c.word("mode", "constant", "reflect", "edge", "wrap")
	before, _, ok := forward.padInputs(len(d))
	if !ok {
		return
	}
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		g, shape := in[0].Floats(), slices.Clone(in[0].Shape)
		for i, n := range d {
			index := indexed(shape[i], func(k int) int { return padSource(mode, k-before[i], n) })
			shape[i] = n
			g = untaken(g, shape, i, index)
		}
		return one(c.floats(0, g))
	}
}

// poolGrad gives each element of a gradient, input 0, to elements of the input of the pooling: give adds to d what
// output o with the gradient g gives to the inputs in.
func (c *call) poolGrad(forward *call, x func(in [][]float64) []float64, give func(w *window3, d, x []float64, o int, in []int, g float64)) {
	w := forward.poolWindow()
	d := forward.dims(0)
	// Where only part of a window is inside, the attributes do not tell whether it counts, but the gradient does.
	if c.in[0].Known() && len(c.in[0].Shape) == len(d) {
		w.Out = slices.Clone(c.in[0].Shape[2:])
	}
	c.expectGradient(append([]int{d[0], d[1]}, w.Out...)...)
	c.shaped(0, d...)
	c.onFloats(func(in [][]float64) []float64 {
		y, each, space, from := make([]float64, product(d)), product(w.Out), product(d[2:]), x(in)
		forward.pooled(w, func(w *window3, image []float64, channel, o int, inside []int) {
			give(w, y[channel*space:(channel+1)*space], image, o, inside, in[0][channel*each+o])
		})(from)
		return y
	})
}

func maxPoolGrad(c *call) {
	c.same(1)
	forward := &call{node: c.node, in: c.in[1:], limit: c.limit}
	second := func(in [][]float64) []float64 { return in[1] }
	c.poolGrad(forward, second, func(_ *window3, d, x []float64, _ int, in []int, g float64) {
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

func averagePoolGrad(c *call) {
	padding := c.flag("count_include_pad", false)
	forward := c.undone()
	none := func([][]float64) []float64 { return make([]float64, product(forward.in[0].Shape)) }
	c.poolGrad(forward, none, func(w *window3, d, _ []float64, o int, in []int, g float64) {
		n := len(in)
		if padding {
			n = w.counted(o)
		}
		for _, i := range in {
			d[i] += g / float64(max(n, 1))
		}
	})
}

// transposed gives to each of n inputs what outputs have of it. Outputs outside of the input have nothing.
func (t *Taps) transposed(n int) Taps {
	out := Taps{Axis: t.Axis, Start: make([]int, n+1)}
	count := len(t.Index)
	for o, outside := range t.outside {
		if outside {
			count -= t.Start[o+1] - t.Start[o]
		}
	}
	out.Index, out.Weight = make([]int, count), make([]float64, count)
	each := func(f func(o, i int)) {
		for o := range len(t.Start) - 1 {
			for i := t.Start[o]; i < t.Start[o+1] && (t.outside == nil || !t.outside[o]); i++ {
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

func resizeGrad(c *call) {
	forward := c.undone()
	r, ok := forward.resizing()
	if !ok {
		return
	}
	d := forward.dims(0)
	c.expectGradient(r.shape...)
	c.onFloats(func(in [][]float64) []float64 {
		g, shape := in[0], slices.Clone(r.shape)
		for _, t := range r.taps(d) {
			back := t.transposed(d[t.Axis])
			g = back.apply(g, shape)
			shape[t.Axis] = d[t.Axis]
		}
		return g
	})
}

func gridSampleGrad(c *call) {
	g, d, at := c.undone().grid()
	c.expectGradient(append([]int{d[0], d[1]}, at[1:len(at)-1]...)...)
	c.onFloats(func(in [][]float64) []float64 {
		y := make([]float64, product(d))
		g.read(d, at, in[1], func(to, from int, weight float64) { y[from] += weight * in[0][to] })
		return y
	})
}
