package vjp

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// MatMul multiplies by the other factor, transposed.
func MatMul(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, y, in := writer{b, n}, n.In[0], n.In[1], make([]*value, 2)
	xm, ym := matrixShape(x.Shape, 0), matrixShape(y.Shape, 1)
	g := w.reshape(out[0], productShape(out[0].Shape, len(x.Shape), len(y.Shape)))
	if w.wantsGrad(0) {
		d := w.Op("MatMul", nil, g, w.transposeMatrices(w.reshape(y, ym)))
		in[0] = w.reshape(w.sumTo(d, xm), x.Shape)
	}
	if w.wantsGrad(1) {
		d := w.Op("MatMul", nil, w.transposeMatrices(w.reshape(x, xm)), g)
		in[1] = w.reshape(w.sumTo(d, ym), y.Shape)
	}
	return in, nil
}

// matrixShape is the shape of a factor with a dimension more, at place 0 or 1, if it is a vector.
func matrixShape(shape []int, place int) []int {
	switch {
	case len(shape) > 1:
		return shape
	case place == 0:
		return []int{1, shape[0]}
	}
	return []int{shape[0], 1}
}

// productShape is the shape of a product if vectors were matrices.
func productShape(shape []int, xRank, yRank int) []int {
	out := append([]int{}, shape...)
	if yRank == 1 {
		out = append(out, 1)
	}
	if xRank == 1 {
		last := len(out) - 1
		out = append(out[:last:last], 1, out[last])
	}
	return out
}

// transposeMatrices exchanges the last two dimensions.
func (w writer) transposeMatrices(x *value) *value {
	rank := len(x.Shape)
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return w.transpose(x, perm)
}

// Gemm is alpha x y + beta c, each of x and y transposed or not.
func Gemm(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, y, g, in := writer{b, n}, n.In[0], n.In[1], out[0], make([]*value, len(n.In))
	transX, transY := graph.Attr(n, "transA", int64(0)), graph.Attr(n, "transB", int64(0))
	product := func(left *value, transLeft int64, right *value, transRight int64) *value {
		a := attrs{"alpha": graph.Attr(n, "alpha", 1.0), "transA": transLeft, "transB": transRight}
		return w.Op("Gemm", a, left, right)
	}
	if w.wantsGrad(0) {
		if transX == 0 {
			in[0] = product(g, 0, y, 1-transY)
		} else {
			in[0] = product(y, transY, g, 1)
		}
	}
	if w.wantsGrad(1) {
		if transY == 0 {
			in[1] = product(x, 1-transX, g, 0)
		} else {
			in[1] = product(g, 1, x, transX)
		}
	}
	if w.wantsGrad(2) {
		in[2] = w.sumTo(w.timesNumber(g, graph.Attr(n, "beta", 1.0)), n.In[2].Shape)
	}
	return in, nil
}

// Einsum is another one for each term: of the result and the other terms to the term.
func Einsum(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	equation := strings.ReplaceAll(graph.Attr(n, "equation", ""), " ", "")
	left, result, explicit := strings.Cut(equation, "->")
	if !explicit || strings.Contains(equation, ".") {
		return nil, fmt.Errorf("there is no gradient of the equation %q: it has no ->, or an ellipsis", equation)
	}
	w, terms, in := writer{b, n}, strings.Split(left, ","), make([]*value, len(n.In))
	for i, x := range n.In {
		if !w.wantsGrad(i) {
			continue
		}
		from, values := []string{result}, []*value{out[0]}
		for k := range n.In {
			if k != i {
				from, values = append(from, terms[k]), append(values, n.In[k])
			}
		}
		d, err := w.einsum(from, terms[i], values, x.Shape)
		if err != nil {
			return nil, err
		}
		in[i] = d
	}
	return in, nil
}

// einsum sums the product of terms to one of a shape. It repeats that along labels that no term has.
func (w writer) einsum(from []string, to string, terms []*value, shape []int) (*value, error) {
	kept, whole := "", append([]int{}, shape...)
	for k, label := range to {
		if strings.Count(to, string(label)) > 1 {
			return nil, fmt.Errorf("there is no gradient to a term %q, which names an index twice", to)
		}
		if strings.ContainsRune(strings.Join(from, ""), label) {
			kept += string(label)
		} else {
			whole[k] = 1
		}
	}
	d := w.Op("Einsum", attrs{"equation": strings.Join(from, ",") + "->" + kept}, terms...)
	if len(kept) < len(to) {
		return w.expand(w.reshape(d, whole), shape), nil
	}
	return w.expand(w.sumTo(d, shape), shape), nil
}
