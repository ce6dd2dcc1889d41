// Package vjp writes vector-Jacobian products: for each operation, the nodes that turn gradients of a node's
// outputs into gradients of its inputs.
package vjp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Grad adds to b the nodes that compute the gradients of n's inputs, of their types and shapes, out of those of
// its outputs. All that n reads and computes is known but for values. out[i] is nil where no gradient comes from
// output i; one is not nil. The gradient of an input is nil where none goes there: to constants, integers, and the
// scales and shifts of normalisations by statistics of their own.
//
// A product is to consist of few nodes, element-wise ones where that is possible, because those next to each
// other become one. It may write what a caller will not need; that is pruned.
type Grad func(b *graph.Builder, n *graph.Node, out []*graph.Value) (in []*graph.Value, err error)

type (
	value = graph.Value
	attrs = graph.Attrs
)

// writer writes a product of node n.
type writer struct {
	*graph.Builder
	n *graph.Node
}

// unaryGrad is the Grad of an operation y = f(x), by the gradient of x given that of y. Further inputs get none.
func unaryGrad(f func(w writer, x, y, g *value) *value) Grad {
	return func(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
		in := make([]*value, len(n.In))
		in[0] = f(writer{b, n}, n.In[0], n.Out[0], out[0])
		return in, nil
	}
}

// Refuse is the Grad of an operation for which none is written.
func Refuse(why string) Grad {
	return func(*graph.Builder, *graph.Node, []*value) ([]*value, error) {
		return nil, fmt.Errorf("there is no gradient of this operation: %s", why)
	}
}

// wantsGrad says whether input i may need a gradient.
func (w writer) wantsGrad(i int) bool {
	v := w.n.Input(i)
	return v != nil && v.Const == nil && graph.Floating(v.Type)
}

// constantIntegers are the elements of a constant input, or fallback where it is not given.
func (w writer) constantIntegers(i int, fallback ...int64) ([]int64, error) {
	v := w.n.Input(i)
	switch {
	case v == nil:
		return fallback, nil
	case v.Const == nil:
		return nil, fmt.Errorf("input %d (%q) is not a constant", i, v.Name)
	}
	return v.Const.Ints(), nil
}

func (w writer) addValues(x, y *value) *value { return w.Op("Add", nil, x, y) }
func (w writer) sub(x, y *value) *value       { return w.Op("Sub", nil, x, y) }
func (w writer) mul(x, y *value) *value       { return w.Op("Mul", nil, x, y) }
func (w writer) div(x, y *value) *value       { return w.Op("Div", nil, x, y) }

// applyUnary is a function of one argument.
func (w writer) applyUnary(op string, x *value) *value { return w.Op(op, nil, x) }

// less is x < y.
func (w writer) less(x, y *value) *value { return w.Op("Less", nil, x, y) }

// selectWhere is yes where condition holds, else no.
func (w writer) selectWhere(condition, yes, no *value) *value {
	return w.Op("Where", nil, condition, yes, no)
}

// number is a constant of like's type, without dimensions.
func (w writer) number(like *value, x float64) *value {
	return w.Const("number", graph.Scalar(like.Type, x))
}

// zeros is a constant of a value's type and shape.
func (w writer) zeros(like *value) *value {
	return w.Const("zeros", graph.NewTensor(like.Type, like.Shape...))
}

// timesNumber is x scaled by a number.
func (w writer) timesNumber(x *value, by float64) *value {
	if by == 1 {
		return x
	}
	return w.mul(x, w.number(x, by))
}

// addNumber is x and a number.
func (w writer) addNumber(x *value, y float64) *value { return w.addValues(x, w.number(x, y)) }

// subtractFromNumber is a number less x.
func (w writer) subtractFromNumber(y float64, x *value) *value { return w.sub(w.number(x, y), x) }

// square is x times x.
func (w writer) square(x *value) *value { return w.mul(x, x) }

// integerVector is a constant of integers.
func (w writer) integerVector(elements ...int64) *value {
	return w.Const("integers", graph.Vector(elements...))
}

// reshape is x in another shape.
func (w writer) reshape(x *value, shape []int) *value {
	if slices.Equal(x.Shape, shape) {
		return x
	}
	// A dimension of 0 means 0, not that of x.
	return w.Op("Reshape", attrs{"allowzero": int64(1)}, x, w.integerVector(toInt64s(shape)...))
}

// expand repeats x along dimensions of 1.
func (w writer) expand(x *value, shape []int) *value {
	if slices.Equal(x.Shape, shape) {
		return x
	}
	return w.Op("Expand", nil, x, w.integerVector(toInt64s(shape)...))
}

// transpose permutes dimensions.
func (w writer) transpose(x *value, perm []int64) *value {
	for i, p := range perm {
		if p != int64(i) {
			return w.Op("Transpose", attrs{"perm": perm}, x)
		}
	}
	return x
}

// reduceAxes applies one of the Reduce operations along axes, keeping them.
func (w writer) reduceAxes(op string, x *value, axes []int64) *value {
	return w.Op(op, attrs{"keepdims": int64(1), "noop_with_empty_axes": int64(1)}, x, w.integerVector(axes...))
}

// sumTo sums g over the dimensions along which a value of a shape was broadcast to g's.
func (w writer) sumTo(g *value, shape []int) *value {
	lead := len(g.Shape) - len(shape)
	var axes []int64
	for i, d := range g.Shape {
		if i < lead || shape[i-lead] == 1 && d != 1 {
			axes = append(axes, int64(i))
		}
	}
	switch len(axes) {
	case 0:
		return g
	case lead:
		return w.Op("ReduceSum", attrs{"keepdims": int64(0)}, g, w.integerVector(axes...))
	}
	return w.reshape(w.reduceAxes("ReduceSum", g, axes), shape)
}

// applyGradOp is an operation of ours with the node's attributes and inputs, but for the first, which is the gradient,
// and with the shape of its first input as an attribute.
func (w writer) applyGradOp(op string, g *value) *value {
	a := maps.Clone(w.n.Attrs)
	if a == nil {
		a = attrs{}
	}
	a["shape"] = toInt64s(w.n.In[0].Shape)
	return w.Op(op, a, append([]*value{g}, w.n.In[1:]...)...)
}

// numbersBelow are the numbers below n.
func numbersBelow(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

func toInt64s(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, d := range shape {
		out[i] = int64(d)
	}
	return out
}

// axisAttribute is an attribute that may count from the last dimension, as a number from 0.
func axisAttribute(n *graph.Node, fallback, rank int) int {
	a := int(graph.Attr(n, "axis", int64(fallback)))
	if a < 0 {
		a += rank
	}
	return a
}
