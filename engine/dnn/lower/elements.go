package lower

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	k "github.com/prefillonly/prefillonly/kernels"
)

// emitter writes an element-wise node, given the registers of its inputs, of which one that is not given is -1.
type emitter func(c *programBuilder, n *graph.Node, in []int) int

// elementLowerings are those of nodes that compute each element by itself.
func elementLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	table := map[string]func(t *translator, n *graph.Node) *Value{
		"Identity":           func(t *translator, n *graph.Node) *Value { return t.translatedValue(n.In[0]) },
		"Dropout":            dropout,
		"Cast":               cast,
		"CastLike":           cast,
		"BatchNormalization": batchNormalization,
		"Min":                newVariadic(k.Min),
		"Max":                newVariadic(k.Max),
		"Sum":                newVariadic(k.Add),
		"Mean":               mean,
	}
	for op, emit := range emitters {
		table[op] = func(t *translator, n *graph.Node) *Value {
			in := make([]*Value, len(n.In))
			for i, v := range n.In {
				in[i] = t.translatedValue(v)
			}
			return t.addElementwise(n.Out[0].Shape, in, func(c *programBuilder, in []int) int { return emit(c, n, in) })
		}
	}
	return table
}

var emitters = map[string]emitter{
	"Add": newBinary(k.Add), "Sub": newBinary(k.Sub), "Mul": newBinary(k.Mul), "Div": newBinary(k.Div), "Pow": newBinary(k.Pow),
	"Equal": newBinary(k.Equal), "Less": newBinary(k.Less), "LessOrEqual": newBinary(k.LessEqual),
	"Greater":        func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(k.Less, in[1], in[0]) },
	"GreaterOrEqual": func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(k.LessEqual, in[1], in[0]) },
	"And":            newBinary(k.Mul), "Or": newBinary(k.Max),
	"Xor": func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(k.Abs, c.Op(k.Sub, in[0], in[1])) },
	"Not": func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(k.Equal, in[0], c.Constant(0)) },
	"Neg": newUnary(k.Neg), "Abs": newUnary(k.Abs), "Sqrt": newUnary(k.Sqrt), "Exp": newUnary(k.Exp), "Log": newUnary(k.Log), "Sin": newUnary(k.Sin),
	"Cos": newUnary(k.Cos), "Tanh": newUnary(k.Tanh), "Sigmoid": newUnary(k.Sigmoid), "Erf": newUnary(k.Erf), "Floor": newUnary(k.Floor),
	"Ceil": newUnary(k.Ceil), "Round": newUnary(k.Round),
	"Tan": func(c *programBuilder, n *graph.Node, in []int) int {
		return c.Op(k.Div, c.Op(k.Sin, in[0]), c.Op(k.Cos, in[0]))
	},
	"Reciprocal": func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(k.Div, c.Constant(1), in[0]) },
	"Where":      func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(k.Select, in...) },
	"IsNaN": func(c *programBuilder, n *graph.Node, in []int) int {
		return c.Op(k.Equal, c.Op(k.Equal, in[0], in[0]), c.Constant(0))
	},
	"Sign": func(c *programBuilder, n *graph.Node, in []int) int {
		zero := c.Constant(0)
		sign := c.Op(k.Sub, c.Op(k.Less, zero, in[0]), c.Op(k.Less, in[0], zero))
		return c.Op(k.Select, c.Op(k.Equal, in[0], in[0]), sign, in[0])
	},
	"Clip": func(c *programBuilder, n *graph.Node, in []int) int {
		x := in[0]
		if len(in) > 1 && in[1] >= 0 {
			x = c.Op(k.Max, x, in[1])
		}
		if len(in) > 2 && in[2] >= 0 {
			x = c.Op(k.Min, x, in[2])
		}
		return x
	},
	"Relu":      func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(k.Max, in[0], c.Constant(0)) },
	"LeakyRelu": leakyRelu,
	"PRelu": func(c *programBuilder, n *graph.Node, in []int) int {
		return c.Op(k.Select, c.Op(k.Less, in[0], c.Constant(0)), c.Op(k.Mul, in[0], in[1]), in[0])
	},
	"Elu": func(c *programBuilder, n *graph.Node, in []int) int {
		return c.Op(k.Select, c.Op(k.Less, in[0], c.Constant(0)), exponential(c, in[0], attrFloat(n, "alpha", 1)), in[0])
	},
	"Selu": func(c *programBuilder, n *graph.Node, in []int) int {
		low := exponential(c, in[0], attrFloat(n, "alpha", 1.67326319217681884765625))
		x := c.Op(k.Select, c.Op(k.Less, c.Constant(0), in[0]), in[0], low)
		return c.Op(k.Mul, x, c.Constant(attrFloat(n, "gamma", 1.05070102214813232421875)))
	},
	"Celu": func(c *programBuilder, n *graph.Node, in []int) int {
		alpha, zero := attrFloat(n, "alpha", 1), c.Constant(0)
		low := exponential(c, c.Op(k.Div, in[0], c.Constant(alpha)), alpha)
		return c.Op(k.Add, c.Op(k.Max, in[0], zero), c.Op(k.Min, low, zero))
	},
	"HardSigmoid": func(c *programBuilder, n *graph.Node, in []int) int {
		return hardSigmoid(c, in[0], attrFloat(n, "alpha", 0.2), attrFloat(n, "beta", 0.5))
	},
	"HardSwish": func(c *programBuilder, n *graph.Node, in []int) int {
		return c.Op(k.Mul, in[0], hardSigmoid(c, in[0], 1.0/6, 0.5))
	},
	"Softplus": func(c *programBuilder, n *graph.Node, in []int) int { return softplus(c, in[0]) },
	"Softsign": func(c *programBuilder, n *graph.Node, in []int) int {
		return c.Op(k.Div, in[0], c.Op(k.Add, c.Constant(1), c.Op(k.Abs, in[0])))
	},
	"Mish": func(c *programBuilder, n *graph.Node, in []int) int {
		return c.Op(k.Mul, in[0], c.Op(k.Tanh, softplus(c, in[0])))
	},
	"ThresholdedRelu": func(c *programBuilder, n *graph.Node, in []int) int {
		return c.Op(k.Select, c.Op(k.Less, c.Constant(attrFloat(n, "alpha", 1)), in[0]), in[0], c.Constant(0))
	},
	"Shrink": func(c *programBuilder, n *graph.Node, in []int) int {
		bias, edge := c.Constant(attrFloat(n, "bias", 0)), attrFloat(n, "lambd", 0.5)
		high := c.Op(k.Select, c.Op(k.Less, c.Constant(edge), in[0]), c.Op(k.Sub, in[0], bias), c.Constant(0))
		return c.Op(k.Select, c.Op(k.Less, in[0], c.Constant(-edge)), c.Op(k.Add, in[0], bias), high)
	},
	"Gelu": gelu,
}

