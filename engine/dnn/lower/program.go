package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// code writes a program.
type code struct{ kernels.Program }

// op adds an instruction and returns its register.
func (c *code) op(o kernels.ElementOp, registers ...int) int {
	in := kernels.Instruction{Op: o}
	for i, at := range []*int{&in.A, &in.B, &in.C}[:len(registers)] {
		*at = registers[i]
	}
	c.Code = append(c.Code, in)
	return c.Operands + len(c.Code) - 1
}

// constant returns the register of a number.
func (c *code) constant(x float64) int {
	f := float32(x)
	for i, in := range c.Code {
		if in.Op == kernels.Constant && in.X == f && f != 0 { // which of the zeros is not told apart by ==
			return c.Operands + i
		}
	}
	c.Code = append(c.Code, kernels.Instruction{Op: kernels.Constant, X: f})
	return c.Operands + len(c.Code) - 1
}

// finish makes register r the program's result.
func (c *code) finish(r int) *kernels.Program {
	if len(c.Code) == 0 || r != c.Operands+len(c.Code)-1 {
		c.op(kernels.Copy, r)
	}
	return &c.Program
}

// inlined is outer with operand at computed by inner: its operands are those of outer but that one, and of inner,
// each value once.
func inlined(outer *kernels.Program, outerIn []*Value, at *Value, inner *kernels.Program, innerIn []*Value) (*kernels.Program, []*Value) {
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
	c := &code{kernels.Program{Operands: len(in)}}
	result := last(c.splice(inner, func(i int) int { return place(innerIn[i]) }))
	return c.finish(last(c.splice(outer, func(i int) int {
		if outerIn[i] == at {
			return result
		}
		return place(outerIn[i])
	}))), in
}

// splice adds a program whose operand i is in register operand(i), and returns where its registers are now, that of its
// result last. A copy is the register that it copies.
func (c *code) splice(p *kernels.Program, operand func(int) int) []int {
	registers := make([]int, 0, p.Operands+len(p.Code))
	for i := range p.Operands {
		registers = append(registers, operand(i))
	}
	for _, in := range p.Code {
		switch in.Op {
		case kernels.Constant:
			registers = append(registers, c.constant(float64(in.X)))
		case kernels.Copy:
			registers = append(registers, registers[in.A])
		default:
			args := make([]int, in.Op.Args())
			for i, r := range []int{in.A, in.B, in.C}[:in.Op.Args()] {
				args[i] = registers[r]
			}
			registers = append(registers, c.same(in.Op, args))
		}
	}
	return registers
}

// same is the register of an instruction, which may be there already.
func (c *code) same(o kernels.ElementOp, args []int) int {
	for i, in := range c.Code {
		if in.Op == o && slices.Equal([]int{in.A, in.B, in.C}[:o.Args()], args) {
			return c.Operands + i
		}
	}
	return c.op(o, args...)
}
