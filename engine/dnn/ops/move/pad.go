package move

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Pad is the operation.
func Pad(c *op.Call) {
	d := c.Dims(0)
	c.Same(2)
	mode := c.Word("mode", "constant", "reflect", "edge", "wrap")
	before, after, ok := PadInputs(c, len(d))
	if !ok {
		c.Shaped(0, op.Filled(len(d), -1)...)
		return
	}
	shape := slices.Clone(d)
	for i := range d {
		if d[i] < 0 {
			continue
		}
		if shape[i] += before[i] + after[i]; shape[i] < 0 {
			c.Fail("dimension %d of %v with pads %d and %d would be negative", i, d, before[i], after[i])
		}
		if mode != "constant" && d[i] == 0 && shape[i] > 0 {
			c.Fail("cannot pad dimension %d of %v: it has no elements to repeat", i, d)
		}
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		var fill []byte
		if len(in) > 2 && in[2] != nil {
			if in[2].Len() != 1 {
				c.Fail("value has shape %v, want one element", in[2].Shape)
			}
			fill = in[2].Data
		}
		t := in[0]
		for i, n := range d {
			if before[i] != 0 || after[i] != 0 {
				t = op.Taken(t, i, op.Indexed(shape[i], func(k int) int { return PadSource(mode, k-before[i], n) }), fill)
			}
		}
		return op.One(t)
	}
}

// PadInputs are the entries that are added before and after each dimension, or taken away; ok is false if they are
// not known.
func PadInputs(c *op.Call, rank int) (before, after []int, ok bool) {
	axes := op.Indexed(rank, func(i int) int { return i })
	if c.Has(3) {
		if axes, ok = c.Ints(3); !ok {
			return nil, nil, false
		}
		axes = c.Dimensions("the axes", axes, rank)
	}
	pads, ok := c.Ints(1)
	if !ok {
		return nil, nil, false
	}
	if len(pads) != 2*len(axes) {
		c.Fail("got %d pads, want two for each of %d dimensions", len(pads), len(axes))
	}
	before, after = make([]int, rank), make([]int, rank)
	for i, a := range axes {
		before[a], after[a] = pads[i], pads[len(axes)+i]
		if max(before[a], after[a]) > c.Limit || min(before[a], after[a]) < -c.Limit {
			c.Fail("invalid pads %v: want at most %d elements", pads, c.Limit)
		}
	}
	return before, after, true
}

// PadSource is the entry of n that stands at place k of a padded dimension, -1 for the value.
func PadSource(mode string, k, n int) int {
	switch {
	case k >= 0 && k < n:
		return k
	case mode == "edge":
		return min(max(k, 0), n-1)
	case mode == "wrap":
		return ((k % n) + n) % n
	case mode == "reflect" && n == 1:
		return 0
	case mode == "reflect":
		period := 2 * (n - 1)
		k = ((k % period) + period) % period
		return min(k, period-k)
	}
	return -1
}

func centerCropPad(c *op.Call) {
	d := c.Dims(0)
	axes, ok := c.List("axes")
	if !ok {
		axes = op.Indexed(len(d), func(i int) int { return i })
	}
	axes = c.Dimensions("attribute axes", axes, len(d))
	want, ok := c.Ints(1)
	if !ok {
		c.Shaped(0, op.Filled(len(d), -1)...)
		return
	}
	if len(want) != len(axes) || slices.ContainsFunc(want, func(n int) bool { return n < 0 }) {
		c.Fail("invalid shape %v: want %d sizes", want, len(axes))
	}
	shape := slices.Clone(d)
	for i, a := range axes {
		shape[a] = want[i]
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0]
		for _, a := range axes {
			n, to := d[a], shape[a]
			first := (n - to) / 2 // rounded towards 0
			if to > n {
				first = -((to - n) / 2)
			}
			t = op.Taken(t, a, op.Indexed(to, func(k int) int { return PadSource("constant", k+first, n) }), nil)
		}
		return op.One(t)
	}
}
