package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// fuseSlopes lets convolutions that an activation and its gradient read compute the activation and its slope: the sum
// itself is not kept then, and the gradient is a product.
func fuseSlopes(n *Net) {
	at := opPositions(n)
	for _, op := range n.Ops {
		if conv, ok := op.Kind.(*Conv); ok && conv.Then == nil && len(op.Out) > 0 {
			slopeOf(at, op.Out[0])
		}
	}
	n.Relink()
}

// slopeOf is that of the two operations that read a convolution's sum, if they are an activation and its gradient.
func slopeOf(at map[*Op]int, sum *Value) {
	if sum.Kept || len(sum.Users) != 2 {
		return
	}
	first, second := sum.Users[0], sum.Users[1]
	activation, ok := first.Kind.(*Element)
	gradient, also := second.Kind.(*Element)
	if !ok || !also || !slices.Equal(first.Out[0].Shape, sum.Shape) || !slices.Equal(second.Out[0].Shape, sum.Shape) {
		return
	}
	var given []int
	for i, v := range second.In {
		if v == sum || v.Const != nil {
			given = append(given, i)
		}
	}
	factor, ok := factorOf(gradient.Program, given...)
	if !ok {
		return
	}
	both, in := joinPrograms(activation.Program, first.In, factor, second.In, given)
	if both.Operands > maxOperands || len(both.Code) > maxCode {
		return
	}
	by := &Value{Name: sum.Name + " slope", Type: sum.Type, Shape: sum.Shape, From: first}
	first.Kind, first.In, first.Out = &Element{Program: both}, in, append(first.Out, by)
	sum.Users = []*Op{first}
	second.Kind, second.In = sumTimesValue(second.In, given, by)
	absorbElement(at, first, first.Kind.(*Element))
}

// joinPrograms is a program with another one, of which it reads the given operands, as a further result.
func joinPrograms(p *kernels.Program, in []*Value, more *kernels.Program, moreIn []*Value, given []int) (*kernels.Program, []*Value) {
	all := slices.Clone(in)
	for _, i := range given {
		if !slices.Contains(all, moreIn[i]) {
			all = append(all, moreIn[i])
		}
	}
	c := newProgram(len(all))
	also := lastRegister(c.Splice(more, func(i int) int { return max(0, slices.Index(all, moreIn[i])) }))
	both := c.Finish(lastRegister(c.Splice(p, func(i int) int { return slices.Index(all, in[i]) })))
	both.Also = []int{also}
	return both, all
}

// sumTimesValue is the sum of operands but those given times a value.
func sumTimesValue(in []*Value, given []int, by *Value) (*Element, []*Value) {
	var terms []*Value
	for i, v := range in {
		if !slices.Contains(given, i) {
			terms = append(terms, v)
		}
	}
	c := newProgram(len(terms) + 1)
	sum := 0
	for i := range terms[1:] {
		sum = c.Op(kernels.Add, sum, i+1)
	}
	return &Element{Program: c.Finish(c.Op(kernels.Mul, sum, len(terms)))}, append(terms, by)
}

func lastRegister(registers []int) int { return registers[len(registers)-1] }
