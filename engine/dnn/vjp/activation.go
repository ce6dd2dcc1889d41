package vjp

import (
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Activations. Those that can do so read their result and not their argument: it is the one that later nodes
// keep. At a kink the gradient is that of one of its sides.
var (
	Relu = unaryGrad(func(w writer, _, y, g *value) *value {
		zero := w.number(y, 0)
		return w.selectWhere(w.less(zero, y), g, zero)
	})
	LeakyRelu = unaryGrad(func(w writer, x, y, g *value) *value {
		alpha := graph.Attr(w.n, "alpha", 0.01)
		return w.selectWhere(w.whereNegative(x, y, alpha), w.timesNumber(g, alpha), g)
	})
	ThresholdedRelu = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.selectWhere(w.less(w.number(x, graph.Attr(w.n, "alpha", 1.0)), x), g, w.number(g, 0))
	})
	Elu = unaryGrad(func(w writer, x, y, g *value) *value {
		alpha := graph.Attr(w.n, "alpha", 1.0)
		return w.selectWhere(w.whereNegative(x, y, alpha), w.mul(g, w.addNumber(y, alpha)), g)
	})
	Celu = unaryGrad(func(w writer, x, y, g *value) *value {
		alpha := graph.Attr(w.n, "alpha", 1.0)
		return w.selectWhere(w.whereNegative(x, y, alpha), w.mul(g, w.addNumber(w.timesNumber(y, 1/alpha), 1)), g)
	})
	Selu = unaryGrad(func(w writer, x, y, g *value) *value {
		alpha, gamma := graph.Attr(w.n, "alpha", 1.6732632423543772), graph.Attr(w.n, "gamma", 1.0507009873554805)
		return w.selectWhere(w.whereNegative(x, y, alpha*gamma), w.mul(g, w.addNumber(y, alpha*gamma)), w.timesNumber(g, gamma))
	})
	Sigmoid = unaryGrad(func(w writer, _, y, g *value) *value {
		return w.mul(w.mul(g, w.subtractFromNumber(1, y)), y)
	})
	HardSigmoid = unaryGrad(func(w writer, _, y, g *value) *value {
		return w.maskWithin(y, 0, 1, w.timesNumber(g, graph.Attr(w.n, "alpha", 0.2)))
	})
	HardSwish = unaryGrad(func(w writer, x, _, g *value) *value {
		slope := w.mul(g, w.addNumber(w.timesNumber(x, 1./3), .5))
		return w.selectWhere(w.less(x, w.number(x, 3)), w.selectWhere(w.less(w.number(x, -3), x), slope, w.number(g, 0)), g)
	})
	Tanh = unaryGrad(func(w writer, _, y, g *value) *value {
		return w.mul(g, w.subtractFromNumber(1, w.square(y)))
	})
	Softplus = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.mul(g, w.applyUnary("Sigmoid", x))
	})
	Softsign = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.div(g, w.square(w.addNumber(w.applyUnary("Abs", x), 1)))
	})
	Mish = unaryGrad(func(w writer, x, _, g *value) *value {
		t := w.applyUnary("Tanh", w.applyUnary("Softplus", x))
		slope := w.mul(w.subtractFromNumber(1, w.square(t)), w.applyUnary("Sigmoid", x))
		return w.mul(g, w.addValues(t, w.mul(x, slope)))
	})
	Gelu = unaryGrad(func(w writer, x, _, g *value) *value {
		if graph.Attr(w.n, "approximate", "none") == "tanh" {
			return w.mul(g, w.geluTanh(x))
		}
		// The normal distribution and x times its density.
		phi := w.timesNumber(w.addNumber(w.applyUnary("Erf", w.timesNumber(x, math.Sqrt2/2)), 1), .5)
		density := w.timesNumber(w.applyUnary("Exp", w.timesNumber(w.square(x), -.5)), 1/math.Sqrt(2*math.Pi))
		return w.mul(g, w.addValues(phi, w.mul(x, density)))
	})
	Shrink = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.selectWhere(w.less(w.number(x, graph.Attr(w.n, "lambd", 0.5)), w.applyUnary("Abs", x)), g, w.number(g, 0))
	})
	// Swish is x times the sigmoid of alpha x.
	Swish = unaryGrad(func(w writer, x, y, g *value) *value {
		alpha := graph.Attr(w.n, "alpha", 1.0)
		s := w.applyUnary("Sigmoid", w.timesNumber(x, alpha))
		return w.mul(g, w.addValues(s, w.timesNumber(w.mul(y, w.subtractFromNumber(1, s)), alpha)))
	})
)

