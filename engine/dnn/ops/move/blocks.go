package move

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

func depthToSpace(c *op.Call) {
	d := c.Ranked(0, 4, 4)
	b := blockSize(c)
	if d[1]%(b*b) > 0 {
		c.Fail("input has %d channels, want a multiple of %d", d[1], b*b)
	}
	perm := []int{0, 3, 4, 1, 5, 2} // n, b, b, c, h, w
	channelFirst := c.Word("mode", "DCR", "CRD") == "CRD"
	if channelFirst {
		perm = []int{0, 1, 4, 2, 5, 3}
	}
	c.Shaped(0, d[0], op.Over(d[1], b*b), op.Multiple(d[2], b), op.Multiple(d[3], b))
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0].Reshaped(d[0], b, b, d[1]/b/b, d[2], d[3])
		if channelFirst {
			t = in[0].Reshaped(d[0], d[1]/b/b, b, b, d[2], d[3])
		}
		return op.One(op.Permuted(t, perm).Reshaped(c.Out[0].Shape...))
	}
}

func spaceToDepth(c *op.Call) {
	d := c.Ranked(0, 4, 4)
	b := blockSize(c)
	if d[2]%b > 0 || d[3]%b > 0 {
		c.Fail("image is %d by %d, want multiples of blocksize %d", d[2], d[3], b)
	}
	c.Shaped(0, d[0], op.Multiple(d[1], b*b), op.Over(d[2], b), op.Over(d[3], b))
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0].Reshaped(d[0], d[1], d[2]/b, b, d[3]/b, b)
		return op.One(op.Permuted(t, []int{0, 3, 5, 1, 2, 4}).Reshaped(c.Out[0].Shape...))
	}
}

func blockSize(c *op.Call) int {
	b := c.Int("blocksize", 0)
	if b < 1 || b > math.MaxInt16 {
		c.Fail("invalid attribute blocksize %d: want 1 to 32767", b)
	}
	return b
}

func trilu(c *op.Call) {
	d := c.Ranked(0, 2, math.MaxInt)
	upper := c.Flag("upper", true)
	k, ok := 0, true
	if c.Has(1) {
		var ks []int
		if ks, ok = c.Ints(1); ok && len(ks) != 1 {
			c.Fail("got %d diagonals, want 1", len(ks))
		} else if ok {
			k = ks[0]
		}
	}
	c.Shaped(0, d...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		rows, columns, size := d[len(d)-2], d[len(d)-1], in[0].Type.Size()
		out := c.New(0)
		for row := range in[0].Len() / max(columns, 1) {
			from, to := 0, min(max(min(k, columns)+row%rows+1, 0), columns)
			if upper {
				from, to = min(max(max(k, -rows)+row%rows, 0), columns), columns
			}
			from, to = (row*columns+from)*size, (row*columns+to)*size
			copy(out.Data[from:to], in[0].Data[from:to])
		}
		return op.One(out)
	}
}

func reverseSequence(c *op.Call) {
	d := c.Ranked(0, 2, math.MaxInt)
	batch, along := c.Axis("batch_axis", 1, 2), c.Axis("time_axis", 0, 2)
	if batch == along {
		c.Fail("attributes batch_axis and time_axis are both %d, want different ones", batch)
	}
	c.Elements(1, 1<<engine.Int64)
	c.Expect(1, d[batch])
	c.Shaped(0, d...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		lengths, out := in[1].Ints(), slices.Clone(in[0].Data)
		stride := op.Strides(d)
		size := in[0].Type.Size()
		chunk := stride[1] * size
		for b, n := range lengths {
			if n < 0 || n > int64(d[along]) {
				c.Fail("invalid length of sequence %d: got %d, want at most %d", b, n, d[along])
			}
			for k := range int(n) {
				to, from := b*stride[batch]+k*stride[along], b*stride[batch]+(int(n)-1-k)*stride[along]
				copy(out[to*size:][:chunk], in[0].Data[from*size:])
			}
		}
		return op.One(&graph.Tensor{Type: in[0].Type, Shape: in[0].Shape, Data: out})
	}
}
