package networktest

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// specials are numbers at the edges of float32 and of functions.
var specials = func() []float32 {
	tiny, largest := math.Float32frombits(1), float32(math.MaxFloat32)
	v := []float32{0, tiny, 0x1p-140, 0x1p-126, 0x1p-30, 0x1p-13, 0.1, 0.25, 0.49999997, 0.5, 0.50000006, 0.75, 0.99999994, 1, 1.0000001, 1.5, 2, 2.5, 3,
		3.1415927, 3.5, 4, 7.9, 9.1, 17, 40, 80, 87.3, 88.72283, 88.72284, 89, 103.9, 104, 1000, 8388607.5, 8388608, 16777216, 1e10, 1e20, 0x1p100, largest, float32(math.Inf(1))}
	for _, x := range v[:len(v):len(v)] {
		v = append(v, -x)
	}
	return append(v, float32(math.NaN()))
}()

// exact operations are rounded as IEEE 754 says; those not here are off by a few units in the last place.
var exact = map[kernels.ElementOp]func(a, b, c float32) float32{
	kernels.Copy:      func(a, _, _ float32) float32 { return a },
	kernels.Add:       func(a, b, _ float32) float32 { return a + b },
	kernels.Sub:       func(a, b, _ float32) float32 { return a - b },
	kernels.Mul:       func(a, b, _ float32) float32 { return a * b },
	kernels.Div:       func(a, b, _ float32) float32 { return a / b },
	kernels.Min:       func(a, b, _ float32) float32 { return min(a, b) },
	kernels.Max:       func(a, b, _ float32) float32 { return max(a, b) },
	kernels.Less:      func(a, b, _ float32) float32 { return truth(a < b) },
	kernels.LessEqual: func(a, b, _ float32) float32 { return truth(a <= b) },
	kernels.Equal:     func(a, b, _ float32) float32 { return truth(a == b) },
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
}

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

func truth(is bool) float32 {
	if is {
		return 1
	}
	return 0
}

// near says whether got is what the operation makes of its operands, and what that would be.
func near(op kernels.ElementOp, got, a, b, c float32) (ok bool, want float32) {
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

// testElements computes each operation over special values, and over many in the range in which it is neither
// 0 nor constant.
func (s suite) testElements(t *testing.T) {
	for op := kernels.Copy; op <= kernels.Round; op++ {
		t.Run(op.String(), func(t *testing.T) {
			d := newDevice(t, s.open)
			operands := d.edges(op)
			for range 3 {
				for i := range operands {
					operands[i] = append(operands[i], d.spread(30000)...)
				}
			}
			d.compareElements(op, operands)
		})
	}
}

// edges are all tuples of special values.
func (d *device) edges(op kernels.ElementOp) [][]float32 {
	operands := make([][]float32, op.Args())
	n := len(specials)
	total := n
	if op.Args() > 1 {
		total *= n
	}
	for i := range total {
		for j, v := range []int{i % n, i / n, i * 7 % n}[:op.Args()] {
			operands[j] = append(operands[j], specials[v])
		}
	}
	return operands
}

// spread draws numbers of all sizes, most of them near 1.
func (d *device) spread(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		switch d.upTo(3) {
		case 0:
			v[i] = float32(d.random.NormFloat64())
		case 1:
			v[i] = float32(d.random.NormFloat64() * 30)
		case 2:
			v[i] = float32(d.upTo(40) - 20)
		case 3:
			v[i] = float32(math.Ldexp(d.random.NormFloat64(), d.upTo(40)-30))
		}
	}
	return v
}

func (d *device) compareElements(op kernels.ElementOp, operands [][]float32) {
	d.t.Helper()
	n := len(operands[0])
	p := &kernels.Program{Operands: len(operands), Code: []kernels.Instruction{{Op: op, A: 0, B: min(1, len(operands)-1), C: len(operands) - 1}}}
	var in []kernels.Tensor
	for _, v := range operands {
		a := newArray(n)
		for i, x := range v {
			a.v[i] = float64(x)
		}
		in = append(in, d.put(d.view(a.shape, []int{1}), a))
	}
	dst := d.view([]int{n}, []int{1})
	d.Map(dst, p, in...)
	got := d.got(op.String(), dst)
	failures := 0
	for i := range n {
		args := [3]float32{}
		for j := range operands {
			args[j] = operands[j][i]
		}
		if ok, want := near(op, float32(got.v[i]), args[0], args[1], args[2]); !ok {
			d.t.Errorf("%v of %v is %v, want %v", op, args[:len(operands)], float32(got.v[i]), want)
			if failures++; failures > 9 {
				return
			}
		}
	}
}
