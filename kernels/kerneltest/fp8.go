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
	s := fp8Suite{suite{open: open, tol: tol}, quantised}
	t.Run("Linears", s.testLinears)
	t.Run("MLP", s.testMLP)
	t.Run("Rows", func(t *testing.T) { s.rowsOfLinears(t, fp8Ops) })
	t.Run("Extremes", s.testExtremes)
}

var fp8Ops = opsShape{kernels.F8E4M3, 80, 160, []int{96, 16, 16}}

type fp8Suite struct {
	suite
	quantised bool
}

// e4m3 is the value nearest to x, the even code of two, at most 448 away from zero.
func e4m3(x float64) (value float64, code byte) {
	magnitude, sign := math.Abs(x), byte(0)
	if math.Signbit(x) {
		sign = 0x80
	}
	_, exp := math.Frexp(magnitude) // magnitude in [2^(exp-1), 2^exp)
	exp = max(exp, -5)              // below 2^-6 numbers are as far apart as above it
	unit := math.Ldexp(1, exp-4)
	steps := math.RoundToEven(magnitude / unit)
	if steps*unit > 448 {
		steps, exp, unit = 14, 9, 32
	}
	if steps == 16 {
		steps, exp, unit = 8, exp+1, 2*unit
	}
	code = byte(steps)
	if steps >= 8 {
		code = byte(exp+6)<<3 | byte(steps)&7
	}
	return math.Copysign(steps*unit, x), sign | code
}

// fp8Weight quantises the rows of m.
func fp8Weight(name string, m matrix) weight {
	w := weight{kernels.HostTensor{Name: name, Type: kernels.F8E4M3, Rows: m.rows, Cols: m.cols}, m}
	for i := range m.rows {
		scale := float64(float32(largest(m.row(i)) / 448))
		for j, v := range m.row(i) {
			value, code := e4m3(v / scale)
			m.row(i)[j] = value * scale
			w.tensor.Data = append(w.tensor.Data, code)
		}
		w.tensor.Scale = append(w.tensor.Scale, float32(scale))
	}
	return w
}

func largest(row []float64) float64 {
	top := 0.0
	for _, v := range row {
		top = max(top, math.Abs(v))
	}
	return top
}

// operand is what a product takes for m: rounded to ActType, and quantised if the backend does so. The
// format's own quotient is of float32 numbers, which decides ties.
func (s fp8Suite) operand(d *device, m matrix) matrix {
	out := matrix{m.rows, m.cols, rounded(d.ActType(), m.v)}
	if !s.quantised {
		return out
	}
	for i := range out.rows {
		scale := float32(largest(out.row(i))) / 448
		for j, v := range out.row(i) {
			if scale > 0 {
				out.row(i)[j], _ = e4m3(float64(float32(v) / scale))
				out.row(i)[j] *= float64(scale)
			}
		}
	}
	return out
}

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
			d := newDevice(t, s.open)
			l, w, bias := d.linear(c.typ, c.in, c.bias, c.out...)
			norm, normValues := d.normWeight(c.in)
			values := rounded(kernels.F32, d.normal(c.rows*c.in, 3))
			x, dst := d.mat(kernels.F32, c.rows, c.in, values), d.mat(d.ActType(), c.rows, l.Out(), nil)
			d.NormLinear(dst, x, norm, normEps, l)
			in := s.operand(d, matrix{c.rows, c.in, values}.normed(normValues, normEps))
			d.check("NormLinear", s.tol, d.values(dst), in.timesTransposed(w, bias).v)

			l, w, bias = d.outputLinear(c.typ, c.in, c.bias, c.out...)
			src := rounded(d.ActType(), d.normal(c.rows*c.in, 1))
			before := rounded(kernels.F32, d.normal(c.rows*l.Out(), 2))
			x = d.mat(kernels.F32, c.rows, l.Out(), before)
			d.AddLinear(x, d.mat(d.ActType(), c.rows, c.in, src), l)
			in = s.operand(d, matrix{c.rows, c.in, src})
			d.check("AddLinear", s.tol, minus(d.values(x), before), in.timesTransposed(w, bias).v)
		})
	}
}

