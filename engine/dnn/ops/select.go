package ops

import (
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// selections choose among elements.
var selections = map[string]definition{
	"Where": {where, booleans, 3, 3, 1},
	"Clip":  {clip, numbers, 1, 3, 1},
}

func where(c *call) {
	t := c.elements(1, anything)
	if other := c.elements(2, anything); t != 0 && other != 0 && t != other {
		c.fail("input 2 is of %v, and input 1 of %v", other, t)
	}
	c.typed(0, t)
	c.broadcastAll()
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		shape, size := c.out[0].Shape, t.Size()
		chosen, x, out := expanded(in[0], shape), expanded(in[1], shape), gathered(in[2], shape, broadcastStrides(in[2].Shape, shape), 0)
		for i, yes := range chosen.Data {
			if yes != 0 {
				copy(out.Data[i*size:(i+1)*size], x.Data[i*size:])
			}
		}
		return one(out)
	}
}

// clip takes the upper bound where it is below the lower one.
func clip(c *call) {
	c.same(1, 2)
	c.likeInput()
	for i := 1; i < len(c.in); i++ {
		if c.has(i) {
			c.scalar(i)
		}
	}
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		x := in[0]
		if c.has(1) {
			x = combined(x.Type, x.Shape, []*graph.Tensor{x, in[1]}, larger[float64], larger[int64], larger[uint64])
		}
		if c.has(2) {
			x = combined(x.Type, x.Shape, []*graph.Tensor{x, in[2]}, smaller[float64], smaller[int64], smaller[uint64])
		}
		return one(x)
	}
}
