package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// maxOperands is how many operands a program has at the most, and maxCode how many instructions one that was fused.
const (
	maxOperands = 8
	maxCode     = 64
)

// fuse fuses the operations of n, who uses what in it being known.
func fuse(n *Net) {
	foldAffine(n)
	fuseElements(n)
}

// foldAffine makes products and sums with a constant of each channel part of the convolution before them.
func foldAffine(n *Net) {
	for _, op := range n.Ops {
		conv, ok := op.Kind.(*Conv)
		for ok {
			ok = foldInto(op, conv)
		}
	}
	n.Relink()
}

// foldInto folds what follows into conv, if it can be.
func foldInto(op *Op, conv *Conv) bool {
	next := soleUser(op.Out[0])
	if next == nil || !slices.Equal(next.Out[0].Shape, op.Out[0].Shape) {
		return false
	}
	e, ok := next.Kind.(*Element)
	if !ok {
		return false
	}
	scale, shift, ok := affineOf(e.Program, next.In, op.Out[0], conv.Order[len(conv.Order)-1])
	if !ok {
		return false
	}
	f := *conv.Filter
	f.Scale, f.Shift = composeAffine(f.Scale, f.Shift, scale, shift, f.Spec.Out)
	conv.Filter = &f
	op.Nodes = append(op.Nodes, next.Nodes...)
	op.Out[0] = next.Out[0] // the operation after it has nothing that is needed now
	op.Out[0].From = op
	next.In, next.Out = nil, nil
	return true
}

// soleUser is the one operation that reads v, or nil.
func soleUser(v *Value) *Op {
	if v.Kept || len(v.Users) != 1 {
		return nil
	}
	return v.Users[0]
}

// composeAffine is scale * (s * x + t) + shift for each channel.
func composeAffine(s, t, scale, shift []float64, channels int) (a, b []float64) {
	at := func(list []float64, i int, fallback float64) float64 {
		switch len(list) {
		case 0:
			return fallback
		case 1:
			return list[0]
		}
		return list[i]
	}
	for i := range channels {
		factor := at(scale, i, 1)
		a = append(a, at(s, i, 1)*factor)
		b = append(b, at(t, i, 0)*factor+at(shift, i, 0))
	}
	return a, b
}

// affineOf says whether a program is one product or sum of x and numbers for each channel, and of all channels.
func affineOf(p *kernels.Program, in []*Value, x *Value, channel int) (scale, shift []float64, ok bool) {
	last := p.Code[len(p.Code)-1]
	for _, i := range p.Code[:len(p.Code)-1] {
		if i.Op != kernels.Constant {
			return nil, nil, false
		}
	}
	if last.Op.Args() != 2 {
		return nil, nil, false
	}
	side := func(r int) ([]float64, bool) { // what register r is, but for x
		if r >= p.Operands {
			return []float64{float64(p.Code[r-p.Operands].X)}, true
		}
		return perChannel(in[r], x.Shape, channel)
	}
	first := last.A < p.Operands && in[last.A] == x
	other := last.A
	if first {
		other = last.B
	} else if last.B >= p.Operands || in[last.B] != x {
		return nil, nil, false
	}
	c, ok := side(other)
	if !ok {
		return nil, nil, false
	}
	switch {
	case last.Op == kernels.Mul:
		return c, nil, true
	case last.Op == kernels.Add:
		return nil, c, true
	case last.Op == kernels.Sub && first:
		return nil, mapFloats(c, func(x float64) float64 { return -x }), true
	case last.Op == kernels.Sub:
		return []float64{-1}, c, true
	case last.Op == kernels.Div && first:
		return mapFloats(c, func(x float64) float64 { return 1 / x }), nil, true
	}
	return nil, nil, false
}

func mapFloats(list []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = f(x)
	}
	return out
}

// perChannel is the elements of a constant that differ along one dimension of shape at the most.
func perChannel(v *Value, shape []int, channel int) ([]float64, bool) {
	if v.Const == nil {
		return nil, false
	}
	d := len(v.Shape) - len(shape) + channel // the channel's place in v
	for i, size := range v.Shape {
		if size != 1 && (i != d || size != shape[channel]) {
			return nil, false
		}
	}
	return v.Const.Floats(), true
}

// fuseElements makes chains and trees of element-wise operations one, and puts them after convolutions.
func fuseElements(n *Net) {
	for _, op := range slices.Backward(n.Ops) {
		if e, ok := op.Kind.(*Element); ok {
			fuseInto(op, e)
		}
	}
	n.Relink()
	fuseSlopes(n)
	at := opPositions(n)
	for _, op := range n.Ops {
		if e, ok := op.Kind.(*Element); ok {
			absorbElement(at, op, e)
		}
	}
	n.Relink()
}

