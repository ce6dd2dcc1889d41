package ops

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// moves are operations that put elements elsewhere and leave them as they are.
var moves = map[string]definition{
	"Reshape":         {reshape, anything, 2, 2, 1},
	"Flatten":         {flatten, anything, 1, 1, 1},
	"Squeeze":         {squeeze, anything, 1, 2, 1},
	"Unsqueeze":       {unsqueeze, anything, 2, 2, 1},
	"Transpose":       {transpose, anything, 1, 1, 1},
	"Slice":           {slice, anything, 3, 5, 1},
	"Concat":          {concat, anything, 1, many, 1},
	"Split":           {split, anything, 1, 2, many},
	"Expand":          {expand, anything, 2, 2, 1},
	"Tile":            {tile, anything, 2, 2, 1},
	"Pad":             {pad, anything, 2, 4, 1},
	"CenterCropPad":   {centerCropPad, anything, 2, 2, 1},
	"DepthToSpace":    {depthToSpace, anything, 1, 1, 1},
	"SpaceToDepth":    {spaceToDepth, anything, 1, 1, 1},
	"Trilu":           {trilu, anything, 1, 2, 1},
	"ReverseSequence": {reverseSequence, anything, 2, 2, 1},
}

// reshaped makes output 0 the elements of input 0 in another shape.
func (c *call) reshaped(shape []int) {
	if from := c.dims(0); known(from) && known(shape) && product(from) != product(shape) {
		c.fail("%v has %d elements, and %v would have %d", from, product(from), shape, product(shape))
	}
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor { return one(in[0].Reshaped(c.out[0].Shape...)) }
}

func reshape(c *call) {
	zero := c.flag("allowzero", false)
	want, ok := c.ints(1)
	if !ok {
		if n := c.vector(1); n >= 0 {
			c.shaped(0, filled(min(n, 64), -1)...)
		}
		return
	}
	c.vector(1)
	from := c.dims(0)
	shape := slices.Clone(want)
	open := -1
	for i, d := range want {
		switch {
		case d == 0 && !zero && i >= len(from):
			c.fail("dimension %d of the shape %v is to be that of the input, which has the shape %v", i, want, from)
		case d == 0 && !zero:
			shape[i] = from[i]
		case d == -1 && open >= 0 || d < -1:
			c.fail("the shape is %v", want)
		case d == -1:
			open = i
		}
	}
	if open >= 0 {
		c.checkShape("the shape", shape)
		shape[open] = c.rest(from, slices.Delete(slices.Clone(shape), open, open+1), want)
	}
	c.reshaped(shape)
}

// rest is the dimension that others lack to the elements of from; -1 if that is not known. Dimensions that are not
// known cancel each other where want takes them over from the input.
func (c *call) rest(from, others, want []int) int {
	from, others = slices.Clone(from), slices.Clone(others)
	for i, d := range want {
		if k := slices.Index(others, -1); d == 0 && i < len(from) && from[i] < 0 && k >= 0 {
			from[i], others[k] = 1, 1
		}
	}
	n, m := product(from), product(others)
	switch {
	case n < 0 || m < 0:
		return -1
	case m == 0 && n == 0:
		return 0
	case m == 0 || n%m != 0:
		c.fail("%d elements do not fit into the shape %v", n, want)
	}
	return n / m
}

func flatten(c *call) {
	d := c.dims(0)
	axis := c.int("axis", 1)
	if axis != len(d) {
		axis = c.axis("axis", 1, len(d))
	}
	c.reshaped([]int{product(d[:axis]), product(d[axis:])})
}

