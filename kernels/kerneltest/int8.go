package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// RunInt8 tests the operations that multiply weights in int8, with activations quantised and not.
func RunInt8(t *testing.T, open Open, tol Tolerance) { RunInt8OfRanks(t, open, tol, 1) }

// RunInt8OfRanks is RunInt8 for a backend of so many ranks, each of which quantises its part of the rows that AddLinear and MLP
// multiply.
func RunInt8OfRanks(t *testing.T, open Open, tol Tolerance, ranks int) {
	for _, s := range []int8Suite{{suite{open: open, tol: tol}, false, ranks}, {suite{open: open, tol: tol}, true, ranks}} {
		t.Run(map[bool]string{false: "activations too", true: "weights"}[s.weightOnly], func(t *testing.T) {
			t.Run("Linears", s.testLinears)
			t.Run("MLP", s.testMLP)
			t.Run("Head", s.testHead)
			t.Run("Rows", s.testRows)
			t.Run("Extremes", s.testExtremes)
		})
	}
}

var int8Ops = opsShape{kernels.I8, 83, 157, []int{96, 17, 16}}

type int8Suite struct {
	suite
	weightOnly bool
	ranks      int
}

func (s int8Suite) device(t testing.TB) *device {
	d := newDevice(t, s.open)
	d.weightOnly = s.weightOnly
	return d
}

// int8Code is the code nearest to the quotient, which the format takes in float32; that decides ties.
func int8Code(v float64, scale float32) float64 {
	return min(127, max(-128, math.RoundToEven(float64(float32(v)/scale))))
}

// int8Weight quantises the rows of m.
func int8Weight(name string, m matrix, weightOnly bool) weight {
	w := weight{kernels.HostTensor{Name: name, Type: kernels.I8, Rows: m.rows, Cols: m.cols, WeightOnly: weightOnly}, m}
	for i := range m.rows {
		scale := float32(largest(m.row(i))) / 127.5
		for j, v := range m.row(i) {
			code := int8Code(v, scale)
			m.row(i)[j] = code * float64(scale)
			w.tensor.Data = append(w.tensor.Data, byte(int8(code)))
		}
		w.tensor.Scale = append(w.tensor.Scale, scale)
	}
	return w
}

// operand is what a product takes for m: rounded to ActType, and quantised unless the weights alone are.
func (s int8Suite) operand(d *device, m matrix) matrix { return s.operandInParts(d, m, 1) }

// operandOfRanks is operand where each rank has a part of a row.
func (s int8Suite) operandOfRanks(d *device, m matrix) matrix { return s.operandInParts(d, m, s.ranks) }

func (s int8Suite) operandInParts(d *device, m matrix, parts int) matrix {
	out := matrix{m.rows, m.cols, rounded(d.ActType(), m.v)}
	for i := range out.rows {
		for p := range parts {
			part := out.row(i)[m.cols*p/parts : m.cols*(p+1)/parts]
			scale := float32(largest(part)) / 127.5
			for j, v := range part {
				if !s.weightOnly && scale > 0 {
					part[j] = int8Code(v, scale) * float64(scale)
				}
			}
		}
	}
	return out
}

// computed is the tolerance where what is quantised was computed, so that a code may be the next one. That of a row's
// largest magnitude is as often as not, if it is negative: it lies in the middle of two.
func (s int8Suite) computed() Tolerance {
	return Tolerance{Max: s.tol.Max + 0.05, RMS: s.tol.RMS + 6e-3}
}

// given is the tolerance where the codes are certain, and their sums exact.
func (s int8Suite) given() Tolerance {
	if s.weightOnly {
		return s.tol
	}
	return Tolerance{Max: 1e-6, RMS: 5e-7}
}

var int8Cases = []linearCase{
	{1, 1, []int{1}, true, kernels.I8},
	{1, 896, []int{896, 128, 128}, true, kernels.I8},
	{2, 3, []int{33}, false, kernels.I8},
	{5, 63, []int{32, 15}, true, kernels.I8},
	{7, 66, []int{31}, true, kernels.I8},
	{40, 1101, []int{47}, false, kernels.I8},
	{70, 512, []int{48}, true, kernels.I8},
	{300, 1090, []int{280}, true, kernels.I8},
	{513, 50, []int{80}, false, kernels.I8},
}

