package fuse

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/ir"
	"github.com/prefillonly/prefillonly/engine/dnn/lower/program"
	"github.com/prefillonly/prefillonly/engine/dnn/lower/slope"
	"github.com/prefillonly/prefillonly/kernels"
)

// slopes lets convolutions that an activation and its gradient read compute the activation and its slope: the sum
// itself is not kept then, and the gradient is a product.
func slopes(n *ir.Net) {
	at := places(n)
	for _, op := range n.Ops {
		if conv, ok := op.Kind.(*ir.Conv); ok && conv.Then == nil && len(op.Out) > 0 {
			slopeOf(at, op.Out[0])
		}
	}
	n.Relink()
}

// slopeOf is that of the two operations that read a convolution's sum, if they are an activation and its gradient.
func slopeOf(at map[*ir.Op]int, sum *ir.Value) {
	if sum.Kept || len(sum.Users) != 2 {
		return
	}
	first, second := sum.Users[0], sum.Users[1]
	activation, ok := first.Kind.(*ir.Element)
	gradient, also := second.Kind.(*ir.Element)
	if !ok || !also || !slices.Equal(first.Out[0].Shape, sum.Shape) || !slices.Equal(second.Out[0].Shape, sum.Shape) {
		return
	}
	var given []int
	for i, v := range second.In {
		if v == sum || v.Const != nil {
			given = append(given, i)
		}
	}
	factor, ok := slope.Of(gradient.Program, given...)
	if !ok {
		return
	}
	both, in := together(activation.Program, first.In, factor, second.In, given)
	if both.Operands > MaxOperands || len(both.Code) > maxCode {
		return
	}
	by := &ir.Value{Name: sum.Name + " slope", Type: sum.Type, Shape: sum.Shape, From: first}
	first.Kind, first.In, first.Out = &ir.Element{Program: both}, in, append(first.Out, by)
	sum.Users = []*ir.Op{first}
	second.Kind, second.In = product(second.In, given, by)
	absorb(at, first, first.Kind.(*ir.Element))
}

// together is a program with another one, of which it reads the given operands, as a further result.
func together(p *kernels.Program, in []*ir.Value, more *kernels.Program, moreIn []*ir.Value, given []int) (*kernels.Program, []*ir.Value) {
	all := slices.Clone(in)
	for _, i := range given {
		if !slices.Contains(all, moreIn[i]) {
			all = append(all, moreIn[i])
		}
	}
	c := program.New(len(all))
	also := last(c.Splice(more, func(i int) int { return max(0, slices.Index(all, moreIn[i])) }))
	both := c.Finish(last(c.Splice(p, func(i int) int { return slices.Index(all, in[i]) })))
	both.Also = []int{also}
	return both, all
}

// product is the sum of operands but those given times a value.
func product(in []*ir.Value, given []int, by *ir.Value) (*ir.Element, []*ir.Value) {
	var terms []*ir.Value
	for i, v := range in {
		if !slices.Contains(given, i) {
			terms = append(terms, v)
		}
	}
	c := program.New(len(terms) + 1)
	sum := 0
	for i := range terms[1:] {
		sum = c.Op(kernels.Add, sum, i+1)
	}
	return &ir.Element{Program: c.Finish(c.Op(kernels.Mul, sum, len(terms)))}, append(terms, by)
}

func last(registers []int) int { return registers[len(registers)-1] }
