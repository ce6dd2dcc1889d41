// Package move has the operations that put elements elsewhere and leave them as they are, and those that make tensors
// out of shapes.
package move

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Moves are operations that put elements elsewhere and leave them as they are.
var Moves = map[string]op.Definition{
	"Reshape":         op.Define(reshape, op.Anything, 2, 2, 1),
	"Flatten":         op.Define(flatten, op.Anything, 1, 1, 1),
	"Squeeze":         op.Define(squeeze, op.Anything, 1, 2, 1),
	"Unsqueeze":       op.Define(unsqueeze, op.Anything, 2, 2, 1),
	"Transpose":       op.Define(transpose, op.Anything, 1, 1, 1),
	"Slice":           op.Define(slice, op.Anything, 3, 5, 1),
	"Concat":          op.Define(concat, op.Anything, 1, op.Many, 1),
	"Split":           op.Define(split, op.Anything, 1, 2, op.Many),
	"Expand":          op.Define(expand, op.Anything, 2, 2, 1),
	"Tile":            op.Define(tile, op.Anything, 2, 2, 1),
	"Pad":             op.Define(Pad, op.Anything, 2, 4, 1),
	"CenterCropPad":   op.Define(centerCropPad, op.Anything, 2, 2, 1),
	"DepthToSpace":    op.Define(depthToSpace, op.Anything, 1, 1, 1),
	"SpaceToDepth":    op.Define(spaceToDepth, op.Anything, 1, 1, 1),
	"Trilu":           op.Define(trilu, op.Anything, 1, 2, 1),
	"ReverseSequence": op.Define(reverseSequence, op.Anything, 2, 2, 1),
}