func attrFloat(n *graph.Node, name string, fallback float64) float64 {
	return graph.Attr(n, name, fallback)
}

func newUnary(o k.ElementOp) emitter {
	return func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(o, in[0]) }
}

func newBinary(o k.ElementOp) emitter {
	return func(c *programBuilder, n *graph.Node, in []int) int { return c.Op(o, in[0], in[1]) }
}

// newVariadic applies an operation from left to right, to as many operands at a time as one program takes.
func newVariadic(o k.ElementOp) func(t *translator, n *graph.Node) *Value {
	return func(t *translator, n *graph.Node) *Value {
		in := make([]*Value, len(n.In))
		for i, v := range n.In {
			in[i] = t.translatedValue(v)
		}
		x, rest := in[0], in[1:]
		for first := true; first || len(rest) > 0; first = false {
			count := min(maxOperands-1, len(rest))
			x = t.addElementwise(n.Out[0].Shape, slices.Concat([]*Value{x}, rest[:count]), func(c *programBuilder, in []int) int {
				x := in[0]
				for _, y := range in[1:] {
					x = c.Op(o, x, y)
				}
				return x
			})
			rest = rest[count:]
		}
		return x
	}
}

// mean is the sum by the number of operands.
func mean(t *translator, n *graph.Node) *Value {
	sum := newVariadic(k.Add)(t, n)
	return t.addElementwise(sum.Shape, []*Value{sum}, func(c *programBuilder, in []int) int {
		return c.Op(k.Div, in[0], c.Constant(float64(len(n.In))))
	})
}

func leakyRelu(c *programBuilder, n *graph.Node, in []int) int {
	alpha := attrFloat(n, "alpha", 0.01)
	low := c.Op(k.Mul, in[0], c.Constant(alpha))
	if alpha >= 0 && alpha <= 1 {
		return c.Op(k.Max, in[0], low)
	}
	return c.Op(k.Select, c.Op(k.Less, in[0], c.Constant(0)), low, in[0])
}

// exponential is alpha * (exp(x) - 1).
func exponential(c *programBuilder, x int, alpha float64) int {
	return c.Op(k.Mul, c.Op(k.Sub, c.Op(k.Exp, x), c.Constant(1)), c.Constant(alpha))
}

func hardSigmoid(c *programBuilder, x int, alpha, beta float64) int {
	x = c.Op(k.Add, c.Op(k.Mul, x, c.Constant(alpha)), c.Constant(beta))
	return c.Op(k.Max, c.Op(k.Min, x, c.Constant(1)), c.Constant(0))
}