func (s fp8Suite) testMLP(t *testing.T) {
	for _, c := range []mlpCase{
		{1, 48, 80, kernels.F8E4M3}, {17, 96, 304, kernels.F8E4M3}, {300, 128, 256, kernels.F8E4M3},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d", c.rows, c.hidden, c.inter), func(t *testing.T) {
			d := newDevice(t, s.open)
			gate, up := d.weight("gate", c.typ, c.inter, c.hidden, 0.1), d.weight("up", c.typ, c.inter, c.hidden, 0.1)
			gated, err := d.NewGatedLinear(gate.tensor, up.tensor)
			if err != nil {
				t.Fatal(err)
			}
			defer gated.Free()
			down, w, _ := d.outputLinear(c.typ, c.inter, false, c.hidden)
			norm, normValues := d.normWeight(c.hidden)
			before := rounded(kernels.F32, d.normal(c.rows*c.hidden, 2))
			x := d.mat(kernels.F32, c.rows, c.hidden, before)
			d.MLP(x, norm, normEps, gated, down)
			in := s.operand(d, matrix{c.rows, c.hidden, before}.normed(normValues, normEps))
			g, u := in.timesTransposed(gate.matrix, nil), in.timesTransposed(up.matrix, nil)
			if s.quantised { // the product then begins from what memory holds of it
				g.v, u.v = rounded(d.ActType(), g.v), rounded(d.ActType(), u.v)
			}
			for i := range g.v {
				g.v[i] = silu(g.v[i]) * u.v[i]
			}
			d.check("added", s.tol, minus(d.values(x), before), s.operand(d, g).timesTransposed(w, nil).v)
		})
	}
}

// testExtremes covers every code, scales far apart, and rows of zeros, tiny and large values.
func (s fp8Suite) testExtremes(t *testing.T) {
	d := newDevice(t, s.open)
	const in, out = 256, 32
	w := kernels.HostTensor{Name: "all codes", Type: kernels.F8E4M3, Rows: out, Cols: in}
	m := matrix{out, in, nil}
	for i := range out {
		w.Scale = append(w.Scale, float32(math.Ldexp(1, i-24)))
		for code := range in {
			if code&0x7f == 0x7f {
				code-- // NaN
			}
			w.Data = append(w.Data, byte(code))
			m.v = append(m.v, fromE4M3(byte(code))*float64(w.Scale[i]))
		}
	}
	l, err := kernels.NewOutputLinear(d.Backend, []kernels.HostTensor{w}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	for _, factor := range []float64{0, 1e-9, 1, 1e4} {
		values := d.normal(2*in, factor)
		clear(values[in:])
		values = rounded(d.ActType(), values)
		x := d.mat(kernels.F32, 2, out, make([]float64, 2*out))
		d.AddLinear(x, d.mat(d.ActType(), 2, in, values), l)
		want := s.operand(d, matrix{2, in, values}).timesTransposed(m, nil)
		got := d.values(x)
		for j := range out { // which the same codes make alike but for the scales
			got[j], want.v[j] = got[j]/float64(w.Scale[j]), want.v[j]/float64(w.Scale[j])
		}
		d.check(fmt.Sprintf("factor %g", factor), Tolerance{Max: s.tol.Max, RMS: s.tol.Max}, got[:out], want.v[:out])
		if top := largest(got[out:]); top != 0 {
			t.Errorf("factor %g: a row of zeros has %v", factor, top)
		}
	}
}

// fromE4M3 is the value of a code.
func fromE4M3(code byte) float64 {
	exponent, fraction := int(code>>3&15), float64(code&7)/8
	v := math.Ldexp(1+fraction, exponent-7)
	if exponent == 0 {
		v = math.Ldexp(fraction, -6)
	}
	return math.Copysign(v, 1-2*float64(code>>7))
}