// reshapeTo makes output 0 the elements of input 0 in another shape.
func reshapeTo(c *op.Call, shape []int) {
	if from := c.Dims(0); op.Known(from) && op.Known(shape) && op.Product(from) != op.Product(shape) {
		c.Fail("cannot reshape %v of %d elements to %v of %d", from, op.Product(from), shape, op.Product(shape))
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor { return op.One(in[0].Reshaped(c.Out[0].Shape...)) }
}

func reshape(c *op.Call) {
	zero := c.Flag("allowzero", false)
	want, ok := c.Ints(1)
	if !ok {
		if n := c.Vector(1); n >= 0 {
			c.Shaped(0, op.Filled(min(n, op.MaxRank+1), -1)...)
		}
		return
	}
	c.Vector(1)
	from := c.Dims(0)
	shape := slices.Clone(want)
	open := -1
	for i, d := range want {
		switch {
		case d == 0 && !zero && i >= len(from):
			c.Fail("invalid shape %[2]v: dimension %[1]d is 0, to be copied, and input %[3]v has none", i, want, from)
		case d == 0 && !zero:
			shape[i] = from[i]
		case d == -1 && open >= 0 || d < -1:
			c.Fail("invalid shape %v: want sizes, and -1 at most once", want)
		case d == -1:
			open = i
		}
	}
	if open >= 0 {
		c.CheckShape("shape", shape)
		shape[open] = inferredDimension(c, from, slices.Delete(slices.Clone(shape), open, open+1), want)
	}
	reshapeTo(c, shape)
}

// inferredDimension is the dimension that others lack to the elements of from; -1 if that is not known. Dimensions that are not
// known cancel each other where want takes them over from the input.
func inferredDimension(c *op.Call, from, others, want []int) int {
	from, others = slices.Clone(from), slices.Clone(others)
	for i, d := range want {
		if k := slices.Index(others, -1); d == 0 && i < len(from) && from[i] < 0 && k >= 0 {
			from[i], others[k] = 1, 1
		}
	}
	n, m := op.Product(from), op.Product(others)
	switch {
	case n < 0 || m < 0:
		return -1
	case m == 0 && n == 0:
		return 0
	case m == 0 || n%m != 0:
		c.Fail("cannot reshape %d elements to %v", n, want)
	}
	return n / m
}

func flatten(c *op.Call) {
	d := c.Dims(0)
	axis := c.Int("axis", 1)
	if axis != len(d) {
		axis = c.Axis("axis", 1, len(d))
	}
	reshapeTo(c, []int{op.Product(d[:axis]), op.Product(d[axis:])})
}

func squeeze(c *op.Call) {
	d := c.Dims(0)
	drop := make([]bool, len(d))
	if c.Has(1) {
		axes, ok := c.Ints(1)
		if !ok {
			if n := c.Vector(1); n >= 0 && n <= len(d) {
				c.Shaped(0, op.Filled(len(d)-n, -1)...)
			}
			return
		}
		for _, a := range c.Dimensions("the axes", axes, len(d)) {
			if drop[a] = true; d[a] != 1 && d[a] >= 0 {
				c.Fail("cannot squeeze dimension %d of %v: want 1", a, d)
			}
		}
	} else {
		for i := range d {
			if drop[i] = d[i] == 1; d[i] < 0 {
				return
			}
		}
	}
	shape := []int{}
	for i := range d {
		if !drop[i] {
			shape = append(shape, d[i])
		}
	}
	reshapeTo(c, shape)
}

func unsqueeze(c *op.Call) {
	d := c.Dims(0)
	axes, ok := c.Ints(1)
	if !ok {
		if n := c.Vector(1); n >= 0 {
			c.Shaped(0, op.Filled(len(d)+min(n, op.MaxRank+1), -1)...)
		}
		return
	}
	if len(axes) > 64 {
		c.Fail("got %d axes, want at most 64", len(axes))
	}
	shape := make([]int, len(d)+len(axes))
	for _, a := range c.Dimensions("the axes", axes, len(shape)) {
		shape[a] = 1
	}
	for i := range shape {
		if shape[i] == 0 {
			shape[i], d = d[0], d[1:]
		}
	}
	reshapeTo(c, shape)
}

func transpose(c *op.Call) {
	d := c.Dims(0)
	perm, ok := c.List("perm")
	if !ok {
		for i := range d {
			perm = append(perm, len(d)-1-i)
		}
	}
	if len(perm) != len(d) {
		c.Fail("invalid attribute perm %v: want each of %d dimensions once", perm, len(d))
	}
	perm = c.Dimensions("attribute perm", perm, len(d))
	shape := make([]int, len(d))
	for i, p := range perm {
		shape[i] = d[p]
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor { return op.One(op.Permuted(in[0], perm)) }
}

// cut is what Slice takes of a dimension: count entries from start on, step apart.
type cut struct{ axis, start, step, count int }

func slice(c *op.Call) {
	d := c.Dims(0)
	axes, starts, ends, steps, ok := sliceInputs(c, len(d))
	if !ok {
		c.Shaped(0, op.Filled(len(d), -1)...)
		return
	}
	shape := slices.Clone(d)
	var cuts []cut
	for i, a := range c.Dimensions("the axes", axes, len(d)) {
		if steps[i] == 0 {
			c.Fail("invalid step %d: want other than 0", i)
		}
		if d[a] < 0 {
			if shape[a] = -1; starts[i] == 0 && steps[i] == 1 && ends[i] >= math.MaxInt32 {
				continue
			}
		} else {
			k := cutOf(d[a], starts[i], ends[i], steps[i])
			k.axis, shape[a] = a, k.count
			cuts = append(cuts, k)
		}
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0]
		stride, off := op.Strides(t.Shape), 0
		for _, k := range cuts {
			off += k.start * stride[k.axis]
			stride[k.axis] *= k.step
		}
		return op.One(op.Gathered(t, shape, stride, off))
	}
}

// sliceInputs are Slice's, as many of each; ok is false if they are not all constants.
func sliceInputs(c *op.Call, rank int) (axes, starts, ends, steps []int, ok bool) {
	starts, ok = c.Ints(1)
	ends, ok2 := c.Ints(2)
	ok = ok && ok2
	for i := range starts {
		axes, steps = append(axes, i), append(steps, 1)
	}
	if c.Has(3) {
		axes, ok2 = c.Ints(3)
		ok = ok && ok2
	}
	if c.Has(4) {
		steps, ok2 = c.Ints(4)
		ok = ok && ok2
	}
	if ok && (len(starts) > rank || len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts)) {
		c.Fail("got %d starts, %d ends, %d axes and %d steps for %d dimensions: want equal numbers", len(starts), len(ends), len(axes), len(steps), rank)
	}
	return axes, starts, ends, steps, ok
}

// cutOf is the part from start to end, exclusive, of n entries. Numbers below 0 count from the end; what lies beyond
// the entries is left out.
func cutOf(n, start, end, step int) cut {
	if start < 0 {
		start = max(start, -n-1) + n
	}
	if end < 0 {
		end = max(end, -n-1) + n
	}
	k := cut{step: step}
	if step > 0 {
		start, end = min(max(start, 0), n), min(max(end, 0), n)
		k.count = max(0, (end-start-1)/step+1)
		if end <= start {
			k.count = 0
		}
	} else {
		start, end = min(max(start, 0), n-1), min(max(end, -1), n-1)
		step = max(step, -n-1)
		if start > end {
			k.count = (start-end-1)/-step + 1
		}
	}
	k.start = start
	if k.count < 2 {
		k.step = 1 // a huge one is never taken
	}
	if k.count == 0 {
		k.start = 0
	}
	return k
}

