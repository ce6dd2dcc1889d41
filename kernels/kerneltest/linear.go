package kerneltest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

const normEps = 1e-5

// rootMean is the norm of these weights that is not centred.
func rootMean(w kernels.Vector) kernels.Norm { return kernels.Norm{Weight: w, Eps: normEps} }

// testBuffer checks that memory is zeroed and that Write and Read reach any byte.
func (s suite) testBuffer(t *testing.T) {
	d := newFixture(t, s.open(t))
	b := d.MustAlloc(1000)
	if b.Bytes() < 1000 {
		t.Errorf("Bytes() = %d of an allocation of 1000", b.Bytes())
	}
	want := make([]byte, 1000)
	copy(want[33:], "somewhere in the middle")
	d.Write(b, 33, []byte("somewhere in the middle"))
	got := make([]byte, 1000)
	d.Read(got, b, 0)
	d.MustSync()
	if !bytes.Equal(got, want) {
		t.Error("memory is not zero but for what was written")
	}
	if _, err := d.Alloc(-1); err == nil {
		t.Error("Alloc(-1) did not fail")
	}
}

func (s suite) testEmbed(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
		t.Run(typ.String(), func(t *testing.T) {
			d := newFixture(t, s.open(t))
			table, w := d.Table(typ, 37, 51)
			ids := []uint32{36, 0, 5, 5, 17}
			x := d.Mat(kernels.F32, len(ids), 51, nil)
			d.Embed(x, table, ids, 1)
			scaled := d.Mat(kernels.F32, len(ids), 51, nil)
			d.Embed(scaled, table, ids, 54.5)
			var want, times []float64
			for _, id := range ids {
				want = append(want, w.Row(int(id))...)
			}
			for _, v := range d.Values(x) {
				times = append(times, v*54.5)
			}
			checkValues(d.T, "scaled rows", Tolerance{Max: 1e-6, RMS: 1e-6}, d.Values(scaled), times)
			// An embedding is looked up, not multiplied: it may be rounded to the activation type, no worse.
			checkValues(d.T, "rows", Tolerance{Max: max(s.tol.Max, 1e-6), RMS: s.tol.RMS}, d.Values(x), want)
			if table.Rows() != 37 || table.Cols() != 51 {
				t.Errorf("table says %d x %d", table.Rows(), table.Cols())
			}
		})
	}
}

// linearCase is a shape of a matrix product.
type linearCase struct {
	rows, in int
	out      []int
	bias     bool
	typ      kernels.DType
}

func (c linearCase) String() string {
	return fmt.Sprintf("%dx%d-%v-bias=%t-%s", c.rows, c.in, c.out, c.bias, c.typ)
}

var linearCases = []linearCase{
	{1, 48, []int{48}, false, kernels.BF16},
	{1, 896, []int{896, 128, 128}, true, kernels.BF16},
	{3, 64, []int{1}, true, kernels.F32},
	{5, 77, []int{53}, false, kernels.F16},
	{16, 96, []int{96, 32, 32}, false, kernels.F32},
	{33, 130, []int{17, 5, 211}, true, kernels.BF16},
	{70, 512, []int{48}, true, kernels.BF16},
	{513, 48, []int{67}, false, kernels.BF16},
	{300, 1100, []int{530}, true, kernels.BF16},
}

// roundOperand is what a product with weights of a type takes for m, of which so many ranks have a part of each row.
func (s suite) roundOperand(d *fixture, typ kernels.DType, m Matrix, ranks int) Matrix {
	if !typ.Scaled() {
		return m
	}
	m.V = Rounded(d.ActType(), m.V)
	switch {
	case !s.quantised:
		return m
	case typ == kernels.I8:
		return m.InInt8(ranks)
	}
	return m.InFP8()
}

func (s suite) testNormLinear(t *testing.T) {
	for _, c := range linearCases {
		t.Run(c.String(), func(t *testing.T) { s.compareNormLinear(newFixture(t, s.open(t)), c) })
	}
}

func (s suite) compareNormLinear(d *fixture, c linearCase) {
	l, w, bias := d.Linear(c.typ, c.in, c.bias, c.out...)
	norm, normValues := d.NormWeight(c.in)
	values := Rounded(kernels.F32, d.Normal(c.rows*c.in, 3))
	x := d.Mat(kernels.F32, c.rows, c.in, values)
	dst := d.Mat(d.ActType(), c.rows, w.Rows, nil)
	d.NormLinear(dst, x, rootMean(norm), l)
	in := s.roundOperand(d, c.typ, NewMatrix(c.rows, c.in, values).RMSNorm(normValues, normEps), 1)
	want := in.TimesTransposed(w, bias)
	checkValues(d.T, "dst", s.tol, d.Values(dst), want.V)
	checkValues(d.T, "x after", Tolerance{}, d.Values(x), values)
}