func (s int8Suite) testLinears(t *testing.T) {
	for _, c := range int8Cases {
		t.Run(c.String(), func(t *testing.T) {
			d := s.device(t)
			l, w, bias := d.linear(c.typ, c.in, c.bias, c.out...)
			norm, normValues := d.normWeight(c.in)
			values := rounded(kernels.F32, d.normal(c.rows*c.in, 3))
			x, dst := d.mat(kernels.F32, c.rows, c.in, values), d.mat(d.ActType(), c.rows, l.Out(), nil)
			d.NormLinear(dst, x, norm, normEps, l)
			in := s.operand(d, matrix{c.rows, c.in, values}.normed(normValues, normEps))
			d.check("NormLinear", s.computed(), d.values(dst), in.timesTransposed(w, bias).v)

			l, w, bias = d.outputLinear(c.typ, c.in, c.bias, c.out...)
			src := rounded(d.ActType(), d.normal(c.rows*c.in, 1))
			x = d.mat(kernels.F32, c.rows, l.Out(), make([]float64, c.rows*l.Out()))
			d.AddLinear(x, d.mat(d.ActType(), c.rows, c.in, src), l)
			want := s.operandOfRanks(d, matrix{c.rows, c.in, src}).timesTransposed(w, bias)
			d.check("AddLinear", s.given(), d.values(x), want.v)
			d.AddLinear(x, d.mat(d.ActType(), c.rows, c.in, src), l)
			for i, v := range want.v {
				want.v[i] = 2 * v
			}
			d.check("AddLinear again", s.given(), d.values(x), want.v)
		})
	}
}

// testMLP has matrices of one kind, and of two, as checkpoints have them whose last layers stay as they were.
func (s int8Suite) testMLP(t *testing.T) {
	for _, c := range []struct {
		rows, hidden, inter int
		up, down            kernels.DType
	}{
		{1, 48, 77, kernels.I8, kernels.I8},
		{17, 99, 301, kernels.I8, kernels.I8},
		{65, 96, 33, kernels.I8, kernels.I8},
		{520, 130, 250, kernels.I8, kernels.I8},
		{70, 99, 301, kernels.I8, kernels.BF16},
		{70, 130, 77, kernels.BF16, kernels.I8},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d-%s-%s", c.rows, c.hidden, c.inter, c.up, c.down), func(t *testing.T) {
			d := s.device(t)
			gate, up := d.weight("gate", c.up, c.inter, c.hidden, 0.1), d.weight("up", c.up, c.inter, c.hidden, 0.1)
			gated, err := d.NewGatedLinear(gate.tensor, up.tensor)
			if err != nil {
				t.Fatal(err)
			}
			defer gated.Free()
			down, w, _ := d.outputLinear(c.down, c.inter, false, c.hidden)
			norm, normValues := d.normWeight(c.hidden)
			before := rounded(kernels.F32, d.normal(c.rows*c.hidden, 2))
			x := d.mat(kernels.F32, c.rows, c.hidden, before)
			d.MLP(x, norm, normEps, gated, down)
			in := matrix{c.rows, c.hidden, before}.normed(normValues, normEps)
			if c.up == kernels.I8 {
				in = s.operand(d, in)
			}
			g, u := in.timesTransposed(gate.matrix, nil), in.timesTransposed(up.matrix, nil)
			for i := range g.v {
				g.v[i] = silu(g.v[i]) * u.v[i]
			}
			if c.down == kernels.I8 {
				g = s.operandOfRanks(d, g)
			}
			d.check("added", s.computed(), minus(d.values(x), before), g.timesTransposed(w, nil).v)
		})
	}
}

