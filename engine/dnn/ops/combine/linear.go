package combine

import (
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/elementwise"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Linears are products of matrices.
var Linears = map[string]op.Definition{
	"MatMul": op.Define(matMul, op.Numbers, 2, 2, 1),
	"Gemm":   op.Define(gemm, op.Numbers, 2, 3, 1),
	"Einsum": op.Define(einsum, op.Numbers, 1, op.Many, 1),
}

// multiplyMatrices computes in float64, or in int64 for integers.
func multiplyMatrices[T op.Number](a, b []T, m, k, n int) []T {
	out := make([]T, m*n)
	for i := range m {
		row := out[i*n : (i+1)*n]
		for j := range k {
			x, from := a[i*k+j], b[j*n:(j+1)*n]
			for l := range row {
				row[l] += x * from[l]
			}
		}
	}
	return out
}

func matMul(c *op.Call) {
	c.Same(1)
	a, b := slices.Clone(c.Ranked(0, 1, 1<<10)), slices.Clone(c.Ranked(1, 1, 1<<10))
	vectorA, vectorB := len(a) == 1, len(b) == 1
	if vectorA {
		a = []int{1, a[0]}
	}
	if vectorB {
		b = []int{b[0], 1}
	}
	m, k, n := a[len(a)-2], a[len(a)-1], b[len(b)-1]
	if k2 := b[len(b)-2]; k >= 0 && k2 >= 0 && k != k2 {
		c.Fail("cannot multiply %v by %v", c.Dims(0), c.Dims(1))
	}
	batch, ok := op.BroadcastShape(a[:len(a)-2], b[:len(b)-2])
	if !ok {
		c.Fail("cannot multiply %v by %v", c.Dims(0), c.Dims(1))
	}
	shape := slices.Clone(batch)
	if !vectorA {
		shape = append(shape, m)
	}
	if !vectorB {
		shape = append(shape, n)
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x := op.Expanded(in[0].Reshaped(a...), append(slices.Clone(batch), m, k))
		y := op.Expanded(in[1].Reshaped(b...), append(slices.Clone(batch), k, n))
		if graph.Floating(x.Type) {
			return op.One(c.Floats(0, multiplyBatches(x.Floats(), y.Floats(), op.Product(batch), m, k, n)))
		}
		return op.One(graph.FromInts(x.Type, shape, multiplyBatches(x.Ints(), y.Ints(), op.Product(batch), m, k, n)))
	}
}

func multiplyBatches[T op.Number](x, y []T, batch, m, k, n int) []T {
	out := make([]T, 0, batch*m*n)
	for i := range batch {
		out = append(out, multiplyMatrices(x[i*m*k:(i+1)*m*k], y[i*k*n:(i+1)*k*n], m, k, n)...)
	}
	return out
}

func gemm(c *op.Call) {
	c.Same(1, 2)
	a, b := c.Ranked(0, 2, 2), c.Ranked(1, 2, 2)
	alpha, beta := c.Float("alpha", 1), c.Float("beta", 1)
	turnA, turnB := c.Flag("transA", false), c.Flag("transB", false)
	if turnA {
		a = []int{a[1], a[0]}
	}
	if turnB {
		b = []int{b[1], b[0]}
	}
	if a[1] >= 0 && b[0] >= 0 && a[1] != b[0] {
		c.Fail("cannot multiply %v by %v", a, b)
	}
	c.Shaped(0, a[0], b[1])
	if c.Has(2) {
		to, ok := op.BroadcastShape(c.Out[0].Shape, c.Dims(2))
		if !ok || !op.Fits(to, c.Out[0].Shape) {
			c.Fail("input 2 has shape %v, which does not broadcast to %v", c.Dims(2), c.Out[0].Shape)
		}
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x, y := in[0], in[1]
		if turnA {
			x = op.Permuted(x, []int{1, 0})
		}
		if turnB {
			y = op.Permuted(y, []int{1, 0})
		}
		out := op.Mapped(func(v float64) float64 { return alpha * v }, multiplyMatrices(x.Floats(), y.Floats(), a[0], a[1], b[1]))
		if c.Has(2) {
			for i, v := range op.Expanded(in[2], c.Out[0].Shape).Floats() {
				out[i] += beta * v
			}
		}
		return op.One(c.Floats(0, out))
	}
}

// einsum multiplies all inputs, broadcast over all letters, and sums over those that the output has not.
func einsum(c *op.Call) {
	equation, _ := op.Attribute[string](c, "equation")
	terms, result := parseEquation(c, equation)
	size := map[rune]int{}
	for i, term := range terms {
		c.Same(i)
		for k, letter := range term {
			d := c.Dims(i)[k]
			if before, ok := size[letter]; !ok || before == 1 || before < 0 {
				size[letter] = d
			} else if d >= 0 && d != 1 && d != before {
				c.Fail("dimension %s is %d and %d in equation %q", string(letter), before, d, equation)
			}
		}
	}
	letters := slices.Clone(result)
	for _, term := range terms {
		for _, letter := range term {
			if !slices.Contains(letters, letter) {
				letters = append(letters, letter)
			}
		}
	}
	all := make([]int, len(letters))
	for i, letter := range letters {
		all[i] = size[letter]
	}
	c.Shaped(0, all[:len(result)]...)
	c.CheckShape("product", all)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		var views []*graph.Tensor
		for i, t := range in {
			stride := make([]int, len(letters))
			for k, s := range op.Strides(t.Shape) {
				if t.Shape[k] != 1 {
					stride[slices.Index(letters, terms[i][k])] += s // a letter twice is a diagonal
				}
			}
			views = append(views, op.Gathered(t, all, stride, 0))
		}
		as := engine.FP64
		if !graph.Floating(in[0].Type) {
			as = engine.Int64
		}
		for i, v := range views {
			views[i] = op.Retyped(v, as)
		}
		t := op.Combined(as, all, views, elementwise.Times[float64], elementwise.Times[int64], nil)
		return op.One(op.Retyped(sumTrailing(t, len(result)), in[0].Type))
	}
}

