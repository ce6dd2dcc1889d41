package lower

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	k "github.com/prefillonly/prefillonly/kernels"
)

// emitter writes an element-wise node, given the registers of its inputs, of which one that is not given is -1.
type emitter func(c *code, n *graph.Node, in []int) int

// elementLowerings are those of nodes that compute each element by itself.
func elementLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	table := map[string]func(t *translator, n *graph.Node) *Value{
		"Identity":           func(t *translator, n *graph.Node) *Value { return t.value(n.In[0]) },
		"Dropout":            dropout,
		"Cast":               cast,
		"CastLike":           cast,
		"BatchNormalization": batchNormalization,
	}
	for op, emit := range emitters {
		table[op] = func(t *translator, n *graph.Node) *Value {
			in := make([]*Value, len(n.In))
			for i, v := range n.In {
				in[i] = t.value(v)
			}
			return t.element(n.Out[0].Shape, in, func(c *code, in []int) int { return emit(c, n, in) })
		}
	}
	return table
}

var emitters = map[string]emitter{
	"Add": two(k.Add), "Sub": two(k.Sub), "Mul": two(k.Mul), "Div": two(k.Div), "Pow": two(k.Pow),
	"Equal": two(k.Equal), "Less": two(k.Less), "LessOrEqual": two(k.LessEqual),
	"Greater":        func(c *code, n *graph.Node, in []int) int { return c.op(k.Less, in[1], in[0]) },
	"GreaterOrEqual": func(c *code, n *graph.Node, in []int) int { return c.op(k.LessEqual, in[1], in[0]) },
	"And":            two(k.Mul), "Or": two(k.Max),
	"Xor": func(c *code, n *graph.Node, in []int) int { return c.op(k.Abs, c.op(k.Sub, in[0], in[1])) },
	"Not": func(c *code, n *graph.Node, in []int) int { return c.op(k.Equal, in[0], c.constant(0)) },
	"Neg": one(k.Neg), "Abs": one(k.Abs), "Sqrt": one(k.Sqrt), "Exp": one(k.Exp), "Log": one(k.Log), "Sin": one(k.Sin),
	"Cos": one(k.Cos), "Tanh": one(k.Tanh), "Sigmoid": one(k.Sigmoid), "Erf": one(k.Erf), "Floor": one(k.Floor),
	"Ceil": one(k.Ceil), "Round": one(k.Round),
	"Tan":        func(c *code, n *graph.Node, in []int) int { return c.op(k.Div, c.op(k.Sin, in[0]), c.op(k.Cos, in[0])) },
	"Reciprocal": func(c *code, n *graph.Node, in []int) int { return c.op(k.Div, c.constant(1), in[0]) },
	"Where":      func(c *code, n *graph.Node, in []int) int { return c.op(k.Select, in...) },
	"Min":        many(k.Min), "Max": many(k.Max), "Sum": many(k.Add),
	"Mean": func(c *code, n *graph.Node, in []int) int {
		return c.op(k.Div, many(k.Add)(c, n, in), c.constant(float64(len(in))))
	},
	"IsNaN": func(c *code, n *graph.Node, in []int) int {
		return c.op(k.Equal, c.op(k.Equal, in[0], in[0]), c.constant(0))
	},
	"Sign": func(c *code, n *graph.Node, in []int) int {
		zero := c.constant(0)
		return c.op(k.Sub, c.op(k.Less, zero, in[0]), c.op(k.Less, in[0], zero))
	},
	"Clip": func(c *code, n *graph.Node, in []int) int {
		x := in[0]
		if len(in) > 1 && in[1] >= 0 {
			x = c.op(k.Max, x, in[1])
		}
		if len(in) > 2 && in[2] >= 0 {
			x = c.op(k.Min, x, in[2])
		}
		return x
	},
	"Relu":      func(c *code, n *graph.Node, in []int) int { return c.op(k.Max, in[0], c.constant(0)) },
	"LeakyRelu": leakyRelu,
	"PRelu": func(c *code, n *graph.Node, in []int) int {
		return c.op(k.Select, c.op(k.Less, in[0], c.constant(0)), c.op(k.Mul, in[0], in[1]), in[0])
	},
	"Elu": func(c *code, n *graph.Node, in []int) int {
		return c.op(k.Select, c.op(k.Less, in[0], c.constant(0)), c.exponential(in[0], attr(n, "alpha", 1)), in[0])
	},
	"Selu": func(c *code, n *graph.Node, in []int) int {
		low := c.exponential(in[0], attr(n, "alpha", 1.67326319217681884765625))
		x := c.op(k.Select, c.op(k.Less, c.constant(0), in[0]), in[0], low)
		return c.op(k.Mul, x, c.constant(attr(n, "gamma", 1.05070102214813232421875)))
	},
	"Celu": func(c *code, n *graph.Node, in []int) int {
		alpha, zero := attr(n, "alpha", 1), c.constant(0)
		low := c.exponential(c.op(k.Div, in[0], c.constant(alpha)), alpha)
		return c.op(k.Add, c.op(k.Max, in[0], zero), c.op(k.Min, low, zero))
	},
	"HardSigmoid": func(c *code, n *graph.Node, in []int) int {
		return c.hardSigmoid(in[0], attr(n, "alpha", 0.2), attr(n, "beta", 0.5))
	},
	"HardSwish": func(c *code, n *graph.Node, in []int) int {
		return c.op(k.Mul, in[0], c.hardSigmoid(in[0], 1.0/6, 0.5))
	},
	"Softplus": func(c *code, n *graph.Node, in []int) int { return c.softplus(in[0]) },
	"Softsign": func(c *code, n *graph.Node, in []int) int {
		return c.op(k.Div, in[0], c.op(k.Add, c.constant(1), c.op(k.Abs, in[0])))
	},
	"Mish": func(c *code, n *graph.Node, in []int) int {
		return c.op(k.Mul, in[0], c.op(k.Tanh, c.softplus(in[0])))
	},
	"ThresholdedRelu": func(c *code, n *graph.Node, in []int) int {
		return c.op(k.Select, c.op(k.Less, c.constant(attr(n, "alpha", 1)), in[0]), in[0], c.constant(0))
	},
	"Shrink": func(c *code, n *graph.Node, in []int) int {
		bias, edge := c.constant(attr(n, "bias", 0)), attr(n, "lambd", 0.5)
		high := c.op(k.Select, c.op(k.Less, c.constant(edge), in[0]), c.op(k.Sub, in[0], bias), c.constant(0))
		return c.op(k.Select, c.op(k.Less, in[0], c.constant(-edge)), c.op(k.Add, in[0], bias), high)
	},
	"Gelu": gelu,
}