// testHead computes logits of all columns and of listed ones.
func (s int8Suite) testHead(t *testing.T) {
	for _, c := range []struct{ rows, vocabulary, hidden int }{{1, 531, 72}, {3, 64, 63}, {5, 33, 897}, {40, 531, 72}, {64, 1, 130}} {
		t.Run(fmt.Sprintf("%dx%dx%d", c.rows, c.vocabulary, c.hidden), func(t *testing.T) {
			d := s.device(t)
			w := d.weight("head", kernels.I8, c.vocabulary, c.hidden, 1)
			table, err := d.NewTable(w.tensor)
			if err != nil {
				t.Fatal(err)
			}
			defer table.Free()
			norm, normValues := d.normWeight(c.hidden)
			values := rounded(kernels.F32, d.normal(c.rows*c.hidden, 2))
			x := d.mat(kernels.F32, c.rows, c.hidden, values)
			all := d.mat(kernels.F32, c.rows, c.vocabulary, nil)
			d.Logits(all, x, norm, normEps, table, nil)
			want := s.operand(d, matrix{c.rows, c.hidden, values}.normed(normValues, normEps)).timesTransposed(w.matrix, nil)
			got := matrix{c.rows, c.vocabulary, d.values(all)}
			d.check("all", s.computed(), got.v, want.v)

			last := uint32(c.vocabulary - 1)
			ids := []uint32{last, last / 2, last / 2, 0, last / 3}
			some := d.mat(kernels.F32, c.rows, len(ids), nil)
			d.Logits(some, x, norm, normEps, table, ids)
			d.check("picked", s.listed(), d.values(some), got.columns(ids))

			d.Embed(d.mat(kernels.F32, 1, c.hidden, nil), table, []uint32{0})
			if d.Sync() == nil {
				t.Error("an embedding in int8 is looked up without an error")
			}
		})
	}
}

// listed is how far logits of listed columns may be from those of all: sums of products of codes are exact, others may be
// taken in another order.
func (s int8Suite) listed() Tolerance {
	if s.weightOnly {
		return s.tol
	}
	return Tolerance{}
}

func (s int8Suite) testRows(t *testing.T) {
	const n = 600
	d := s.device(t)
	s.rowsOf(t, d, n, d.linearOps(int8Ops, n))
}

// SameBitsOfInt8 tests that two ways to open a backend, such as with more threads, give the same bits.
func SameBitsOfInt8(t *testing.T, a, b Open) {
	for _, weightOnly := range []bool{false, true} {
		s := int8Suite{suite{open: a}, weightOnly, 1}
		want := s.bits(t)
		s.open = b
		for name, got := range s.bits(t) {
			(&device{t: t}).sameBits(name, got, want[name])
		}
	}
}

func (s int8Suite) bits(t *testing.T) map[string][][]byte {
	const n = 150
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	bits := map[string][][]byte{}
	for _, op := range s.device(t).linearOps(int8Ops, n)[:3] {
		bits[op.name] = op.compute(rows)
	}
	return bits
}

// testExtremes has the largest sums there can be, of both signs, at depths that fill no group of columns; rows of zeros,
// of tiny and of large values; and NaN and infinity beside others.
func (s int8Suite) testExtremes(t *testing.T) {
	const out = 34
	for _, in := range []int{1, 255, 4097} {
		d := s.device(t)
		w := kernels.HostTensor{Name: "extremes", Type: kernels.I8, Rows: out, Cols: in, WeightOnly: s.weightOnly}
		m := matrix{out, in, nil}
		for i := range out {
			w.Scale = append(w.Scale, float32(math.Ldexp(1, i-24)))
			for j := range in {
				code := []int8{-128, 127, int8(i*in + j)}[i%3]
				w.Data = append(w.Data, byte(code))
				m.v = append(m.v, float64(code)) // the scales are powers of two: they divide out
			}
		}
		l, err := kernels.NewOutputLinear(d.Backend, []kernels.HostTensor{w}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Free)
		const rows = 8
		values := d.normal(rows*in, 1)
		for j := range in {
			values[j], values[in+j], values[2*in+j] = -1, 1, 0
			values[3*in+j] *= 0x1p-30
			values[4*in+j] *= 0x1p30
		}
		values = rounded(d.ActType(), values)
		want := s.operandOfRanks(d, matrix{rows, in, values}).timesTransposed(m, nil)
		values[5*in+in/2] = math.NaN()
		values[7*in+in/2] = math.Inf(-1)
		x := d.mat(kernels.F32, rows, out, make([]float64, rows*out))
		d.AddLinear(x, d.mat(d.ActType(), rows, in, values), l)
		got := d.values(x)
		for i := range rows {
			row := got[i*out : (i+1)*out]
			for j := range out {
				row[j] /= float64(w.Scale[j])
			}
			switch i {
			case 2:
				if top := largest(row); top != 0 {
					t.Errorf("depth %d: a row of zeros has %v", in, top)
				}
			case 5, 7:
				for j, v := range row {
					if !math.IsNaN(v) && !math.IsInf(v, 0) {
						t.Fatalf("depth %d: column %d of row %d, of which an element is no number, is %v", in, j, i, v)
					}
				}
			default:
				d.check(fmt.Sprintf("depth %d, row %d", in, i), s.given(), row, want.row(i))
			}
		}
	}
}