// whereNegative says where x is, by y, which has x's sign if alpha is more than 0.
func (w writer) whereNegative(x, y *value, alpha float64) *value {
	if alpha > 0 {
		x = y
	}
	return w.less(x, w.number(x, 0))
}

// maskWithin is g where low < y < high, and 0 elsewhere.
func (w writer) maskWithin(y *value, low, high float64, g *value) *value {
	zero := w.number(g, 0)
	return w.selectWhere(w.less(w.number(y, low), y), w.selectWhere(w.less(y, w.number(y, high)), g, zero), zero)
}

// geluTanh is the derivative of x/2 (1 + tanh(k (x + c x^3))).
func (w writer) geluTanh(x *value) *value {
	const c = 0.044715
	k := math.Sqrt(2 / math.Pi)
	x2 := w.square(x)
	t := w.applyUnary("Tanh", w.mul(x, w.addNumber(w.timesNumber(x2, k*c), k)))
	slope := w.mul(w.subtractFromNumber(1, w.square(t)), w.addNumber(w.timesNumber(x2, 3*k*c), k))
	return w.timesNumber(w.addValues(w.addNumber(t, 1), w.mul(x, slope)), .5)
}

// PRelu gives gradients to its argument and its slope.
func PRelu(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, slope, g := writer{b, n}, n.In[0], n.In[1], out[0]
	zero := w.number(x, 0)
	negative := w.less(x, zero)
	in := []*value{w.selectWhere(negative, w.mul(g, slope), g), nil}
	if w.wantsGrad(1) {
		in[1] = w.sumTo(w.selectWhere(negative, w.mul(g, x), zero), slope.Shape)
	}
	return in, nil
}

// Clip gives gradients to its argument where it is passed on, and to its bounds where they are.
func Clip(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, y, g := writer{b, n}, n.Out[0], out[0]
	zero := w.number(g, 0)
	in := []*value{g, nil, nil}
	if low := n.Input(1); low != nil {
		above := w.less(low, y)
		in[0] = w.selectWhere(above, in[0], zero)
		if w.wantsGrad(1) {
			in[1] = w.sumTo(w.selectWhere(above, zero, g), low.Shape)
		}
	}
	if high := n.Input(2); high != nil {
		below := w.less(y, high)
		in[0] = w.selectWhere(below, in[0], zero)
		if w.wantsGrad(2) {
			in[2] = w.sumTo(w.selectWhere(below, zero, g), high.Shape)
		}
	}
	// A bound may have a dimension of 1 that the argument lacks.
	in[0] = w.reshape(in[0], n.In[0].Shape)
	return in[:len(n.In)], nil
}

// Softmax and LogSoftmax, along an axis.
var (
	Softmax = unaryGrad(func(w writer, _, y, g *value) *value {
		return w.mul(y, w.sub(g, w.sumAlong(w.mul(g, y))))
	})
	LogSoftmax = unaryGrad(func(w writer, _, y, g *value) *value {
		return w.sub(g, w.mul(w.applyUnary("Exp", y), w.sumAlong(g)))
	})
)

// sumAlong sums along the node's axis, the last by default.
func (w writer) sumAlong(x *value) *value {
	return w.reduceAxes("ReduceSum", x, []int64{int64(axisAttribute(w.n, -1, len(x.Shape)))})
}
