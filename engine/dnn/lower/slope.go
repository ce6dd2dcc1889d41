package lower

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// factorOf tells programs that multiply sums of operands by what does not depend on them, as gradients of element-wise operations do:
// that factor can be computed when the other operands are, which is earlier. It is the factor by which p multiplies the sum of all its
// operands but those given, as a program of p's operands that reads the given ones only. ok is false where p does anything else with
// them, or has none.
func factorOf(p *kernels.Program, given ...int) (factor *kernels.Program, ok bool) {
	if !isLinear(p, given) {
		return nil, false
	}
	for i := range p.Operands {
		if slices.Contains(given, i) {
			continue
		}
		by := withOne(p, given, i)
		if factor != nil && !slices.Equal(factor.Code, by.Code) {
			return nil, false
		}
		factor = by
	}
	return factor, factor != nil
}

// isLinear says whether p is a sum of products with one of the operands that are not given, and of nothing else.
func isLinear(p *kernels.Program, given []int) bool {
	depends := make([]bool, p.Operands, p.Operands+len(p.Code))
	for i := range depends {
		depends[i] = !slices.Contains(given, i)
	}
	zero := func(r int) bool { // +0, which any factor leaves
		return r >= p.Operands && p.Code[r-p.Operands].Op == kernels.Constant && math.Float32bits(p.Code[r-p.Operands].X) == 0
	}
	for _, in := range p.Code {
		a, b, c := false, false, false
		switch in.Op.Args() {
		case 3:
			c = depends[in.C]
			fallthrough
		case 2:
			b = depends[in.B]
			fallthrough
		case 1:
			a = depends[in.A]
		}
		if !a && !b && !c {
			depends = append(depends, false)
			continue
		}
		fits := false
		switch in.Op {
		case kernels.Copy, kernels.Neg:
			fits = true
		case kernels.Add, kernels.Sub:
			fits = a && b
		case kernels.Mul:
			fits = a != b
		case kernels.Div:
			fits = !b
		case kernels.Select:
			fits = !a && (b || zero(in.B)) && (c || zero(in.C))
		}
		if !fits {
			return false
		}
		depends = append(depends, true)
	}
	return depends[len(depends)-1]
}

// programWriter writes a program without what is plain from its constants.
type programWriter struct {
	kernels.Program
	value []float32 // of registers that are constant, else NaN
}

// withOne is p where one operand is 1 and the others that are not given are 0.
func withOne(p *kernels.Program, given []int, one int) *kernels.Program {
	w := &programWriter{Program: kernels.Program{Operands: p.Operands}}
	for range p.Operands {
		w.value = append(w.value, float32(math.NaN()))
	}
	registers := make([]int, 0, p.Operands+len(p.Code))
	numbers := [2]int{w.constant(0), w.constant(1)} // in one order, whichever operand is 1
	for i := range p.Operands {
		switch {
		case slices.Contains(given, i):
			registers = append(registers, i)
		case i == one:
			registers = append(registers, numbers[1])
		default:
			registers = append(registers, numbers[0])
		}
	}
	for _, in := range p.Code {
		for _, r := range []*int{&in.A, &in.B, &in.C}[:in.Op.Args()] {
			*r = registers[*r]
		}
		registers = append(registers, w.addInstruction(in))
	}
	return pruneProgram(&w.Program, registers[len(registers)-1])
}

func (w *programWriter) constant(x float32) int {
	return w.addInstruction(kernels.Instruction{Op: kernels.Constant, X: x})
}

// addInstruction returns the register of an instruction's result, which may be there already.
func (w *programWriter) addInstruction(in kernels.Instruction) int {
	if r, ok := w.copiedRegister(in); ok {
		return r
	}
	if i := slices.Index(w.Code, in); i >= 0 {
		return w.Operands + i
	}
	value := float32(math.NaN())
	if in.Op == kernels.Constant {
		value = in.X
	}
	w.Code, w.value = append(w.Code, in), append(w.value, value)
	return w.Operands + len(w.Code) - 1
}

// copiedRegister is the register that an instruction only copies, or a constant.
func (w *programWriter) copiedRegister(in kernels.Instruction) (int, bool) {
	is := func(r int, x float32) bool { return w.value[r] == x }
	switch in.Op {
	case kernels.Copy:
		return in.A, true
	case kernels.Add:
		if is(in.A, 0) {
			return in.B, true
		}
		return in.A, is(in.B, 0)
	case kernels.Sub:
		return in.A, is(in.B, 0)
	case kernels.Mul:
		if is(in.B, 1) || is(in.A, 0) {
			return in.A, true
		}
		return in.B, is(in.A, 1) || is(in.B, 0)
	case kernels.Div:
		return in.A, is(in.A, 0) || is(in.B, 1)
	case kernels.Neg:
		return in.A, is(in.A, 0)
	case kernels.Select:
		return in.B, in.B == in.C
	}
	return 0, false
}

// pruneProgram is p up to a register, without what that does not read.
func pruneProgram(p *kernels.Program, result int) *kernels.Program {
	reads := make([]bool, p.Operands+len(p.Code))
	reads[result] = true
	for i, in := range slices.Backward(p.Code) {
		if reads[p.Operands+i] {
			for _, r := range []int{in.A, in.B, in.C}[:in.Op.Args()] {
				reads[r] = true
			}
		}
	}
	q, at := &kernels.Program{Operands: p.Operands}, make([]int, len(reads))
	for i := range p.Operands {
		at[i] = i
	}
	for i, in := range p.Code {
		if !reads[p.Operands+i] {
			continue
		}
		for _, r := range []*int{&in.A, &in.B, &in.C}[:in.Op.Args()] {
			*r = at[*r]
		}
		q.Code = append(q.Code, in)
		at[p.Operands+i] = p.Operands + len(q.Code) - 1
	}
	if result < p.Operands {
		q.Code = append(q.Code, kernels.Instruction{Op: kernels.Copy, A: result})
	}
	return q
}
