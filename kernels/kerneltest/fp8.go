package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// RunFP8 tests the operations that multiply weights in FP8. quantised says that the backend quantises
// activations with them; it then does so to what it would multiply otherwise, in ActType. Shapes are
// multiples of 16, as GPUs' FP8 products need.
func RunFP8(t *testing.T, open Open, tol Tolerance, quantised bool) {
	s := fp8Suite{suite{open: open, tol: tol, quantised: quantised}}
	t.Run("Linears", s.testLinears)
	t.Run("MLP", s.testMLP)
	t.Run("Rows", func(t *testing.T) { s.rowsOfLinears(t, fp8Ops) })
	t.Run("Extremes", s.testExtremes)
}

var fp8Ops = opsShape{kernels.F8E4M3, 80, 160, []int{96, 16, 16}}

type fp8Suite struct{ suite }

func (s fp8Suite) testLinears(t *testing.T) {
	for _, c := range []linearCase{
		{1, 48, []int{48}, false, kernels.F8E4M3},
		{1, 896, []int{896, 128, 128}, true, kernels.F8E4M3},
		{5, 64, []int{32, 16}, true, kernels.F8E4M3},
		{70, 512, []int{48}, true, kernels.F8E4M3},
		{513, 48, []int{80}, false, kernels.F8E4M3},
		{40, 1104, []int{48}, false, kernels.F8E4M3},
		{300, 1104, []int{480}, true, kernels.F8E4M3},
	} {
		t.Run(c.String(), func(t *testing.T) {
			d := newFixture(t, s.open(t))
			s.compareNormLinear(d, c)
			s.compareAddLinear(d, c)
		})
	}
}

func (s fp8Suite) testMLP(t *testing.T) {
	for _, c := range []mlpCase{
		{1, 48, 80, kernels.F8E4M3, kernels.SiLU}, {17, 96, 304, kernels.F8E4M3, kernels.GELUTanh}, {300, 128, 256, kernels.F8E4M3, kernels.SiLU},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d", c.rows, c.hidden, c.inter), func(t *testing.T) {
			s.compareMLP(newFixture(t, s.open(t)), c, c.typ)
		})
	}
}

// testExtremes covers every code, scales far apart, and rows of zeros, tiny and large values.
func (s fp8Suite) testExtremes(t *testing.T) {
	d := newFixture(t, s.open(t))
	const in, out = 256, 32
	w := kernels.HostTensor{Name: "all codes", Type: kernels.F8E4M3, Rows: out, Cols: in}
	m := NewMatrix(out, in, nil)
	for i := range out {
		w.Scale = append(w.Scale, float32(math.Ldexp(1, i-24)))
		for code := range in {
			if code&0x7f == 0x7f {
				code-- // NaN
			}
			w.Data = append(w.Data, byte(code))
			m.V = append(m.V, FromE4M3(byte(code))*float64(w.Scale[i]))
		}
	}
	l, err := kernels.NewOutputLinear(d.Backend, []kernels.HostTensor{w}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	for _, factor := range []float64{0, 1e-9, 1, 1e4} {
		values := d.Normal(2*in, factor)
		clear(values[in:])
		values = Rounded(d.ActType(), values)
		x := d.Mat(kernels.F32, 2, out, make([]float64, 2*out))
		d.AddLinear(x, d.Mat(d.ActType(), 2, in, values), l)
		want := s.roundOperand(d, kernels.F8E4M3, NewMatrix(2, in, values), 1).TimesTransposed(m, nil)
		got := d.Values(x)
		for j := range out { // which the same codes make alike but for the scales
			got[j], want.V[j] = got[j]/float64(w.Scale[j]), want.V[j]/float64(w.Scale[j])
		}
		checkValues(d.T, fmt.Sprintf("factor %g", factor), Tolerance{Max: s.tol.Max, RMS: s.tol.Max}, got[:out], want.V[:out])
		if top := Largest(got[out:]); top != 0 {
			t.Errorf("factor %g: a row of zeros has %v", factor, top)
		}
	}
}