func squeeze(c *call) {
	d := c.dims(0)
	drop := make([]bool, len(d))
	if c.has(1) {
		axes, ok := c.ints(1)
		if !ok {
			if n := c.vector(1); n >= 0 && n <= len(d) {
				c.shaped(0, filled(len(d)-n, -1)...)
			}
			return
		}
		for _, a := range c.dimensions("the axes", axes, len(d)) {
			if drop[a] = true; d[a] != 1 && d[a] >= 0 {
				c.fail("dimension %d of %v is not 1", a, d)
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
	c.reshaped(shape)
}

func unsqueeze(c *call) {
	d := c.dims(0)
	axes, ok := c.ints(1)
	if !ok {
		if n := c.vector(1); n >= 0 {
			c.shaped(0, filled(len(d)+min(n, 64), -1)...)
		}
		return
	}
	if len(axes) > 64 {
		c.fail("%d axes", len(axes))
	}
	shape := make([]int, len(d)+len(axes))
	for _, a := range c.dimensions("the axes", axes, len(shape)) {
		shape[a] = 1
	}
	for i := range shape {
		if shape[i] == 0 {
			shape[i], d = d[0], d[1:]
		}
	}
	c.reshaped(shape)
}

func transpose(c *call) {
	d := c.dims(0)
	perm, ok := c.list("perm")
	if !ok {
		for i := range d {
			perm = append(perm, len(d)-1-i)
		}
	}
	if len(perm) != len(d) {
		c.fail("attribute perm is %v, and the input has %d dimensions", perm, len(d))
	}
	perm = c.dimensions("attribute perm", perm, len(d))
	shape := make([]int, len(d))
	for i, p := range perm {
		shape[i] = d[p]
	}
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor { return one(permuted(in[0], perm)) }
}

// cut is what Slice takes of a dimension: count entries from start on, step apart.
type cut struct{ axis, start, step, count int }

func slice(c *call) {
	d := c.dims(0)
	axes, starts, ends, steps, ok := c.sliceInputs(len(d))
	if !ok {
		c.shaped(0, filled(len(d), -1)...)
		return
	}
	shape := slices.Clone(d)
	var cuts []cut
	for i, a := range c.dimensions("the axes", axes, len(d)) {
		if steps[i] == 0 {
			c.fail("step %d is 0", i)
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
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0]
		stride, off := strides(t.Shape), 0
		for _, k := range cuts {
			off += k.start * stride[k.axis]
			stride[k.axis] *= k.step
		}
		return one(gathered(t, shape, stride, off))
	}
}

// sliceInputs are Slice's, as many of each; ok is false if they are not all constants.
func (c *call) sliceInputs(rank int) (axes, starts, ends, steps []int, ok bool) {
	starts, ok = c.ints(1)
	ends, ok2 := c.ints(2)
	ok = ok && ok2
	for i := range starts {
		axes, steps = append(axes, i), append(steps, 1)
	}
	if c.has(3) {
		axes, ok2 = c.ints(3)
		ok = ok && ok2
	}
	if c.has(4) {
		steps, ok2 = c.ints(4)
		ok = ok && ok2
	}
	if ok && (len(starts) > rank || len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts)) {
		c.fail("%d starts, %d ends, %d axes and %d steps for %d dimensions", len(starts), len(ends), len(axes), len(steps), rank)
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

func concat(c *call) {
	first := c.dims(0)
	if _, ok := c.node.Attrs["axis"]; !ok {
		c.fail("attribute axis is not given")
	}
	axis := c.axis("axis", 0, len(first))
	shape := slices.Clone(first)
	for i := 1; i < len(c.in); i++ {
		c.same(i)
		d := c.dims(i)
		if len(d) != len(first) {
			c.fail("input %d has the shape %v, and input 0 %v", i, d, first)
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
				c.fail("input %d has the shape %v, and input 0 %v", i, d, first)
			}
		}
		c.checkShape("output 0", shape)
	}
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		out := c.new(0)
		dst := out.Data
		for outer := range product(shape[:axis]) {
			for _, t := range in {
				chunk := product(t.Shape[axis:]) * t.Type.Size()
				copy(dst[:chunk], t.Data[outer*chunk:])
				dst = dst[chunk:]
			}
		}
		return one(out)
	}
}

func split(c *call) {
	d := c.dims(0)
	axis := c.axis("axis", 0, len(d))
	sizes, ok := c.splitSizes(d[axis])
	for i := range c.out {
		c.typed(i, c.in[0].Type)
		shape := slices.Clone(d)
		if shape[axis] = -1; ok {
			shape[axis] = sizes[i]
		}
		c.shaped(i, shape...)
	}
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		var out []*graph.Tensor
		stride, off := strides(d), 0
		for i := range c.out {
			out = append(out, gathered(in[0], c.out[i].Shape, stride, off))
			off += sizes[i] * stride[axis]
		}
		return out
	}
}

// splitSizes are those of Split's outputs of n entries; ok is false if they are not known.
func (c *call) splitSizes(n int) (sizes []int, ok bool) {
	outputs := c.int("num_outputs", len(c.out))
	if outputs != len(c.out) {
		c.fail("attribute num_outputs is %d, and there are %d outputs", outputs, len(c.out))
	}
	if !c.has(1) {
		if n < 0 {
			return nil, false
		}
		each := (n + outputs - 1) / outputs
		for i := range outputs {
			sizes = append(sizes, max(0, min(each, n-i*each)))
		}
		return sizes, true
	}
	if sizes, ok = c.ints(1); !ok {
		return nil, false
	}
	total := 0
	for _, s := range sizes {
		if total += s; s < 0 || s > c.limit || total > c.limit {
			c.fail("split is %v", sizes)
		}
	}
	if len(sizes) != outputs || n >= 0 && total != n {
		c.fail("split is %v, of %d entries and %d outputs", sizes, n, outputs)
	}
	return sizes, true
}

func expand(c *call) {
	want, ok := c.ints(1)
	if !ok {
		if n := c.vector(1); n >= 0 {
			c.shaped(0, filled(max(len(c.dims(0)), min(n, 64)), -1)...)
		}
		return
	}
	c.checkShape("the shape", want)
	if !known(want) {
		c.fail("the shape is %v", want)
	}
	shape, ok := broadcastShape(c.dims(0), want)
	if !ok {
		c.fail("input 0 has the shape %v, which does not broadcast with %v", c.dims(0), want)
	}
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor { return one(expanded(in[0], c.out[0].Shape)) }
}

func tile(c *call) {
	d := c.dims(0)
	repeats, ok := c.ints(1)
	if !ok {
		c.shaped(0, filled(len(d), -1)...)
		return
	}
	if len(repeats) != len(d) {
		c.fail("%d repeats of %d dimensions", len(repeats), len(d))
	}
	shape := slices.Clone(d)
	for i, r := range repeats {
		if r < 0 || r > c.limit {
			c.fail("the repeats are %v", repeats)
		}
		if d[i] >= 0 {
			shape[i] *= r
		}
	}
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0]
		for i, r := range repeats {
			if r != 1 {
				t = taken(t, i, indexed(shape[i], func(k int) int { return k % d[i] }), nil)
			}
		}
		return one(t)
	}
}

// indexed are f of 0 to n-1.
func indexed(n int, f func(int) int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}
