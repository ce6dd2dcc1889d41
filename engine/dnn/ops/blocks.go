package ops

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

func depthToSpace(c *call) {
	d := c.ranked(0, 4, 4)
	b := c.blockSize()
	if d[1]%(b*b) > 0 {
		c.fail("%d channels in blocks of %d", d[1], b*b)
	}
	perm := []int{0, 3, 4, 1, 5, 2} // n, b, b, c, h, w
	channelFirst := c.word("mode", "DCR", "CRD") == "CRD"
	if channelFirst {
		perm = []int{0, 1, 4, 2, 5, 3}
	}
	c.shaped(0, d[0], over(d[1], b*b), multiple(d[2], b), multiple(d[3], b))
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0].Reshaped(d[0], b, b, d[1]/b/b, d[2], d[3])
		if channelFirst {
			t = in[0].Reshaped(d[0], d[1]/b/b, b, b, d[2], d[3])
		}
		return one(permuted(t, perm).Reshaped(c.out[0].Shape...))
	}
}

func spaceToDepth(c *call) {
	d := c.ranked(0, 4, 4)
	b := c.blockSize()
	if d[2]%b > 0 || d[3]%b > 0 {
		c.fail("an image of %d by %d in blocks of %d", d[2], d[3], b)
	}
	c.shaped(0, d[0], multiple(d[1], b*b), over(d[2], b), over(d[3], b))
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0].Reshaped(d[0], d[1], d[2]/b, b, d[3]/b, b)
		return one(permuted(t, []int{0, 3, 5, 1, 2, 4}).Reshaped(c.out[0].Shape...))
	}
}

func (c *call) blockSize() int {
	b := c.int("blocksize", 0)
	if b < 1 || b > math.MaxInt16 {
		c.fail("attribute blocksize is %d", b)
	}
	return b
}

// multiple and over are of a dimension that may not be known.
func multiple(d, by int) int {
	if d < 0 {
		return -1
	}
	return d * by
}

func over(d, by int) int {
	if d < 0 {
		return -1
	}
	return d / by
}

func trilu(c *call) {
	d := c.ranked(0, 2, math.MaxInt)
	upper := c.flag("upper", true)
	k, ok := 0, true
	if c.has(1) {
		var ks []int
		if ks, ok = c.ints(1); ok && len(ks) != 1 {
			c.fail("%d diagonals, of 1", len(ks))
		} else if ok {
			k = ks[0]
		}
	}
	c.shaped(0, d...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		rows, columns, size := d[len(d)-2], d[len(d)-1], in[0].Type.Size()
		out := c.new(0)
		for row := range in[0].Len() / max(columns, 1) {
			from, to := 0, min(max(min(k, columns)+row%rows+1, 0), columns)
			if upper {
				from, to = min(max(max(k, -rows)+row%rows, 0), columns), columns
			}
			from, to = (row*columns+from)*size, (row*columns+to)*size
			copy(out.Data[from:to], in[0].Data[from:to])
		}
		return one(out)
	}
}

func reverseSequence(c *call) {
	d := c.ranked(0, 2, math.MaxInt)
	batch, along := c.axis("batch_axis", 1, 2), c.axis("time_axis", 0, 2)
	if batch == along {
		c.fail("attributes batch_axis and time_axis are both %d", batch)
	}
	c.elements(1, 1<<engine.Int64)
	c.expect(1, d[batch])
	c.shaped(0, d...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		lengths, out := in[1].Ints(), slices.Clone(in[0].Data)
		stride := strides(d)
		size := in[0].Type.Size()
		chunk := stride[1] * size
		for b, n := range lengths {
			if n < 0 || n > int64(d[along]) {
				c.fail("sequence %d has the length %d, of %d", b, n, d[along])
			}
			for k := range int(n) {
				to, from := b*stride[batch]+k*stride[along], b*stride[batch]+(int(n)-1-k)*stride[along]
				copy(out[to*size:][:chunk], in[0].Data[from*size:])
			}
		}
		return one(&graph.Tensor{Type: in[0].Type, Shape: in[0].Shape, Data: out})
	}
}
