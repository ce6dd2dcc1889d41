package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// matrixLowerings are those of products of matrices: with a constant one, they are convolutions of one tap.
func matrixLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	return map[string]func(t *translator, n *graph.Node) *Value{"MatMul": matMul, "Gemm": gemm}
}

// addLinear is x [..., in] times a constant matrix [in, out], or [out, in] with rows.
func (t *translator) addLinear(x *Value, matrix *graph.Value, rows bool, bias *graph.Value) *Value {
	shape := slices.Clone(x.Shape)
	last := len(shape) - 1
	in, out := matrix.Shape[0], matrix.Shape[1]
	if rows {
		in, out = out, in
	}
	shape[last] = out
	if len(shape) > 5 { // a batch, at most three dimensions, and the channels
		x = t.reshape(x, x.Shape[0], graph.Elements(x.Shape[1:last]), x.Shape[last])
		return t.reshape(t.addLinear(x, matrix, rows, bias), shape...)
	}
	o := Window{Order: intRange(0, len(shape))}
	if len(shape) == 2 {
		o.Order = []int{0, -1, 1}
	}
	o.Origin = make([]int, len(o.Order)-2)
	ones := slices.Repeat([]int{1}, len(o.Origin))
	f := &Filter{Weight: matrix, Transposed: !rows, Bias: bias, Spec: kernels.ConvSpec{
		In: in, Out: out, Groups: 1, Kernel: ones, Strides: ones, Dilations: ones,
	}}
	return t.addOp(&Conv{Window: o, Filter: f}, x.Type, shape, x)
}

func matMul(t *translator, n *graph.Node) *Value {
	a, b, out := t.translatedValue(n.In[0]), t.translatedValue(n.In[1]), n.Out[0].Shape
	if a.Const != nil && b.Const != nil {
		return nil
	}
	if len(a.Shape) == 1 {
		a = t.reshape(a, 1, a.Shape[0])
	}
	if b.Const != nil && len(b.Shape) == 2 && len(a.Shape) >= 2 {
		return t.reshape(t.addLinear(a, n.In[1], false, nil), out...)
	}
	if len(b.Shape) == 1 {
		b = t.reshape(b, b.Shape[0], 1)
	}
	return t.reshape(t.multiplyMatrices(a, b), out...)
}

// multiplyMatrices multiplies matrices, the last two dimensions; others are broadcast.
func (t *translator) multiplyMatrices(a, b *Value) *Value {
	rank := max(len(a.Shape), len(b.Shape))
	batch := make([]int, rank-2)
	for i := range batch {
		batch[i] = 1
		for _, v := range []*Value{a, b} {
			if d := len(v.Shape) - rank + i; d >= 0 && v.Shape[d] != 1 {
				batch[i] = v.Shape[d]
			}
		}
	}
	rows, inner, columns := a.Shape[len(a.Shape)-2], b.Shape[len(b.Shape)-2], b.Shape[len(b.Shape)-1]
	wide := func(v *Value, matrix ...int) *Value {
		return t.expand(v, append(slices.Clone(batch), matrix...)...)
	}
	return t.addOp(&MatMul{}, t.node.Out[0].Type, append(slices.Clone(batch), rows, columns), wide(a, rows, inner), wide(b, inner, columns))
}

func gemm(t *translator, n *graph.Node) *Value {
	a, b := t.translatedValue(n.In[0]), t.translatedValue(n.In[1])
	if a.Const != nil && b.Const != nil {
		return nil
	}
	flip := func(v *Value, attr string) *Value {
		if attrInt(n, attr, 0) != 0 {
			return t.transpose(v, 1, 0)
		}
		return v
	}
	a = flip(a, "transA")
	alpha, beta, c := attrFloat(n, "alpha", 1), attrFloat(n, "beta", 1), n.Input(2)
	var y *Value
	if b.Const != nil {
		y = t.addLinear(a, n.In[1], attrInt(n, "transB", 0) != 0, nil)
	} else {
		y = t.multiplyMatrices(a, flip(b, "transB"))
	}
	if alpha != 1 {
		y = t.addElementwise(y.Shape, []*Value{y}, func(c *programBuilder, in []int) int { return c.Op(kernels.Mul, in[0], c.Constant(alpha)) })
	}
	if c == nil || beta == 0 {
		return y
	}
	return t.addElementwise(y.Shape, []*Value{y, t.translatedValue(c)}, func(c *programBuilder, in []int) int {
		more := in[1]
		if beta != 1 {
			more = c.Op(kernels.Mul, more, c.Constant(beta))
		}
		return c.Op(kernels.Add, in[0], more)
	})
}
