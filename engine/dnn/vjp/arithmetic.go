package vjp

import (
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Functions of one argument.
var (
	Identity   = unary(func(_ writer, _, _, g *value) *value { return g })
	Neg        = unary(func(w writer, _, _, g *value) *value { return w.apply("Neg", g) })
	Abs        = unary(func(w writer, x, _, g *value) *value { return w.mul(g, w.apply("Sign", x)) })
	Exp        = unary(func(w writer, _, y, g *value) *value { return w.mul(g, y) })
	Log        = unary(func(w writer, x, _, g *value) *value { return w.div(g, x) })
	Sqrt       = unary(func(w writer, _, y, g *value) *value { return w.div(w.times(g, .5), y) })
	Reciprocal = unary(func(w writer, _, y, g *value) *value { return w.mul(w.apply("Neg", g), w.square(y)) })
	Erf        = unary(func(w writer, x, _, g *value) *value {
		return w.mul(g, w.times(w.apply("Exp", w.apply("Neg", w.square(x))), 2/math.SqrtPi))
	})
	Sin  = unary(func(w writer, x, _, g *value) *value { return w.mul(g, w.apply("Cos", x)) })
	Cos  = unary(func(w writer, x, _, g *value) *value { return w.mul(g, w.apply("Neg", w.apply("Sin", x))) })
	Tan  = unary(func(w writer, _, y, g *value) *value { return w.mul(g, w.plus(w.square(y), 1)) })
	Asin = unary(func(w writer, x, _, g *value) *value { return w.div(g, w.apply("Sqrt", w.minus(1, w.square(x)))) })
	Acos = unary(func(w writer, x, _, g *value) *value {
		return w.div(w.apply("Neg", g), w.apply("Sqrt", w.minus(1, w.square(x))))
	})
	Atan  = unary(func(w writer, x, _, g *value) *value { return w.div(g, w.plus(w.square(x), 1)) })
	Sinh  = unary(func(w writer, x, _, g *value) *value { return w.mul(g, w.apply("Cosh", x)) })
	Cosh  = unary(func(w writer, x, _, g *value) *value { return w.mul(g, w.apply("Sinh", x)) })
	Asinh = unary(func(w writer, x, _, g *value) *value { return w.div(g, w.apply("Sqrt", w.plus(w.square(x), 1))) })
	Acosh = unary(func(w writer, x, _, g *value) *value { return w.div(g, w.apply("Sqrt", w.plus(w.square(x), -1))) })
	Atanh = unary(func(w writer, x, _, g *value) *value { return w.div(g, w.minus(1, w.square(x))) })
)

// Cast gives a gradient from one floating-point type to another.
func Cast(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	in := make([]*value, len(n.In))
	in[0] = writer{b, n}.as(n.In[0], out[0])
	return in, nil
}

// as is g in the type of like.
func (w writer) as(like, g *value) *value {
	if g.Type == like.Type {
		return g
	}
	return w.Op("CastLike", nil, g, like)
}

// binary is the Grad of an operation z = f(x, y) that broadcasts, by the gradients, of z's shape, of x and of y.
func binary(dx, dy func(w writer, x, y, z, g *value) *value) Grad {
	return func(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
		w, in := writer{b, n}, make([]*value, 2)
		for i, d := range []func(w writer, x, y, z, g *value) *value{dx, dy} {
			if w.wants(i) {
				in[i] = w.as(n.In[i], w.sumTo(d(w, n.In[0], n.In[1], n.Out[0], out[0]), n.In[i].Shape))
			}
		}
		return in, nil
	}
}

func pass(_ writer, _, _, _, g *value) *value { return g }

// Arithmetic.
var (
	Add = binary(pass, pass)
	Sub = binary(pass, func(w writer, _, _, _, g *value) *value { return w.apply("Neg", g) })
	Mul = binary(
		func(w writer, _, y, _, g *value) *value { return w.mul(g, y) },
		func(w writer, x, _, _, g *value) *value { return w.mul(g, x) })
	Div = binary(
		func(w writer, _, y, _, g *value) *value { return w.div(g, y) },
		func(w writer, _, y, z, g *value) *value { return w.apply("Neg", w.div(w.mul(g, z), y)) })
	// Mod is that of floating-point numbers: x less a whole multiple of y.
	Mod = binary(pass, func(w writer, x, y, z, g *value) *value { return w.mul(g, w.div(w.sub(z, x), y)) })
	Pow = binary(powBase, func(w writer, x, _, z, g *value) *value {
		// Where x is 0, so is the gradient, as long as the exponent is more than 0.
		zero := w.number(x, 0)
		return w.choose(w.less(zero, x), w.mul(g, w.mul(z, w.apply("Log", x))), zero)
	})
)

// powBase is the gradient of a power's base.
func powBase(w writer, x, y, _, g *value) *value {
	if y.Const != nil && y.Const.Len() == 1 {
		switch e := y.Const.Floats()[0]; e {
		case 1:
			return g
		case 2:
			return w.mul(g, w.times(x, 2))
		default:
			return w.mul(g, w.times(w.Op("Pow", nil, x, w.number(x, e-1)), e))
		}
	}
	y = w.as(x, y)
	return w.mul(g, w.mul(y, w.Op("Pow", nil, x, w.plus(y, -1))))
}

// Sum passes a gradient on to all.
func Sum(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	return writer{b, n}.spread(out[0]), nil
}

// Mean passes a gradient on to all, each an equal part.
func Mean(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w := writer{b, n}
	return w.spread(w.times(out[0], 1/float64(len(n.In)))), nil
}

func (w writer) spread(g *value) []*value {
	in := make([]*value, len(w.n.In))
	for i, x := range w.n.In {
		if w.wants(i) {
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
		if w.wants(i) {
			last = i
		}
	}
	for i, x := range n.In[:last+1] {
		d := g // what no earlier one got is the last one's
		if i < len(n.In)-1 {
			is := w.Op("Equal", nil, x, n.Out[0])
			d = w.choose(is, g, zero)
			g = w.choose(is, zero, g)
		}
		if w.wants(i) {
			in[i] = w.sumTo(d, x.Shape)
		}
	}
	return in, nil
}

// Where gives a gradient to the chosen one.
func Where(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, in, g := writer{b, n}, make([]*value, 3), out[0]
	zero := w.number(g, 0)
	if w.wants(1) {
		in[1] = w.sumTo(w.choose(n.In[0], g, zero), n.In[1].Shape)
	}
	if w.wants(2) {
		in[2] = w.sumTo(w.choose(n.In[0], zero, g), n.In[2].Shape)
	}
	return in, nil
}