func attr(n *graph.Node, name string, fallback float64) float64 { return graph.Attr(n, name, fallback) }

func one(o k.ElementOp) emitter {
	return func(c *code, n *graph.Node, in []int) int { return c.op(o, in[0]) }
}

func two(o k.ElementOp) emitter {
	return func(c *code, n *graph.Node, in []int) int { return c.op(o, in[0], in[1]) }
}

// many applies an operation from left to right.
func many(o k.ElementOp) emitter {
	return func(c *code, n *graph.Node, in []int) int {
		x := in[0]
		for _, y := range in[1:] {
			x = c.op(o, x, y)
		}
		return x
	}
}

func leakyRelu(c *code, n *graph.Node, in []int) int {
	alpha := attr(n, "alpha", 0.01)
	low := c.op(k.Mul, in[0], c.constant(alpha))
	if alpha >= 0 && alpha <= 1 {
		return c.op(k.Max, in[0], low)
	}
	return c.op(k.Select, c.op(k.Less, in[0], c.constant(0)), low, in[0])
}

// exponential is alpha * (exp(x) - 1).
func (c *code) exponential(x int, alpha float64) int {
	return c.op(k.Mul, c.op(k.Sub, c.op(k.Exp, x), c.constant(1)), c.constant(alpha))
}