// softplus is log(1 + exp(x)), by the smaller exponential.
func softplus(c *programBuilder, x int) int {
	small := c.Op(k.Exp, c.Op(k.Neg, c.Op(k.Abs, x)))
	return c.Op(k.Add, c.Op(k.Max, x, c.Constant(0)), c.Op(k.Log, c.Op(k.Add, small, c.Constant(1))))
}

func gelu(c *programBuilder, n *graph.Node, in []int) int {
	x := in[0]
	var inner int
	if graph.Attr(n, "approximate", "none") == "tanh" {
		cube := c.Op(k.Mul, c.Op(k.Mul, x, x), x)
		inner = c.Op(k.Add, x, c.Op(k.Mul, cube, c.Constant(0.044715)))
		inner = c.Op(k.Tanh, c.Op(k.Mul, inner, c.Constant(math.Sqrt(2/math.Pi))))
	} else {
		inner = c.Op(k.Erf, c.Op(k.Mul, x, c.Constant(math.Sqrt2/2)))
	}
	half := c.Op(k.Mul, x, c.Constant(0.5))
	return c.Op(k.Mul, half, c.Op(k.Add, inner, c.Constant(1)))
}

// dropout is the identity, but where it trains.
func dropout(t *translator, n *graph.Node) *Value {
	if v := n.Input(2); v != nil && (v.Const == nil || v.Const.Ints()[0] != 0) {
		return nil
	}
	return t.translatedValue(n.In[0])
}

// cast is between types that are float32 on the device; to one of fewer bits, it is rounded as all that is made of that type.
func cast(t *translator, n *graph.Node) *Value {
	v := t.translatedValue(n.In[0])
	if v.Const != nil {
		return nil
	}
	if v.Type == engine.Bool || n.Out[0].Type != engine.Bool {
		return v
	}
	return t.addElementwise(v.Shape, []*Value{v}, func(c *programBuilder, in []int) int {
		zero := c.Constant(0)
		return c.Op(k.Equal, c.Op(k.Equal, in[0], zero), zero)
	})
}

// batchNormalization is a product and a sum with figures of each channel, most often constants.
func batchNormalization(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	if len(n.In) < 5 || len(x.Shape) < 2 || attrInt(n, "training_mode", 0) != 0 {
		return nil
	}
	var figures [4][]float64
	for i := range figures {
		if n.In[i+1] == nil {
			return nil
		}
		if n.In[i+1].Const == nil {
			return t.computedNormalization(n, x)
		}
		figures[i] = n.In[i+1].Const.Floats()
	}
	scale, shift := figures[0], figures[1]
	for c, mean := range figures[2] {
		scale[c] /= math.Sqrt(figures[3][c] + attrFloat(n, "epsilon", 1e-5))
		shift[c] -= mean * scale[c]
	}
	return t.affine(x, scale, shift)
}

// computedNormalization is a BatchNormalization some of whose figures are computed.
func (t *translator) computedNormalization(n *graph.Node, x *Value) *Value {
	channels := onesBut(len(x.Shape), 1, x.Shape[1])
	var figures []*Value
	for _, v := range n.In[1:5] {
		figures = append(figures, t.reshape(t.translatedValue(v), channels...))
	}
	scale, shift, mean, variance := figures[0], figures[1], figures[2], figures[3]
	scale = t.addElementwise(channels, []*Value{scale, variance}, func(c *programBuilder, in []int) int {
		return c.Op(k.Div, in[0], c.Op(k.Sqrt, c.Op(k.Add, in[1], c.Constant(attrFloat(n, "epsilon", 1e-5)))))
	})
	shift = t.addElementwise(channels, []*Value{shift, mean, scale}, func(c *programBuilder, in []int) int {
		return c.Op(k.Sub, in[0], c.Op(k.Mul, in[1], in[2]))
	})
	return t.addElementwise(x.Shape, []*Value{x, scale, shift}, func(c *programBuilder, in []int) int {
		return c.Op(k.Add, c.Op(k.Mul, in[0], in[1]), in[2])
	})
}

// affine is x times scale plus shift of its channel.
func (t *translator) affine(x *Value, scale, shift []float64) *Value {
	channels := onesBut(len(x.Shape), 1, len(scale))
	in := []*Value{x, t.constant("scale", channels, scale)}
	x = t.addElementwise(x.Shape, in, func(c *programBuilder, in []int) int { return c.Op(k.Mul, in[0], in[1]) })
	in = []*Value{x, t.constant("shift", channels, shift)}
	return t.addElementwise(x.Shape, in, func(c *programBuilder, in []int) int { return c.Op(k.Add, in[0], in[1]) })
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