func concat(c *op.Call) {
	first := c.Dims(0)
	if _, ok := c.Node.Attrs["axis"]; !ok {
		c.Fail("missing attribute axis")
	}
	axis := c.Axis("axis", 0, len(first))
	shape := slices.Clone(first)
	for i := 1; i < len(c.In); i++ {
		c.Same(i)
		d := c.Dims(i)
		if len(d) != len(first) {
			c.Fail("input %d has shape %v, input 0 has %v: want equal ones but along the axis", i, d, first)
		}
		for k := range d {
			switch {
			case k == axis && (shape[k] < 0 || d[k] < 0):
				shape[k] = -1
			case k == axis:
				shape[k] += d[k]
			case shape[k] < 0:
				shape[k] = d[k]
			case d[k] >= 0 && d[k] != shape[k]:
				c.Fail("input %d has shape %v, input 0 has %v: want equal ones but along the axis", i, d, first)
			}
		}
		c.CheckShape("output 0", shape)
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		out := c.New(0)
		dst := out.Data
		for outer := range op.Product(shape[:axis]) {
			for _, t := range in {
				chunk := op.Product(t.Shape[axis:]) * t.Type.Size()
				copy(dst[:chunk], t.Data[outer*chunk:])
				dst = dst[chunk:]
			}
		}
		return op.One(out)
	}
}

func split(c *op.Call) {
	d := c.Dims(0)
	axis := c.Axis("axis", 0, len(d))
	sizes, ok := splitSizes(c, d[axis])
	for i := range c.Out {
		c.Typed(i, c.In[0].Type)
		shape := slices.Clone(d)
		if shape[axis] = -1; ok {
			shape[axis] = sizes[i]
		}
		c.Shaped(i, shape...)
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		var out []*graph.Tensor
		stride, off := op.Strides(d), 0
		for i := range c.Out {
			out = append(out, op.Gathered(in[0], c.Out[i].Shape, stride, off))
			off += sizes[i] * stride[axis]
		}
		return out
	}
}

// splitSizes are those of Split's outputs of n entries; ok is false if they are not known.
func splitSizes(c *op.Call, n int) (sizes []int, ok bool) {
	outputs := c.Int("num_outputs", len(c.Out))
	if outputs != len(c.Out) {
		c.Fail("invalid attribute num_outputs %d: node has %d outputs", outputs, len(c.Out))
	}
	if !c.Has(1) {
		if n < 0 {
			return nil, false
		}
		each := (n + outputs - 1) / outputs
		for i := range outputs {
			sizes = append(sizes, max(0, min(each, n-i*each)))
		}
		return sizes, true
	}
	if sizes, ok = c.Ints(1); !ok {
		return nil, false
	}
	total := 0
	for _, s := range sizes {
		if total += s; s < 0 || s > c.Limit || total > c.Limit {
			c.Fail("invalid split %v: want sizes of 0 or more", sizes)
		}
	}
	if len(sizes) != outputs || n >= 0 && total != n {
		c.Fail("invalid split %v: want a sum of %d, and %d sizes", sizes, n, outputs)
	}
	return sizes, true
}

func expand(c *op.Call) {
	want, ok := c.Ints(1)
	if !ok {
		if n := c.Vector(1); n >= 0 {
			c.Shaped(0, op.Filled(max(len(c.Dims(0)), min(n, op.MaxRank+1)), -1)...)
		}
		return
	}
	c.CheckShape("shape", want)
	if !op.Known(want) {
		c.Fail("invalid shape %v: want sizes of 0 or more", want)
	}
	shape, ok := op.BroadcastShape(c.Dims(0), want)
	if !ok {
		c.Fail("input 0 has shape %v, which does not broadcast with %v", c.Dims(0), want)
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor { return op.One(op.Expanded(in[0], c.Out[0].Shape)) }
}

func tile(c *op.Call) {
	d := c.Dims(0)
	repeats, ok := c.Ints(1)
	if !ok {
		c.Shaped(0, op.Filled(len(d), -1)...)
		return
	}
	if len(repeats) != len(d) {
		c.Fail("got %d repeats, want %d", len(repeats), len(d))
	}
	shape := slices.Clone(d)
	for i, r := range repeats {
		if r < 0 || r > c.Limit {
			c.Fail("invalid repeats %v: want 0 to %d", repeats, c.Limit)
		}
		if d[i] >= 0 {
			shape[i] *= r
		}
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0]
		for i, r := range repeats {
			if r != 1 {
				t = op.Taken(t, i, op.Indexed(shape[i], func(k int) int { return k % d[i] }), nil)
			}
		}
		return op.One(t)
	}
}