func (s suite) testAddLinear(t *testing.T) {
	for _, c := range linearCases {
		t.Run(c.String(), func(t *testing.T) { s.compareAddLinear(newFixture(t, s.open(t)), c) })
	}
}

func (s suite) compareAddLinear(d *fixture, c linearCase) {
	l, w, bias := d.OutputLinear(c.typ, c.in, c.bias, c.out...)
	values := Rounded(d.ActType(), d.Normal(c.rows*c.in, 1))
	src := d.Mat(d.ActType(), c.rows, c.in, values)
	before := Rounded(kernels.F32, d.Normal(c.rows*w.Rows, 2))
	x := d.Mat(kernels.F32, c.rows, w.Rows, before)
	d.AddLinear(x, src, l)
	want := s.roundOperand(d, c.typ, NewMatrix(c.rows, c.in, values), s.ranks).TimesTransposed(w, bias)
	checkValues(d.T, "added", s.tol, subtractValues(d.Values(x), before), want.V)
}

// mlpCase is a shape of an MLP.
type mlpCase struct {
	rows, hidden, inter int
	typ                 kernels.DType
	act                 kernels.Activation
}

func (s suite) testMLP(t *testing.T) {
	for _, c := range []mlpCase{
		{1, 48, 77, kernels.BF16, kernels.SiLU}, {2, 64, 176, kernels.F16, kernels.SiLU}, {17, 100, 301, kernels.F32, kernels.SiLU},
		{65, 96, 33, kernels.BF16, kernels.SiLU}, {300, 130, 250, kernels.BF16, kernels.SiLU},
		{2, 64, 176, kernels.BF16, kernels.GELU}, {65, 96, 33, kernels.BF16, kernels.GELUTanh}, {17, 100, 304, kernels.F32, kernels.GELUTanh},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d-%s-%v", c.rows, c.hidden, c.inter, c.typ, c.act), func(t *testing.T) {
			s.compareMLP(newFixture(t, s.open(t)), c, c.typ)
		})
	}
}

// compareMLP has a last matrix of another type than the first ones, where last says so.
func (s suite) compareMLP(d *fixture, c mlpCase, last kernels.DType) {
	gated, gate, up := d.GatedLinear(c.typ, c.inter, c.hidden, 0.1)
	down, w, _ := d.OutputLinear(last, c.inter, false, c.hidden)
	norm, normValues := d.NormWeight(c.hidden)
	before := Rounded(kernels.F32, d.Normal(c.rows*c.hidden, 2))
	x := d.Mat(kernels.F32, c.rows, c.hidden, before)
	d.MLP(x, rootMean(norm), c.act, gated, down)
	in := s.roundOperand(d, c.typ, NewMatrix(c.rows, c.hidden, before).RMSNorm(normValues, normEps), 1)
	g, u := in.TimesTransposed(gate, nil), in.TimesTransposed(up, nil)
	if s.quantised && last == kernels.F8E4M3 { // the product then begins from what memory holds of it
		g.V, u.V = Rounded(d.ActType(), g.V), Rounded(d.ActType(), u.V)
	}
	want := s.roundOperand(d, last, Gated(g, u, c.act), s.ranks).TimesTransposed(w, nil)
	checkValues(d.T, "added", s.tol, subtractValues(d.Values(x), before), want.V)
}

func (s suite) testLogits(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
		for _, rows := range []int{1, 3, 40} {
			t.Run(fmt.Sprintf("%s-%d", typ, rows), func(t *testing.T) {
				d := newFixture(t, s.open(t))
				const vocabulary, hidden = 531, 72
				table, w := d.Table(typ, vocabulary, hidden)
				norm, normValues := d.NormWeight(hidden)
				values := Rounded(kernels.F32, d.Normal(rows*hidden, 2))
				x := d.Mat(kernels.F32, rows, hidden, values)
				all := d.Mat(kernels.F32, rows, vocabulary, nil)
				d.Logits(all, x, rootMean(norm), table, nil)
				want := NewMatrix(rows, hidden, values).RMSNorm(normValues, normEps).TimesTransposed(w, nil)
				checkValues(d.T, "all", s.tol, d.Values(all), want.V)

				ids := []uint32{530, 2, 2, 0, 77, 300, 301}
				some := d.Mat(kernels.F32, rows, len(ids), nil)
				d.Logits(some, x, rootMean(norm), table, ids)
				checkValues(d.T, "picked", s.tol, d.Values(some), want.Columns(ids))
			})
		}
	}
}
