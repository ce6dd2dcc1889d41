package vjp

import (
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Functions of one argument.
var (
	Identity   = unaryGrad(func(_ writer, _, _, g *value) *value { return g })
	Neg        = unaryGrad(func(w writer, _, _, g *value) *value { return w.applyUnary("Neg", g) })
	Abs        = unaryGrad(func(w writer, x, _, g *value) *value { return w.mul(g, w.applyUnary("Sign", x)) })
	Exp        = unaryGrad(func(w writer, _, y, g *value) *value { return w.mul(g, y) })
	Log        = unaryGrad(func(w writer, x, _, g *value) *value { return w.div(g, x) })
	Sqrt       = unaryGrad(func(w writer, _, y, g *value) *value { return w.div(w.timesNumber(g, .5), y) })
	Reciprocal = unaryGrad(func(w writer, _, y, g *value) *value { return w.mul(w.applyUnary("Neg", g), w.square(y)) })
	Erf        = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.mul(g, w.timesNumber(w.applyUnary("Exp", w.applyUnary("Neg", w.square(x))), 2/math.SqrtPi))
	})
	Sin  = unaryGrad(func(w writer, x, _, g *value) *value { return w.mul(g, w.applyUnary("Cos", x)) })
	Cos  = unaryGrad(func(w writer, x, _, g *value) *value { return w.mul(g, w.applyUnary("Neg", w.applyUnary("Sin", x))) })
	Tan  = unaryGrad(func(w writer, _, y, g *value) *value { return w.mul(g, w.addNumber(w.square(y), 1)) })
	Asin = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.div(g, w.applyUnary("Sqrt", w.subtractFromNumber(1, w.square(x))))
	})
	Acos = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.div(w.applyUnary("Neg", g), w.applyUnary("Sqrt", w.subtractFromNumber(1, w.square(x))))
	})
	Atan  = unaryGrad(func(w writer, x, _, g *value) *value { return w.div(g, w.addNumber(w.square(x), 1)) })
	Sinh  = unaryGrad(func(w writer, x, _, g *value) *value { return w.mul(g, w.applyUnary("Cosh", x)) })
	Cosh  = unaryGrad(func(w writer, x, _, g *value) *value { return w.mul(g, w.applyUnary("Sinh", x)) })
	Asinh = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.div(g, w.applyUnary("Sqrt", w.addNumber(w.square(x), 1)))
	})
	Acosh = unaryGrad(func(w writer, x, _, g *value) *value {
		return w.div(g, w.applyUnary("Sqrt", w.addNumber(w.square(x), -1)))
	})
	Atanh = unaryGrad(func(w writer, x, _, g *value) *value { return w.div(g, w.subtractFromNumber(1, w.square(x))) })
)

// Cast gives a gradient from one floating-point type to another.
func Cast(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	in := make([]*value, len(n.In))
	in[0] = writer{b, n}.castLike(n.In[0], out[0])
	return in, nil
}

// castLike is g in the type of like.
func (w writer) castLike(like, g *value) *value {
	if g.Type == like.Type {
		return g
	}
	return w.Op("CastLike", nil, g, like)
}

// binaryGrad is the Grad of an operation z = f(x, y) that broadcasts, by the gradients, of z's shape, of x and of y.
func binaryGrad(dx, dy func(w writer, x, y, z, g *value) *value) Grad {
	return func(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
		w, in := writer{b, n}, make([]*value, 2)
		for i, d := range []func(w writer, x, y, z, g *value) *value{dx, dy} {
			if w.wantsGrad(i) {
				in[i] = w.castLike(n.In[i], w.sumTo(d(w, n.In[0], n.In[1], n.Out[0], out[0]), n.In[i].Shape))
			}
		}
		return in, nil
	}
}

func passGrad(_ writer, _, _, _, g *value) *value { return g }

// Arithmetic.
var (
	Add = binaryGrad(passGrad, passGrad)
	Sub = binaryGrad(passGrad, func(w writer, _, _, _, g *value) *value { return w.applyUnary("Neg", g) })
	Mul = binaryGrad(
		func(w writer, _, y, _, g *value) *value { return w.mul(g, y) },
		func(w writer, x, _, _, g *value) *value { return w.mul(g, x) })
	Div = binaryGrad(
		func(w writer, _, y, _, g *value) *value { return w.div(g, y) },
		func(w writer, _, y, z, g *value) *value { return w.applyUnary("Neg", w.div(w.mul(g, z), y)) })
	// Mod is that of floating-point numbers: x less a whole multiple of y.
	Mod = binaryGrad(passGrad, func(w writer, x, y, z, g *value) *value { return w.mul(g, w.div(w.sub(z, x), y)) })
	Pow = binaryGrad(powBase, func(w writer, x, _, z, g *value) *value {
		// Where x is 0, so is the gradient, as long as the exponent is more than 0.
		zero := w.number(x, 0)
		return w.selectWhere(w.less(zero, x), w.mul(g, w.mul(z, w.applyUnary("Log", x))), zero)
	})
)

// powBase is the gradient of a power's base.
func powBase(w writer, x, y, _, g *value) *value {
	if y.Const != nil && y.Const.Len() == 1 {
		switch e := y.Const.Floats()[0]; e {
		case 1:
			return g
		case 2:
			return w.mul(g, w.timesNumber(x, 2))
		default:
			return w.mul(g, w.timesNumber(w.Op("Pow", nil, x, w.number(x, e-1)), e))
		}
	}
	y = w.castLike(x, y)
	return w.mul(g, w.mul(y, w.Op("Pow", nil, x, w.addNumber(y, -1))))
}

// Sum passes a gradient on to all.
func Sum(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	return writer{b, n}.sumToInputs(out[0]), nil
}

// Mean passes a gradient on to all, each an equal part.
func Mean(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w := writer{b, n}
	return w.sumToInputs(w.timesNumber(out[0], 1/float64(len(n.In)))), nil
}

func (w writer) sumToInputs(g *value) []*value {
	in := make([]*value, len(w.n.In))
	for i, x := range w.n.In {
		if w.wantsGrad(i) {
			in[i] = w.sumTo(g, x.Shape)
		}
	}
	return in
}

// Extreme is of Max and Min: the first of equal ones gets the gradient.
func Extreme(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, in, g := writer{b, n}, make([]*value, len(n.In)), out[0]
	zero := w.number(g, 0)
	last := 0
	for i := range n.In {
		if w.wantsGrad(i) {
			last = i
		}
	}
	for i, x := range n.In[:last+1] {
		d := g // what no earlier one got is the last one's
		if i < len(n.In)-1 {
			is := w.Op("Equal", nil, x, n.Out[0])
			d = w.selectWhere(is, g, zero)
			g = w.selectWhere(is, zero, g)
		}
		if w.wantsGrad(i) {
			in[i] = w.sumTo(d, x.Shape)
		}
	}
	return in, nil
}

// Where gives a gradient to the chosen one.
func Where(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, in, g := writer{b, n}, make([]*value, 3), out[0]
	zero := w.number(g, 0)
	if w.wantsGrad(1) {
		in[1] = w.sumTo(w.selectWhere(n.In[0], g, zero), n.In[1].Shape)
	}
	if w.wantsGrad(2) {
		in[2] = w.sumTo(w.selectWhere(n.In[0], zero, g), n.In[2].Shape)
	}
	return in, nil
}
