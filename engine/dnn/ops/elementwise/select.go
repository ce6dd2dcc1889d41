package elementwise

import (
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Selections choose among elements.
var Selections = map[string]op.Definition{
	"Where": op.Define(where, op.Booleans, 3, 3, 1),
	"Clip":  op.Define(clip, op.Numbers, 1, 3, 1),
}

func where(c *op.Call) {
	t := c.Elements(1, op.Anything)
	if other := c.Elements(2, op.Anything); t != 0 && other != 0 && t != other {
		c.Fail("input 2 has elements of %v, input 1 of %v: want equal types", other, t)
	}
	c.Typed(0, t)
	broadcastAll(c)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		shape, size := c.Out[0].Shape, t.Size()
		chosen, x, out := op.Expanded(in[0], shape), op.Expanded(in[1], shape), op.Gathered(in[2], shape, op.BroadcastStrides(in[2].Shape, shape), 0)
		for i, yes := range chosen.Data {
			if yes != 0 {
				copy(out.Data[i*size:(i+1)*size], x.Data[i*size:])
			}
		}
		return op.One(out)
	}
}

// clip takes the upper bound where it is below the lower one.
func clip(c *op.Call) {
	c.Same(1, 2)
	likeInput(c)
	for i := 1; i < len(c.In); i++ {
		if c.Has(i) {
			c.Scalar(i)
		}
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x := in[0]
		if c.Has(1) {
			x = op.Combined(x.Type, x.Shape, []*graph.Tensor{x, in[1]}, Larger[float64], Larger[int64], Larger[uint64])
		}
		if c.Has(2) {
			x = op.Combined(x.Type, x.Shape, []*graph.Tensor{x, in[2]}, Smaller[float64], Smaller[int64], Smaller[uint64])
		}
		return op.One(x)
	}
}
