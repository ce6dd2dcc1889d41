package lower

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

type instruction = kernels.Instruction

// TestFactorIsOfGivenOperandsAlone: operand 0 is given, the others are gradients.
func TestFactorIsOfGivenOperandsAlone(t *testing.T) {
	one, zero := instruction{Op: kernels.Constant, X: 1}, instruction{Op: kernels.Constant}
	for name, c := range map[string]struct {
		operands int
		code     []instruction
		factor   []instruction // nil: there is none
	}{
		"a product": {2, []instruction{{Op: kernels.Mul, A: 1, B: 0}}, []instruction{{Op: kernels.Copy}}},
		"SiLU": {
			2, []instruction{one, {Op: kernels.Sigmoid}, {Op: kernels.Sub, A: 2, B: 3}, {Op: kernels.Mul, A: 0, B: 4}, {Op: kernels.Add, A: 2, B: 5}, {Op: kernels.Mul, A: 6, B: 3}, {Op: kernels.Mul, A: 1, B: 7}},
			[]instruction{one, {Op: kernels.Sigmoid}, {Op: kernels.Sub, A: 1, B: 2}, {Op: kernels.Mul, A: 0, B: 3}, {Op: kernels.Add, A: 1, B: 4}, {Op: kernels.Mul, A: 5, B: 2}},
		},
		"ReLU of two gradients": {
			3, []instruction{zero, {Op: kernels.Less, A: 3, B: 0}, {Op: kernels.Add, A: 1, B: 2}, {Op: kernels.Select, A: 4, B: 5, C: 3}},
			[]instruction{zero, {Op: kernels.Less, A: 1, B: 0}, one, {Op: kernels.Select, A: 2, B: 3, C: 1}},
		},
		"unequal gradients":        {3, []instruction{{Op: kernels.Mul, A: 1, B: 0}, {Op: kernels.Add, A: 3, B: 2}}, nil},
		"a sum with what is given": {2, []instruction{{Op: kernels.Add, A: 1, B: 0}}, nil},
		"a square":                 {2, []instruction{{Op: kernels.Mul, A: 1, B: 1}}, nil},
		"a bound":                  {2, []instruction{{Op: kernels.Max, A: 1, B: 0}}, nil},
		"a quotient by it":         {2, []instruction{{Op: kernels.Div, A: 0, B: 1}}, nil},
		"what is given alone":      {2, []instruction{{Op: kernels.Exp}}, nil},
	} {
		p := &kernels.Program{Operands: c.operands, Code: c.code}
		factor, ok := factorOf(p, 0)
		if ok != (c.factor != nil) {
			t.Errorf("%s: %v, %t", name, factor, ok)
			continue
		}
		if !ok {
			continue
		}
		if len(factor.Code) != len(c.factor) {
			t.Errorf("%s: the factor %v, not one of %d instructions", name, factor.Code, len(c.factor))
		}
		for range 100 {
			operands := make([]float64, c.operands)
			sum := 0.0
			for i := range operands {
				if operands[i] = rand.NormFloat64(); i > 0 {
					sum += operands[i]
				}
			}
			got, want := evaluate(factor, operands)*sum, evaluate(p, operands)
			if math.Abs(got-want) > 1e-12 {
				t.Fatalf("%s: %v times the gradients, not %v", name, got, want)
			}
		}
	}
}

// evaluate computes the operations of this test.
func evaluate(p *kernels.Program, operands []float64) float64 {
	r := slices.Clone(operands)
	for _, in := range p.Code {
		v := 0.0
		switch in.Op {
		case kernels.Constant:
			v = float64(in.X)
		case kernels.Copy:
			v = r[in.A]
		case kernels.Add:
			v = r[in.A] + r[in.B]
		case kernels.Sub:
			v = r[in.A] - r[in.B]
		case kernels.Mul:
			v = r[in.A] * r[in.B]
		case kernels.Sigmoid:
			v = 1 / (1 + math.Exp(-r[in.A]))
		case kernels.Less:
			if r[in.A] < r[in.B] {
				v = 1
			}
		case kernels.Select:
			if v = r[in.C]; r[in.A] != 0 {
				v = r[in.B]
			}
		}
		r = append(r, v)
	}
	return r[len(r)-1]
}
