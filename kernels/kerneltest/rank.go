package kerneltest

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// testRank checks what a backend adds as one of several ranks, if it can be one: partials come out
// whatever was there before, sums go in order, and a part of a table is that part.
func (s suite) testRank(t *testing.T) {
	rank, ok := s.open(t).(kernels.Rank)
	if !ok {
		return // a backend that is not a Rank has no more to show
	}
	d := newFixture(t, rank)
	for _, typ := range rank.PartialTypes() {
		t.Run("Product/"+typ.String(), func(t *testing.T) { s.testProduct(d.Within(t), rank, typ) })
		t.Run("MLPProduct/"+typ.String(), func(t *testing.T) { s.testMLPProduct(d.Within(t), rank, typ) })
		t.Run("AddSum/"+typ.String(), func(t *testing.T) { s.testAddSum(d.Within(t), rank, typ) })
	}
	for _, typ := range []kernels.DType{kernels.BF16, kernels.I8} {
		t.Run("SubTable/"+typ.String(), func(t *testing.T) { s.testSubTable(d.Within(t), rank, typ) })
	}
}

func (s suite) testProduct(d *fixture, rank kernels.Rank, typ kernels.DType) {
	const rows, in = 37, 70
	l, w, bias := d.OutputLinear(kernels.BF16, in, true, 53)
	values := Rounded(d.ActType(), d.Normal(rows*in, 1))
	dst := d.Mat(typ, rows, w.Rows, nil)
	rank.Product(dst, d.Mat(d.ActType(), rows, in, values), l)
	checkValues(d.T, "product", s.tol, d.Values(dst), NewMatrix(rows, in, values).TimesTransposed(w, bias).V)
}

// testMLPProduct compares with MLP, which has its own test.
func (s suite) testMLPProduct(d *fixture, rank kernels.Rank, typ kernels.DType) {
	const rows, hidden, inter = 530, 72, 96
	gated, _, _ := d.GatedLinear(kernels.BF16, inter, hidden, 0.2)
	down, _, _ := d.OutputLinear(kernels.BF16, inter, false, hidden)
	norm, _ := d.NormWeight(hidden)
	before := Rounded(kernels.F32, d.Normal(rows*hidden, 2))
	x, dst := d.Mat(kernels.F32, rows, hidden, before), d.Mat(typ, rows, hidden, nil)
	rank.MLPProduct(dst, x, rootMean(norm), kernels.SiLU, gated, down)
	checkValues(d.T, "x after", Tolerance{}, d.Values(x), before)
	product := d.Values(dst)
	d.MLP(x, rootMean(norm), kernels.SiLU, gated, down)
	tol := Tolerance{Max: 1e-5, RMS: 1e-6}
	if typ != kernels.F32 {
		tol = Tolerance{Max: 0.004, RMS: 0.002} // half a unit in the last of 8 bits
	}
	checkValues(d.T, "product", tol, product, subtractValues(d.Values(x), before))
}

// testAddSum has parts that cancel, so that the order of the sum shows: in float32 it must be
// x + ((a + b) + c), to the bit.
func (s suite) testAddSum(d *fixture, rank kernels.Rank, typ kernels.DType) {
	const rows, cols = 21, 1030
	draw := func(deviation float64) ([]float64, kernels.Mat) {
		v := Rounded(typ, d.Normal(rows*cols, deviation))
		return v, d.Mat(typ, rows, cols, v)
	}
	before := Rounded(kernels.F32, d.Normal(rows*cols, 1))
	x := d.Mat(kernels.F32, rows, cols, before)
	a, first := draw(1e4)
	negated := make([]float64, len(a))
	for i, v := range a {
		negated[i] = -v
	}
	second := d.Mat(typ, rows, cols, negated)
	c, third := draw(1)
	rank.AddSum(x, []kernels.Mat{first, second, third})
	want := make([]float64, len(c))
	for i := range want {
		want[i] = float64(float32(before[i]) + float32(c[i]))
	}
	checkValues(d.T, "a - a + c", Tolerance{}, d.Values(x), want)
	rank.AddSum(x, []kernels.Mat{third})
	for i := range want {
		want[i] = float64(float32(want[i]) + float32(c[i]))
	}
	checkValues(d.T, "c alone", Tolerance{}, d.Values(x), want)
}

func (s suite) testSubTable(d *fixture, rank kernels.Rank, typ kernels.DType) {
	const rows, vocabulary, hidden, from, to = 3, 200, 64, 40, 137
	table, _ := d.Table(typ, vocabulary, hidden)
	part := rank.SubTable(table, from, to)
	if part.Rows() != to-from || part.Cols() != hidden {
		d.T.Fatalf("rows %d to %d of the table are %d x %d", from, to, part.Rows(), part.Cols())
	}
	norm, _ := d.NormWeight(hidden)
	x := d.Mat(kernels.F32, rows, hidden, d.Normal(rows*hidden, 1))
	all, some := d.Mat(kernels.F32, rows, vocabulary, nil), d.Mat(kernels.F32, rows, to-from, nil)
	d.Logits(all, x, rootMean(norm), table, nil)
	d.Logits(some, x, rootMean(norm), part, nil)
	var want []float64
	for i := range rows {
		want = append(want, d.Values(all)[i*vocabulary+from:i*vocabulary+to]...)
	}
	checkValues(d.T, "logits of the part", s.tol, d.Values(some), want)
}
