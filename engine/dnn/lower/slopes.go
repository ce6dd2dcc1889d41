package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// fuseSlopes lets convolutions that an activation and its gradient read, or what adds a bias to them, compute the activation and
// its slope: the sum itself is not kept then, and the gradient is a product.
func fuseSlopes(n *Net) {
	at := opPositions(n)
	for _, op := range n.Ops {
		if len(op.Out) != 1 {
			continue
		}
		switch kind := op.Kind.(type) {
		case *Conv:
			if kind.Then == nil {
				slopeOf(at, op.Out[0], 0, 0)
			}
		case *Element:
			isConvolved := func(v *Value) bool { return isPlainConvolution(v, op) }
			if slices.ContainsFunc(op.In, isConvolved) && slopeOf(at, op.Out[0], len(op.In), len(kind.Program.Code)) {
				fuseInto(op, kind)
			}
		}
	}
	n.Relink()
}

// slopeOf is that of the two operations that read a sum, if they are an activation and its gradient, which have room for so many
// operands and instructions beside. It reports whether the sum is read by one then.
func slopeOf(at map[*Op]int, sum *Value, operands, instructions int) bool {
	if sum.Kept || len(sum.Users) != 2 {
		return false
	}
	first, second := sum.Users[0], sum.Users[1]
	activation, ok := first.Kind.(*Element)
	gradient, also := second.Kind.(*Element)
	if !ok || !also || len(first.Out) > 1 || !slices.Equal(first.Out[0].Shape, sum.Shape) || !slices.Equal(second.Out[0].Shape, sum.Shape) {
		return false
	}
	var given []int
	for i, v := range second.In {
		if v == sum || v.Const != nil {
			given = append(given, i)
		}
	}
	factor, ok := factorOf(gradient.Program, given...)
	if !ok {
		return false
	}
	both, in := joinPrograms(activation.Program, first.In, factor, second.In, given)
	if both.Operands+operands > maxOperands || len(both.Code)+instructions > maxCode {
		return false
	}
	by := &Value{Name: sum.Name + " slope", Type: sum.Type, Shape: sum.Shape, From: first}
	first.Kind, first.In, first.Out = &Element{Program: both}, in, append(first.Out, by)
	sum.Users = []*Op{first}
	second.Kind, second.In = sumTimesValue(second.In, given, by)
	absorbElement(at, first, first.Kind.(*Element))
	return true
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