// sumTrailing is t without its dimensions from keep on.
func sumTrailing(t *graph.Tensor, keep int) *graph.Tensor {
	n := op.Product(t.Shape[keep:])
	if graph.Floating(t.Type) {
		return graph.FromFloats(t.Type, t.Shape[:keep], sumRuns(t.Floats(), n, op.Product(t.Shape[:keep])))
	}
	return graph.FromInts(t.Type, t.Shape[:keep], sumRuns(t.Ints(), n, op.Product(t.Shape[:keep])))
}

// sumRuns are those of m runs of n elements.
func sumRuns[T op.Number](x []T, n, m int) []T {
	out := make([]T, m)
	for i := range out {
		for _, v := range x[i*n : (i+1)*n] {
			out[i] += v
		}
	}
	return out
}

// parseEquation is the letters of each input's dimensions, and of the result. Those of an ellipsis are the numbers from
// 0 on, counted from its end.
func parseEquation(c *op.Call, s string) (terms [][]rune, result []rune) {
	left, right, explicit := strings.Cut(strings.ReplaceAll(s, " ", ""), "->")
	parts := strings.Split(left, ",")
	if len(parts) != len(c.In) {
		c.Fail("invalid equation %q: got %d inputs", s, len(c.In))
	}
	var most int
	count := map[rune]int{}
	for i, part := range parts {
		rank := len(c.Dims(i))
		term, dots := parseTerm(c, part, rank, s)
		if len(term) != rank {
			c.Fail("invalid equation %q: input %d has %d dimensions", s, i, rank)
		}
		for _, letter := range term {
			count[letter]++
		}
		most = max(most, dots)
		terms = append(terms, term)
	}
	if !explicit {
		for letter := rune(most - 1); letter >= 0; letter-- {
			result = append(result, letter)
		}
		for letter := 'A'; letter <= 'z'; letter++ {
			if count[letter] == 1 {
				result = append(result, letter)
			}
		}
		return terms, result
	}
	if result, _ = parseTerm(c, right, len(strings.ReplaceAll(right, "...", ""))+most, s); slices.ContainsFunc(result, func(l rune) bool { return count[l] == 0 }) {
		c.Fail("invalid equation %q: the result has letters that no input has", s)
	}
	for i, letter := range result {
		if slices.Contains(result[:i], letter) {
			c.Fail("invalid equation %q: the result has a letter twice", s)
		}
	}
	return terms, result
}

// parseTerm is the letters of a part of an equation, for a tensor of this rank, and how many the ellipsis stands for.
func parseTerm(c *op.Call, part string, rank int, equation string) (term []rune, dots int) {
	before, after, ok := strings.Cut(part, "...")
	if ok {
		dots = max(rank-len(before)-len(after), 0)
	}
	term = []rune(before)
	for i := dots - 1; i >= 0; i-- {
		term = append(term, rune(i))
	}
	for i, letter := range append(term, []rune(after)...) {
		if (letter < 'A' || letter > 'z' || letter > 'Z' && letter < 'a') && (i < len(before) || i >= len(before)+dots) {
			c.Fail("invalid equation %q: want letters", equation)
		}
	}
	return append(term, []rune(after)...), dots
}
