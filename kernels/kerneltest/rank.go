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
	d := newDevice(t, func(testing.TB) kernels.Backend { return rank })
	for _, typ := range rank.PartialTypes() {
		t.Run("Product/"+typ.String(), func(t *testing.T) { s.testProduct(d.within(t), rank, typ) })
		t.Run("MLPProduct/"+typ.String(), func(t *testing.T) { s.testMLPProduct(d.within(t), rank, typ) })
		t.Run("AddSum/"+typ.String(), func(t *testing.T) { s.testAddSum(d.within(t), rank, typ) })
	}
	for _, typ := range []kernels.DType{kernels.BF16, kernels.I8} {
		t.Run("SubTable/"+typ.String(), func(t *testing.T) { s.testSubTable(d.within(t), rank, typ) })
	}
}

func (s suite) testProduct(d *device, rank kernels.Rank, typ kernels.DType) {
	const rows, in = 37, 70
	l, w, bias := d.outputLinear(kernels.BF16, in, true, 53)
	values := rounded(d.ActType(), d.normal(rows*in, 1))
	dst := d.mat(typ, rows, w.rows, nil)
	rank.Product(dst, d.mat(d.ActType(), rows, in, values), l)
	d.check("product", s.tol, d.values(dst), matrix{rows, in, values}.timesTransposed(w, bias).v)
}

// testMLPProduct compares with MLP, which has its own test.
func (s suite) testMLPProduct(d *device, rank kernels.Rank, typ kernels.DType) {
	const rows, hidden, inter = 530, 72, 96
	gated, err := d.NewGatedLinear(d.weight("gate", kernels.BF16, inter, hidden, 0.2).tensor, d.weight("up", kernels.BF16, inter, hidden, 0.2).tensor)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(gated.Free)
	down, _, _ := d.outputLinear(kernels.BF16, inter, false, hidden)
	norm, _ := d.normWeight(hidden)
	before := rounded(kernels.F32, d.normal(rows*hidden, 2))
	x, dst := d.mat(kernels.F32, rows, hidden, before), d.mat(typ, rows, hidden, nil)
	rank.MLPProduct(dst, x, norm, normEps, gated, down)
	d.check("x after", Tolerance{}, d.values(x), before)
	product := d.values(dst)
	d.MLP(x, norm, normEps, gated, down)
	tol := Tolerance{Max: 1e-5, RMS: 1e-6}
	if typ != kernels.F32 {
		tol = Tolerance{Max: 0.004, RMS: 0.002} // half a unit in the last of 8 bits
	}
	d.check("product", tol, product, minus(d.values(x), before))
}

// testAddSum has parts that cancel, so that the order of the sum shows: in float32 it must be
// x + ((a + b) + c), to the bit.
func (s suite) testAddSum(d *device, rank kernels.Rank, typ kernels.DType) {
	const rows, cols = 21, 1030
	draw := func(deviation float64) ([]float64, kernels.Mat) {
		v := rounded(typ, d.normal(rows*cols, deviation))
		return v, d.mat(typ, rows, cols, v)
	}
	before := rounded(kernels.F32, d.normal(rows*cols, 1))
	x := d.mat(kernels.F32, rows, cols, before)
	a, first := draw(1e4)
	negated := make([]float64, len(a))
	for i, v := range a {
		negated[i] = -v
	}
	second := d.mat(typ, rows, cols, negated)
	c, third := draw(1)
	rank.AddSum(x, []kernels.Mat{first, second, third})
	want := make([]float64, len(c))
	for i := range want {
		want[i] = float64(float32(before[i]) + float32(c[i]))
	}
	d.check("a - a + c", Tolerance{}, d.values(x), want)
	rank.AddSum(x, []kernels.Mat{third})
	for i := range want {
		want[i] = float64(float32(want[i]) + float32(c[i]))
	}
	d.check("c alone", Tolerance{}, d.values(x), want)
}

func (s suite) testSubTable(d *device, rank kernels.Rank, typ kernels.DType) {
	const rows, vocabulary, hidden, from, to = 3, 200, 64, 40, 137
	table, err := d.NewTable(d.weight("head", typ, vocabulary, hidden, 1).tensor)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(table.Free)
	part := rank.SubTable(table, from, to)
	if part.Rows() != to-from || part.Cols() != hidden {
		d.t.Fatalf("rows %d to %d of the table are %d x %d", from, to, part.Rows(), part.Cols())
	}
	norm, _ := d.normWeight(hidden)
	x := d.mat(kernels.F32, rows, hidden, d.normal(rows*hidden, 1))
	all, some := d.mat(kernels.F32, rows, vocabulary, nil), d.mat(kernels.F32, rows, to-from, nil)
	d.Logits(all, x, norm, normEps, table, nil)
	d.Logits(some, x, norm, normEps, part, nil)
	var want []float64
	for i := range rows {
		want = append(want, d.values(all)[i*vocabulary+from:i*vocabulary+to]...)
	}
	d.check("logits of the part", s.tol, d.values(some), want)
}
