package kerneltest

import (
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// lowRankOps are operations with low-rank products, on 70 rows of which [3, 20) have one and [20, 41) another.
type lowRankOps struct {
	*fixture
	low kernels.LowRanks
	typ kernels.DType

	x, src      Matrix
	norm        kernels.Vector
	normValues  []float64
	l, up, down kernels.Linear
	products    [2]struct{ linear, add, up, down kernels.LowRank }
	oracles     [2]struct{ linear, add, up, down [2]Matrix } // A and B
	w, back     Matrix
	gate, inner Matrix
	bias        []float64
}

const lowRankHidden, lowRankInter = 96, 77

func newLowRankOps(d *fixture, typ kernels.DType) *lowRankOps {
	const rows = 70
	o := &lowRankOps{fixture: d, low: d.Backend.(kernels.LowRanks), typ: typ}
	o.x = NewMatrix(rows, lowRankHidden, Rounded(kernels.F32, d.Normal(rows*lowRankHidden, 2)))
	o.src = NewMatrix(rows, lowRankHidden, Rounded(d.ActType(), d.Normal(rows*lowRankHidden, 1)))
	o.norm, o.normValues = d.NormWeight(lowRankHidden)
	o.l, o.w, o.bias = d.Linear(typ, lowRankHidden, true, 96, 17, 17)
	o.up, o.gate, o.inner = d.GatedLinear(typ, lowRankInter, lowRankHidden, 0.1)
	o.down, o.back, _ = d.OutputLinear(typ, lowRankInter, false, lowRankHidden)
	for i, at := range []struct{ row, rows, rank int }{{3, 17, 5}, {20, 21, 16}} {
		p, w := &o.products[i], &o.oracles[i]
		pair := func(in int, out ...int) (kernels.LowRank, [2]Matrix) {
			a, wa, _ := d.Linear(kernels.BF16, in, false, at.rank)
			b, wb, _ := d.Linear(kernels.BF16, at.rank, false, out...)
			return kernels.LowRank{Row: at.row, Rows: at.rows, A: a, B: b}, [2]Matrix{wa, wb}
		}
		p.linear, w.linear = pair(lowRankHidden, 96, 17, 17)
		p.add, w.add = pair(lowRankHidden, lowRankHidden)
		p.down, w.down = pair(lowRankInter, lowRankHidden)
		a, wa, _ := d.Linear(kernels.BF16, lowRankHidden, false, at.rank)
		b, gate, up := d.GatedLinear(kernels.BF16, lowRankInter, at.rank, 0.1)
		p.up = kernels.LowRank{Row: at.row, Rows: at.rows, A: a, B: b}
		w.up = [2]Matrix{wa, {2 * gate.Rows, gate.Cols, append(append([]float64(nil), gate.V...), up.V...)}}
	}
	return o
}

// add is sums with the oracle's low-rank products of in.
func (o *lowRankOps) add(sums, in Matrix, i int, w [2]Matrix) Matrix {
	p := o.products[i].linear
	part := NewMatrix(p.Rows, in.Cols, in.V[p.Row*in.Cols:(p.Row+p.Rows)*in.Cols]).TimesTransposed(w[0], nil).TimesTransposed(w[1], nil)
	out := NewMatrix(sums.Rows, sums.Cols, append([]float64(nil), sums.V...))
	for at, v := range part.V {
		out.V[p.Row*sums.Cols+at] += v
	}
	return out
}

// testLowRank compares with products of A and B, and rows that have none with the operations that add none, bit by bit.
func (s suite) testLowRank(t *testing.T) {
	b := s.open(t)
	if _, ok := b.(kernels.LowRanks); !ok {
		t.Skipf("%s adds no low-rank products", b.Name())
	}
	t.Run("Values", func(t *testing.T) { s.compareLowRank(newLowRankOps(newFixture(t, b), kernels.BF16)) })
	for _, typ := range []kernels.DType{kernels.BF16, kernels.I8, kernels.F8E4M3} {
		for _, act := range []kernels.Activation{kernels.SiLU, kernels.GELU, kernels.GELUTanh} {
			t.Run(fmt.Sprintf("Bits-%s-%v", typ, act), func(t *testing.T) { newLowRankOps(newFixture(t, b), typ).checkLowRankBits(act) })
		}
	}
}

func (s suite) compareLowRank(o *lowRankOps) {
	d, p, n := o.fixture, &o.products, rootMean(o.norm)
	in := o.x.RMSNorm(o.normValues, normEps)
	dst := d.Mat(d.ActType(), o.x.Rows, o.w.Rows, nil)
	o.low.NormLinearLowRank(dst, d.Mat(kernels.F32, o.x.Rows, o.x.Cols, o.x.V), n, o.l, []kernels.LowRank{p[0].linear, p[1].linear})
	want := in.TimesTransposed(o.w, o.bias)
	g, u := in.TimesTransposed(o.gate, nil), in.TimesTransposed(o.inner, nil)
	sums := NewMatrix(o.x.Rows, o.x.Cols, make([]float64, len(o.x.V)))
	for i := range p {
		want, sums = o.add(want, in, i, o.oracles[i].linear), o.add(sums, o.src, i, o.oracles[i].add)
		a, b := o.oracles[i].up[0], o.oracles[i].up[1]
		half := lowRankInter * b.Cols
		g = o.add(g, in, i, [2]Matrix{a, NewMatrix(lowRankInter, b.Cols, b.V[:half])})
		u = o.add(u, in, i, [2]Matrix{a, NewMatrix(lowRankInter, b.Cols, b.V[half:])})
	}
	checkValues(d.T, "NormLinearLowRank", s.tol, d.Values(dst), want.V)
	x := d.Mat(kernels.F32, o.x.Rows, o.x.Cols, o.x.V)
	o.low.AddLowRank(x, d.Mat(d.ActType(), o.x.Rows, o.x.Cols, o.src.V), []kernels.LowRank{p[0].add, p[1].add})
	checkValues(d.T, "AddLowRank", s.tol, subtractValues(d.Values(x), o.x.V), sums.V)
	inner := Gated(g, u, kernels.SiLU)
	want = inner.TimesTransposed(o.back, nil)
	for i := range p {
		want = o.add(want, inner, i, o.oracles[i].down)
	}
	ups, downs := []kernels.LowRank{p[0].up, p[1].up}, []kernels.LowRank{p[0].down, p[1].down}
	x = d.Mat(kernels.F32, o.x.Rows, o.x.Cols, o.x.V)
	o.low.MLPLowRank(x, x, n, kernels.SiLU, o.up, o.down, ups, downs)
	checkValues(d.T, "MLPLowRank", s.tol, subtractValues(d.Values(x), o.x.V), want.V)
	given := d.Mat(kernels.F32, o.x.Rows, o.x.Cols, nil)
	o.low.MLPLowRank(given, d.Mat(kernels.F32, o.x.Rows, o.x.Cols, o.x.V), n, kernels.SiLU, o.up, o.down, ups, downs)
	checkValues(d.T, "MLPLowRank of its own", s.tol, d.Values(given), want.V)
}

// checkLowRankBits checks that a row's bits depend on its own product alone.
func (o *lowRankOps) checkLowRankBits(act kernels.Activation) {
	d, p, n, rows := o.fixture, &o.products, rootMean(o.norm), o.x.Rows
	linear := func(compute func(dst, x kernels.Mat)) [][]byte {
		dst := d.Mat(d.ActType(), rows, o.w.Rows, nil)
		compute(dst, d.Mat(kernels.F32, rows, o.x.Cols, o.x.V))
		return d.RowBits(dst)
	}
	mlp := func(compute func(x kernels.Mat)) [][]byte {
		x := d.Mat(kernels.F32, rows, o.x.Cols, o.x.V)
		compute(x)
		return d.RowBits(x)
	}
	with := func(which ...int) [2][][]byte {
		var linears, ups, downs []kernels.LowRank
		for _, i := range which {
			linears, ups, downs = append(linears, p[i].linear), append(ups, p[i].up), append(downs, p[i].down)
		}
		return [2][][]byte{
			linear(func(dst, x kernels.Mat) { o.low.NormLinearLowRank(dst, x, n, o.l, linears) }),
			mlp(func(x kernels.Mat) { o.low.MLPLowRank(x, x, n, act, o.up, o.down, ups, downs) }),
		}
	}
	plain := [2][][]byte{
		linear(func(dst, x kernels.Mat) { d.NormLinear(dst, x, n, o.l) }),
		mlp(func(x kernels.Mat) { d.MLP(x, n, act, o.up, o.down) }),
	}
	both, first, second := with(0, 1), with(0), with(1)
	for i, op := range []string{"NormLinear", "MLP"} {
		checkBits(d.T, op+" of rows before", both[i][:3], plain[i][:3])
		checkBits(d.T, op+" of rows of the first product", both[i][3:20], first[i][3:20])
		checkBits(d.T, op+" of rows of the second", both[i][20:41], second[i][20:41])
		checkBits(d.T, op+" of rows behind", both[i][41:], plain[i][41:])
	}
}
