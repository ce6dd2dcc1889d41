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
	for _, weightOnly := range []bool{false, true} {
		s := newInt8Suite(open, tol, weightOnly, ranks)
		t.Run(map[bool]string{false: "activations too", true: "weights"}[weightOnly], func(t *testing.T) {
			t.Run("Linears", s.testLinears)
			t.Run("MLP", s.testMLP)
			t.Run("Head", s.testHead)
			t.Run("Rows", s.testRows)
			t.Run("Extremes", s.testExtremes)
		})
	}
}

var int8Ops = opsShape{kernels.I8, 83, 157, []int{96, 17, 16}}

// int8Suite has in tol the tolerance where what is quantised was computed, so that a code may be the next one. That of a row's
// largest magnitude is as often as not, if it is negative: it lies in the middle of two.
type int8Suite struct {
	suite
	given  Tolerance // where the codes are certain, and their sums exact
	listed Tolerance // of logits of listed columns beside those of all: sums of products of codes are exact, others may be taken in another order
}

func newInt8Suite(open Open, tol Tolerance, weightOnly bool, ranks int) int8Suite {
	s := int8Suite{suite: suite{open: open, tol: Tolerance{Max: tol.Max + 0.05, RMS: tol.RMS + 6e-3}, quantised: !weightOnly, ranks: ranks}}
	if weightOnly {
		s.given, s.listed = tol, tol
	} else {
		s.given = Tolerance{Max: 1e-6, RMS: 5e-7}
	}
	return s
}

func (s int8Suite) newDevice(t testing.TB) *fixture {
	d := newFixture(t, s.open(t))
	d.WeightOnly = !s.quantised
	return d
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
			d := s.newDevice(t)
			s.compareNormLinear(d, c)

			l, w, bias := d.OutputLinear(c.typ, c.in, c.bias, c.out...)
			src := Rounded(d.ActType(), d.Normal(c.rows*c.in, 1))
			x := d.Mat(kernels.F32, c.rows, l.Out(), make([]float64, c.rows*l.Out()))
			d.AddLinear(x, d.Mat(d.ActType(), c.rows, c.in, src), l)
			want := s.roundOperand(d, c.typ, NewMatrix(c.rows, c.in, src), s.ranks).TimesTransposed(w, bias)
			checkValues(d.T, "AddLinear", s.given, d.Values(x), want.V)
			d.AddLinear(x, d.Mat(d.ActType(), c.rows, c.in, src), l)
			for i, v := range want.V {
				want.V[i] = 2 * v
			}
			checkValues(d.T, "AddLinear again", s.given, d.Values(x), want.V)
		})
	}
}

// testMLP has matrices of one kind, and of two, as checkpoints have them whose last layers stay as they were.
func (s int8Suite) testMLP(t *testing.T) {
	for _, c := range []struct {
		mlpCase
		down kernels.DType
	}{
		{mlpCase{1, 48, 77, kernels.I8, kernels.SiLU}, kernels.I8},
		{mlpCase{17, 99, 301, kernels.I8, kernels.GELU}, kernels.I8},
		{mlpCase{65, 96, 33, kernels.I8, kernels.SiLU}, kernels.I8},
		{mlpCase{520, 130, 250, kernels.I8, kernels.SiLU}, kernels.I8},
		{mlpCase{70, 99, 301, kernels.I8, kernels.SiLU}, kernels.BF16},
		{mlpCase{70, 130, 77, kernels.BF16, kernels.SiLU}, kernels.I8},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d-%s-%s", c.rows, c.hidden, c.inter, c.typ, c.down), func(t *testing.T) {
			s.compareMLP(s.newDevice(t), c.mlpCase, c.down)
		})
	}
}