// fuseInto makes an element-wise operation part of the only one that reads it; or of all that do, if they read what
// it reads anyway: to compute an element again takes less than to keep it, as for the backward pass.
func fuseInto(op *Op, e *Element) {
	v := op.Out[0]
	v.Users = slices.DeleteFunc(v.Users, func(u *Op) bool { return len(u.Out) == 0 })
	if v.Kept || len(v.Users) == 0 {
		return
	}
	fused := make([]*Element, len(v.Users))
	reads := make([][]*Value, len(v.Users))
	for i, user := range v.Users {
		outer, ok := user.Kind.(*Element)
		if !ok || !slices.Equal(user.Out[0].Shape, v.Shape) || len(v.Users) > 1 && !includesAll(user.In, op.In) {
			return
		}
		p, in := inlineProgram(outer.Program, user.In, v, e.Program, op.In)
		if p.Operands > maxOperands || len(p.Code) > maxCode {
			return
		}
		fused[i], reads[i] = &Element{Program: p}, in
	}
	for i, user := range v.Users {
		for _, x := range op.In {
			if !slices.Contains(user.In, x) {
				x.Users = append(x.Users, user)
			}
		}
		user.Kind, user.In, user.Nodes = fused[i], reads[i], append(slices.Clone(op.Nodes), user.Nodes...)
	}
	v.Users, op.In, op.Out = nil, nil, nil
}

// inlineProgram is outer with operand at computed by inner: its operands are those of outer but that one, and of inner,
// each value once.
func inlineProgram(outer *kernels.Program, outerIn []*Value, at *Value, inner *kernels.Program, innerIn []*Value) (*kernels.Program, []*Value) {
	var in []*Value
	place := func(v *Value) int {
		if i := slices.Index(in, v); i >= 0 {
			return i
		}
		in = append(in, v)
		return len(in) - 1
	}
	for _, v := range outerIn {
		if v != at {
			place(v)
		}
	}
	for _, v := range innerIn {
		place(v)
	}
	c := newProgram(len(in))
	result := lastRegister(c.Splice(inner, func(i int) int { return place(innerIn[i]) }))
	registers := c.Splice(outer, func(i int) int {
		if outerIn[i] == at {
			return result
		}
		return place(outerIn[i])
	})
	p := c.Finish(lastRegister(registers))
	for _, r := range outer.Also {
		p.Also = append(p.Also, registers[r])
	}
	return p, in
}

// includesAll says whether all of some values are among others.
func includesAll(others, some []*Value) bool {
	return !slices.ContainsFunc(some, func(v *Value) bool { return !slices.Contains(others, v) })
}

// opPositions is where each operation is among those of n.
func opPositions(n *Net) map[*Op]int {
	at := make(map[*Op]int, len(n.Ops))
	for i, op := range n.Ops {
		at[op] = i
	}
	return at
}

// absorbElement makes an element-wise operation what is done after a convolution that nothing else reads: the last such one.
func absorbElement(at map[*Op]int, op *Op, e *Element) {
	operand := -1
	for i, v := range op.In {
		if isPlainConvolution(v, op) && (operand < 0 || at[v.From] > at[op.In[operand].From]) {
			operand = i
		}
	}
	if operand < 0 {
		return
	}
	before := op.In[operand].From
	order := []int{operand}
	for i := range op.In {
		if i != operand {
			order = append(order, i)
		}
	}
	c := newProgram(len(op.In))
	then := *before.Kind.(*Conv)
	registers := c.Splice(e.Program, func(i int) int { return slices.Index(order, i) })
	then.Then = c.Finish(lastRegister(registers))
	for _, r := range e.Program.Also {
		then.Then.Also = append(then.Then.Also, registers[r])
	}
	in := slices.Clone(before.In)
	for _, i := range order[1:] {
		in = append(in, op.In[i])
	}
	op.Kind, op.In, op.Nodes = &then, in, append(slices.Clone(before.Nodes), op.Nodes...)
	before.Out, before.In = nil, nil
}

// isPlainConvolution says that v is the result of a convolution without a program, which op alone reads, in its own shape.
func isPlainConvolution(v *Value, op *Op) bool {
	if v.From == nil {
		return false
	}
	conv, ok := v.From.Kind.(*Conv)
	return ok && conv.Then == nil && soleUser(v) == op && slices.Equal(v.Shape, op.Out[0].Shape)
}