func (c *code) hardSigmoid(x int, alpha, beta float64) int {
	x = c.op(k.Add, c.op(k.Mul, x, c.constant(alpha)), c.constant(beta))
	return c.op(k.Max, c.op(k.Min, x, c.constant(1)), c.constant(0))
}

// softplus is log(1 + exp(x)), by the smaller exponential.
func (c *code) softplus(x int) int {
	small := c.op(k.Exp, c.op(k.Neg, c.op(k.Abs, x)))
	return c.op(k.Add, c.op(k.Max, x, c.constant(0)), c.op(k.Log, c.op(k.Add, small, c.constant(1))))
}

func gelu(c *code, n *graph.Node, in []int) int {
	x := in[0]
	var inner int
	if graph.Attr(n, "approximate", "none") == "tanh" {
		cube := c.op(k.Mul, c.op(k.Mul, x, x), x)
		inner = c.op(k.Add, x, c.op(k.Mul, cube, c.constant(0.044715)))
		inner = c.op(k.Tanh, c.op(k.Mul, inner, c.constant(math.Sqrt(2/math.Pi))))
	} else {
		inner = c.op(k.Erf, c.op(k.Mul, x, c.constant(math.Sqrt2/2)))
	}
	half := c.op(k.Mul, x, c.constant(0.5))
	return c.op(k.Mul, half, c.op(k.Add, inner, c.constant(1)))
}

// dropout is the identity, but where it trains.
func dropout(t *translator, n *graph.Node) *Value {
	if v := n.Input(2); v != nil && (v.Const == nil || v.Const.Ints()[0] != 0) {
		return nil
	}
	return t.value(n.In[0])
}

// cast is between types that are float32 on the device.
func cast(t *translator, n *graph.Node) *Value {
	v := t.value(n.In[0])
	if v.Const != nil {
		return nil
	}
	if v.Type == engine.Bool || n.Out[0].Type != engine.Bool {
		return v
	}
	return t.element(v.Shape, []*Value{v}, func(c *code, in []int) int {
		zero := c.constant(0)
		return c.op(k.Equal, c.op(k.Equal, in[0], zero), zero)
	})
}

// batchNormalization is a product and a sum with constants of each channel.
func batchNormalization(t *translator, n *graph.Node) *Value {
	x := t.value(n.In[0])
	if len(n.In) < 5 || len(x.Shape) < 2 || attrInt(n, "training_mode", 0) != 0 {
		return nil
	}
	var figures [4][]float64
	for i := range figures {
		if n.In[i+1] == nil || n.In[i+1].Const == nil {
			return nil
		}
		figures[i] = n.In[i+1].Const.Floats()
	}
	scale, shift := figures[0], figures[1]
	for c, mean := range figures[2] {
		scale[c] /= math.Sqrt(figures[3][c] + attr(n, "epsilon", 1e-5))
		shift[c] -= mean * scale[c]
	}
	return t.affine(x, scale, shift)
}

// affine is x times scale plus shift of its channel.
func (t *translator) affine(x *Value, scale, shift []float64) *Value {
	channels := onesBut(len(x.Shape), 1, len(scale))
	in := []*Value{x, t.constant("scale", channels, scale)}
	x = t.element(x.Shape, in, func(c *code, in []int) int { return c.op(k.Mul, in[0], in[1]) })
	in = []*Value{x, t.constant("shift", channels, shift)}
	return t.element(x.Shape, in, func(c *code, in []int) int { return c.op(k.Add, in[0], in[1]) })
}

// onesBut is a shape of so many dimensions, which are 1 but for one.
func onesBut(rank, dim, size int) []int {
	shape := make([]int, rank)
	for i := range shape {
		shape[i] = 1
	}
	shape[dim] = size
	return shape
}