// testHead computes logits of all columns and of listed ones.
func (s int8Suite) testHead(t *testing.T) {
	for _, c := range []struct{ rows, vocabulary, hidden int }{{1, 531, 72}, {3, 64, 63}, {5, 33, 897}, {40, 531, 72}, {64, 1, 130}} {
		t.Run(fmt.Sprintf("%dx%dx%d", c.rows, c.vocabulary, c.hidden), func(t *testing.T) {
			d := s.newDevice(t)
			table, w := d.Table(kernels.I8, c.vocabulary, c.hidden)
			norm, normValues := d.NormWeight(c.hidden)
			values := Rounded(kernels.F32, d.Normal(c.rows*c.hidden, 2))
			x := d.Mat(kernels.F32, c.rows, c.hidden, values)
			all := d.Mat(kernels.F32, c.rows, c.vocabulary, nil)
			d.Logits(all, x, rootMean(norm), table, nil)
			want := s.roundOperand(d, kernels.I8, NewMatrix(c.rows, c.hidden, values).RMSNorm(normValues, normEps), 1).TimesTransposed(w, nil)
			got := NewMatrix(c.rows, c.vocabulary, d.Values(all))
			checkValues(d.T, "all", s.tol, got.V, want.V)

			last := uint32(c.vocabulary - 1)
			ids := []uint32{last, last / 2, last / 2, 0, last / 3}
			some := d.Mat(kernels.F32, c.rows, len(ids), nil)
			d.Logits(some, x, rootMean(norm), table, ids)
			checkValues(d.T, "picked", s.listed, d.Values(some), got.Columns(ids))

			d.Embed(d.Mat(kernels.F32, 1, c.hidden, nil), table, []uint32{0}, 1)
			if d.Sync() == nil {
				t.Error("an embedding in int8 is looked up without an error")
			}
		})
	}
}

func (s int8Suite) testRows(t *testing.T) {
	const n = 600
	d := s.newDevice(t)
	s.rowsOf(t, d, n, linearOps(d, int8Ops, n))
}

// SameBitsOfInt8 is SameBits for weights in int8.
func SameBitsOfInt8(t *testing.T, a, b Open) {
	const n = 150
	for _, weightOnly := range []bool{false, true} {
		sameBits(t, a, b, func(d *fixture) map[string][][]byte {
			d.WeightOnly = weightOnly
			bits := map[string][][]byte{}
			for _, op := range linearOps(d, int8Ops, n)[:3] {
				bits[op.name] = op.compute(numbersBelow(n))
			}
			return bits
		})
	}
}

// testExtremes has the largest sums there can be, of both signs, at depths that fill no group of columns; rows of zeros,
// of tiny and of large values; and NaN and infinity beside others.
func (s int8Suite) testExtremes(t *testing.T) {
	const out = 34
	for _, in := range []int{1, 255, 4097} {
		d := s.newDevice(t)
		w := kernels.HostTensor{Name: "extremes", Type: kernels.I8, Rows: out, Cols: in, WeightOnly: !s.quantised}
		m := NewMatrix(out, in, nil)
		for i := range out {
			w.Scale = append(w.Scale, float32(math.Ldexp(1, i-24)))
			for j := range in {
				code := []int8{-128, 127, int8(i*in + j)}[i%3]
				w.Data = append(w.Data, byte(code))
				m.V = append(m.V, float64(code)) // the scales are powers of two: they divide out
			}
		}
		l, err := kernels.NewOutputLinear(d.Backend, []kernels.HostTensor{w}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Free)
		const rows = 8
		values := d.Normal(rows*in, 1)
		for j := range in {
			values[j], values[in+j], values[2*in+j] = -1, 1, 0
			values[3*in+j] *= 0x1p-30
			values[4*in+j] *= 0x1p30
		}
		values = Rounded(d.ActType(), values)
		want := s.roundOperand(d, kernels.I8, NewMatrix(rows, in, values), s.ranks).TimesTransposed(m, nil)
		values[5*in+in/2] = math.NaN()
		values[7*in+in/2] = math.Inf(-1)
		x := d.Mat(kernels.F32, rows, out, make([]float64, rows*out))
		d.AddLinear(x, d.Mat(d.ActType(), rows, in, values), l)
		got := d.Values(x)
		for i := range rows {
			row := got[i*out : (i+1)*out]
			for j := range out {
				row[j] /= float64(w.Scale[j])
			}
			switch i {
			case 2:
				if top := Largest(row); top != 0 {
					t.Errorf("depth %d: a row of zeros has %v", in, top)
				}
			case 5, 7:
				for j, v := range row {
					if !math.IsNaN(v) && !math.IsInf(v, 0) {
						t.Fatalf("depth %d: column %d of row %d, of which an element is no number, is %v", in, j, i, v)
					}
				}
			default:
				checkValues(d.T, fmt.Sprintf("depth %d, row %d", in, i), s.given, row, want.Row(i))
			}
		}
	}
}
