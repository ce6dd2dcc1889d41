package ops

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

func pad(c *call) {
	d := c.dims(0)
	c.same(2)
	mode := c.word("mode", "constant", "reflect", "edge", "wrap")
	before, after, ok := c.padInputs(len(d))
	if !ok {
		c.shaped(0, filled(len(d), -1)...)
		return
	}
	shape := slices.Clone(d)
	for i := range d {
		if d[i] < 0 {
			continue
		}
		if shape[i] += before[i] + after[i]; shape[i] < 0 {
			c.fail("dimension %d of %v with the pads %d and %d", i, d, before[i], after[i])
		}
		if mode != "constant" && d[i] == 0 && shape[i] > 0 {
			c.fail("dimension %d of %v has nothing to pad with", i, d)
		}
	}
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		var fill []byte
		if len(in) > 2 && in[2] != nil {
			if in[2].Len() != 1 {
				c.fail("the value has the shape %v", in[2].Shape)
			}
			fill = in[2].Data
		}
		t := in[0]
		for i, n := range d {
			if before[i] != 0 || after[i] != 0 {
				t = taken(t, i, indexed(shape[i], func(k int) int { return padSource(mode, k-before[i], n) }), fill)
			}
		}
		return one(t)
	}
}

// padInputs are the entries that are added before and after each dimension, or taken away; ok is false if they are
// not known.
func (c *call) padInputs(rank int) (before, after []int, ok bool) {
	axes := indexed(rank, func(i int) int { return i })
	if c.has(3) {
		if axes, ok = c.ints(3); !ok {
			return nil, nil, false
		}
		axes = c.dimensions("the axes", axes, rank)
	}
	pads, ok := c.ints(1)
	if !ok {
		return nil, nil, false
	}
	if len(pads) != 2*len(axes) {
		c.fail("%d pads for %d dimensions", len(pads), len(axes))
	}
	before, after = make([]int, rank), make([]int, rank)
	for i, a := range axes {
		before[a], after[a] = pads[i], pads[len(axes)+i]
		if max(before[a], after[a]) > c.limit || min(before[a], after[a]) < -c.limit {
			c.fail("the pads are %v", pads)
		}
	}
	return before, after, true
}

// padSource is the entry of n that stands at place k of a padded dimension, -1 for the value.
func padSource(mode string, k, n int) int {
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

func centerCropPad(c *call) {
	d := c.dims(0)
	axes, ok := c.list("axes")
	if !ok {
		axes = indexed(len(d), func(i int) int { return i })
	}
	axes = c.dimensions("attribute axes", axes, len(d))
	want, ok := c.ints(1)
	if !ok {
		c.shaped(0, filled(len(d), -1)...)
		return
	}
	if len(want) != len(axes) || slices.ContainsFunc(want, func(n int) bool { return n < 0 }) {
		c.fail("the shape is %v, for %d dimensions", want, len(axes))
	}
	shape := slices.Clone(d)
	for i, a := range axes {
		shape[a] = want[i]
	}
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0]
		for _, a := range axes {
			n, to := d[a], shape[a]
			first := (n - to) / 2 // rounded towards 0
			if to > n {
				first = -((to - n) / 2)
			}
			t = taken(t, a, indexed(to, func(k int) int { return padSource("constant", k+first, n) }), nil)
		}
		return one(t)
	}
}
