package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// programBuilder writes a program. Its registers are those of the operands, and then one of each instruction.
type programBuilder struct{ program kernels.Program }

// newProgram returns a builder of a program with so many operands.
func newProgram(operands int) *programBuilder {
	return &programBuilder{kernels.Program{Operands: operands}}
}

// Op adds an instruction and returns its register.
func (b *programBuilder) Op(o kernels.ElementOp, registers ...int) int {
	in := kernels.Instruction{Op: o}
	for i, at := range []*int{&in.A, &in.B, &in.C}[:len(registers)] {
		*at = registers[i]
	}
	b.program.Code = append(b.program.Code, in)
	return b.program.Operands + len(b.program.Code) - 1
}

// Constant returns the register of a number.
func (b *programBuilder) Constant(x float64) int {
	f := float32(x)
	for i, in := range b.program.Code {
		if in.Op == kernels.Constant && in.X == f && f != 0 { // which of the zeros is not told apart by ==
			return b.program.Operands + i
		}
	}
	b.program.Code = append(b.program.Code, kernels.Instruction{Op: kernels.Constant, X: f})
	return b.program.Operands + len(b.program.Code) - 1
}

// Finish makes register r the program's result.
func (b *programBuilder) Finish(r int) *kernels.Program {
	if len(b.program.Code) == 0 || r != b.program.Operands+len(b.program.Code)-1 {
		b.Op(kernels.Copy, r)
	}
	return &b.program
}

// Splice adds a program whose operand i is in register operand(i), and returns where its registers are now, that of its
// result last. A copy is the register that it copies.
func (b *programBuilder) Splice(p *kernels.Program, operand func(int) int) []int {
	registers := make([]int, 0, p.Operands+len(p.Code))
	for i := range p.Operands {
		registers = append(registers, operand(i))
	}
	for _, in := range p.Code {
		switch in.Op {
		case kernels.Constant:
			registers = append(registers, b.Constant(float64(in.X)))
		case kernels.Copy:
			registers = append(registers, registers[in.A])
		default:
			args := make([]int, in.Op.Args())
			for i, r := range []int{in.A, in.B, in.C}[:in.Op.Args()] {
				args[i] = registers[r]
			}
			registers = append(registers, b.same(in.Op, args))
		}
	}
	return registers
}

// same is the register of an instruction, which may be there already.
func (b *programBuilder) same(o kernels.ElementOp, args []int) int {
	for i, in := range b.program.Code {
		if in.Op == o && slices.Equal([]int{in.A, in.B, in.C}[:o.Args()], args) {
			return b.program.Operands + i
		}
	}
	return b.Op(o, args...)
}
