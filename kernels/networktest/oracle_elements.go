package networktest

import (
	"math"
	"sort"

	"github.com/prefillonly/prefillonly/kernels"
)

// exact operations are rounded as IEEE 754 says; those not here are off by a few units in the last place.
var exact = map[kernels.ElementOp]func(a, b, c float32) float32{
	kernels.Copy:      func(a, _, _ float32) float32 { return a },
	kernels.Add:       func(a, b, _ float32) float32 { return a + b },
	kernels.Sub:       func(a, b, _ float32) float32 { return a - b },
	kernels.Mul:       func(a, b, _ float32) float32 { return a * b },
	kernels.Div:       func(a, b, _ float32) float32 { return a / b },
	kernels.Min:       func(a, b, _ float32) float32 { return min(a, b) },
	kernels.Max:       func(a, b, _ float32) float32 { return max(a, b) },
	kernels.Less:      func(a, b, _ float32) float32 { return boolToFloat(a < b) },
	kernels.LessEqual: func(a, b, _ float32) float32 { return boolToFloat(a <= b) },
	kernels.Equal:     func(a, b, _ float32) float32 { return boolToFloat(a == b) },
	kernels.Select: func(a, b, c float32) float32 {
		if a == 0 {
			return c
		}
		return b
	},
	kernels.Neg:   func(a, _, _ float32) float32 { return -a },
	kernels.Abs:   func(a, _, _ float32) float32 { return float32(math.Abs(float64(a))) },
	kernels.Sqrt:  func(a, _, _ float32) float32 { return float32(math.Sqrt(float64(a))) },
	kernels.Floor: func(a, _, _ float32) float32 { return float32(math.Floor(float64(a))) },
	kernels.Ceil:  func(a, _, _ float32) float32 { return float32(math.Ceil(float64(a))) },
	kernels.Round: func(a, _, _ float32) float32 { return float32(math.RoundToEven(float64(a))) },
	kernels.Half:  func(a, _, _ float32) float32 { return closestFloat(a, 15, 10) },
	kernels.Brain: func(a, _, _ float32) float32 { return closestFloat(a, 127, 7) },
}

// closestFloat is the closest number to a that has a sign, an exponent of a bias and so many bits of a mantissa, found among all of
// them; of two it is that whose last bit is 0.
func closestFloat(a float32, bias, mantissa int) float32 {
	if a != a {
		return a
	}
	number := func(bits int) float64 {
		exponent, fraction := bits>>mantissa, float64(bits&(1<<mantissa-1))
		if exponent == 0 {
			return math.Ldexp(fraction, 1-bias-mantissa)
		}
		return math.Ldexp(fraction+float64(int(1)<<mantissa), exponent-bias-mantissa)
	}
	x, infinity := math.Abs(float64(a)), (2*bias+1)<<mantissa
	above := sort.Search(infinity, func(bits int) bool { return number(bits) >= x })
	if above > 0 {
		low, high := x-number(above-1), number(above)-x
		if low < high || low == high && above%2 == 1 || math.IsInf(x, 1) && above < infinity {
			above--
		}
	}
	if above >= infinity {
		x = math.Inf(1)
	} else {
		x = number(above)
	}
	return float32(math.Copysign(x, float64(a)))
}

// Exact says that every bit of an operation's result is known.
func Exact(op kernels.ElementOp) bool { return exact[op] != nil }

// functions are the operations that are not exact, and by how many units in the last place they may be off.
var functions = map[kernels.ElementOp]struct {
	f    func(a, b float64) float64
	ulps int64
}{
	kernels.Pow:     {math.Pow, 16},
	kernels.Exp:     {func(a, _ float64) float64 { return math.Exp(a) }, 4},
	kernels.Log:     {func(a, _ float64) float64 { return math.Log(a) }, 4},
	kernels.Sin:     {func(a, _ float64) float64 { return math.Sin(a) }, 4},
	kernels.Cos:     {func(a, _ float64) float64 { return math.Cos(a) }, 4},
	kernels.Tanh:    {func(a, _ float64) float64 { return math.Tanh(a) }, 4},
	kernels.Sigmoid: {func(a, _ float64) float64 { return 1 / (1 + math.Exp(-a)) }, 4},
	kernels.Erf:     {func(a, _ float64) float64 { return math.Erf(a) }, 4},
}

func boolToFloat(is bool) float32 {
	if is {
		return 1
	}
	return 0
}

// Near says whether got is what the operation makes of its operands, and what that would be.
func Near(op kernels.ElementOp, got, a, b, c float32) (ok bool, want float32) {
	if f, is := exact[op]; is {
		want = f(a, b, c)
		if got != got || want != want {
			return got != got && want != want, want
		}
		eitherZero := want == 0 && (op == kernels.Min || op == kernels.Max)
		return got == want && (eitherZero || math.Signbit(float64(got)) == math.Signbit(float64(want))), want
	}
	f := functions[op]
	want = float32(f.f(float64(a), float64(b)))
	if got != got || want != want {
		return got != got && want != want, want
	}
	off := math.Abs(float64(got) - float64(want))
	switch {
	case ulps(got, want) <= f.ulps, off <= 0x1p-126: // what is below the normal range may be 0
		return true, want
	case op == kernels.Sin || op == kernels.Cos: // of which zeros lie between numbers
		return off <= 0x1p-22, want
	}
	return false, want
}

// Evaluate is a program's result; known is false where it may have either of two zeros.
func Evaluate(p *kernels.Program, operands []float32) (result float32, known bool) {
	r, known := append([]float32(nil), operands...), true
	for _, in := range p.Code {
		args := [3]float32{}
		for i, from := range []int{in.A, in.B, in.C}[:in.Op.Args()] {
			args[i] = r[from]
		}
		a, b := args[0], args[1]
		if (in.Op == kernels.Min || in.Op == kernels.Max) && a == b && math.Signbit(float64(a)) != math.Signbit(float64(b)) {
			known = false
		}
		x := in.X
		if f, ok := exact[in.Op]; ok {
			x = f(a, b, args[2])
		} else if f, ok := functions[in.Op]; ok {
			x = float32(f.f(float64(a), float64(b)))
		}
		r = append(r, x)
	}
	return r[len(r)-1], known
}

// ulps is the distance of two float32 numbers, counted in numbers; infinity comes after the largest one.
func ulps(a, b float32) int64 {
	order := func(x float32) int64 {
		bits := int64(math.Float32bits(x) & 0x7fffffff)
		if math.Signbit(float64(x)) {
			return -bits
		}
		return bits
	}
	n := order(a) - order(b)
	return max(n, -n)
}
