package kerneltest

import (
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// layerNorm is a norm and what it does to a row, by its definition.
type layerNorm struct {
	kernels.Norm
	weight, bias []float64
}

func newLayerNorm(d *fixture, n int, norm, bias bool) layerNorm {
	l := layerNorm{Norm: kernels.Norm{Eps: normEps, Centred: true}}
	if norm {
		l.Weight, l.weight = d.NormWeight(n)
	}
	if norm && bias {
		l.Bias, l.bias = d.NormWeight(n)
	}
	return l
}

func (l *layerNorm) expectedOutput(m Matrix) Matrix { return m.LayerNorm(l.weight, l.bias, normEps) }

// eachNorm runs a test with no norm, and with one without and with bias.
func eachNorm(t *testing.T, name string, test func(t *testing.T, norm, bias bool)) {
	for _, c := range []struct{ norm, bias bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%s-norm=%t-bias=%t", name, c.norm, c.bias), func(t *testing.T) { test(t, c.norm, c.bias) })
	}
}

func (s suite) testCentredLinear(t *testing.T) {
	for _, c := range linearCases[1:6] {
		eachNorm(t, c.String(), func(t *testing.T, norm, bias bool) {
			d := newFixture(t, s.open(t))
			l, w, b := d.Linear(c.typ, c.in, c.bias, c.out...)
			n := newLayerNorm(d, c.in, norm, bias)
			values := Rounded(kernels.F32, d.Normal(c.rows*c.in, 3))
			x := d.Mat(kernels.F32, c.rows, c.in, values)
			dst := d.Mat(d.ActType(), c.rows, w.Rows, nil)
			d.NormLinear(dst, x, n.Norm, l)
			checkValues(d.T, "dst", s.tol, d.Values(dst), n.expectedOutput(NewMatrix(c.rows, c.in, values)).TimesTransposed(w, b).V)
			checkValues(d.T, "x after", Tolerance{}, d.Values(x), values)
		})
	}
}

// biasedMLP is an MLP's matrices, and what it adds to x.
type biasedMLP struct {
	up, down kernels.Linear
	added    func(in Matrix) []float64
}

func newBiasedMLP(d *fixture, gated bool, act kernels.Activation, typ kernels.DType, hidden, inter int) biasedMLP {
	down, w, b := d.OutputLinear(typ, inter, true, hidden)
	if !gated {
		up, u, bias := d.Linear(typ, hidden, true, inter)
		return biasedMLP{up, down, func(in Matrix) []float64 {
			h := in.TimesTransposed(u, bias)
			for i := range h.V {
				h.V[i] = Activate(h.V[i], act)
			}
			return h.TimesTransposed(w, b).V
		}}
	}
	up, gate, other := d.GatedLinear(typ, inter, hidden, 0.2)
	return biasedMLP{up, down, func(in Matrix) []float64 {
		g, u := in.TimesTransposed(gate, nil), in.TimesTransposed(other, nil)
		for i := range g.V {
			g.V[i] = Activate(g.V[i], act) * u.V[i]
		}
		return g.TimesTransposed(w, b).V
	}}
}

func (s suite) testCentredMLP(t *testing.T) {
	for _, c := range []mlpCase{
		{1, 48, 77, kernels.BF16, 0}, {17, 100, 304, kernels.F32, 0}, {65, 96, 33, kernels.BF16, 0},
	} {
		for act := kernels.GELU; act <= kernels.GELUTanh; act++ {
			for _, gated := range []bool{false, true} {
				eachNorm(t, fmt.Sprintf("%dx%dx%d-%s-%v-gated=%t", c.rows, c.hidden, c.inter, c.typ, act, gated), func(t *testing.T, norm, bias bool) {
					d := newFixture(t, s.open(t))
					m, n := newBiasedMLP(d, gated, act, c.typ, c.hidden, c.inter), newLayerNorm(d, c.hidden, norm, bias)
					before := Rounded(kernels.F32, d.Normal(c.rows*c.hidden, 2))
					x := d.Mat(kernels.F32, c.rows, c.hidden, before)
					d.MLP(x, n.Norm, act, m.up, m.down)
					checkValues(d.T, "added", s.tol, subtractValues(d.Values(x), before), m.added(n.expectedOutput(NewMatrix(c.rows, c.hidden, before))))
				})
			}
		}
	}
}

// testAddNorm adds what a norm gives of one matrix to another.
func (s suite) testAddNorm(t *testing.T) {
	for _, shape := range [][2]int{{1, 3}, {5, 77}, {33, 130}, {70, 768}} {
		d, rows, cols := newFixture(t, s.open(t)), shape[0], shape[1]
		norm, weight := d.NormWeight(cols)
		before, values := Rounded(kernels.F32, d.Normal(rows*cols, 2)), Rounded(kernels.F32, d.Normal(rows*cols, 30))
		x, src := d.Mat(kernels.F32, rows, cols, before), d.Mat(kernels.F32, rows, cols, values)
		d.AddNorm(x, src, rootMean(norm))
		checkValues(d.T, "added", Tolerance{Max: 1e-5, RMS: 1e-6}, subtractValues(d.Values(x), before), NewMatrix(rows, cols, values).RMSNorm(weight, normEps).V)
		checkValues(d.T, "src after", Tolerance{}, d.Values(src), values)
	}
}

// testProducts compares what is set with what is added, which has tests of its own.
func (s suite) testProducts(t *testing.T) {
	d := newFixture(t, s.open(t))
	const rows, hidden, inter = 70, 72, 96
	tol := Tolerance{Max: 1e-5, RMS: 1e-6}
	l, _, _ := d.OutputLinear(kernels.BF16, inter, true, hidden)
	src := d.Mat(d.ActType(), rows, inter, d.Normal(rows*inter, 1))
	zeros, dst := d.Mat(kernels.F32, rows, hidden, make([]float64, rows*hidden)), d.Mat(kernels.F32, rows, hidden, d.Normal(rows*hidden, 5))
	d.AddLinear(zeros, src, l)
	d.Product(dst, src, l)
	checkValues(d.T, "product", tol, d.Values(dst), d.Values(zeros))
	gated, _, _ := d.GatedLinear(kernels.BF16, inter, hidden, 0.2)
	norm, _ := d.NormWeight(hidden)
	before := Rounded(kernels.F32, d.Normal(rows*hidden, 2))
	x := d.Mat(kernels.F32, rows, hidden, before)
	d.MLPProduct(dst, x, rootMean(norm), kernels.SiLU, gated, l)
	checkValues(d.T, "x after", Tolerance{}, d.Values(x), before)
	d.MLP(x, rootMean(norm), kernels.SiLU, gated, l)
	checkValues(d.T, "MLP's product", tol, d.Values(dst), subtractValues(d.Values(x), before))
}

// testWholeNorms has queries and keys normalised over all heads together, which several ranks refuse.
func (s suite) testWholeNorms(t *testing.T) {
	for _, c := range []attentionCase{
		{kernels.Heads{Q: 4, KV: 2, Dim: 32}, 16, 0, false, 1, []span{{5, 40}, {0, 3}}},
		{kernels.Heads{Q: 3, KV: 3, Dim: 80}, 32, 0, false, 1, []span{{31, 2}, {33, 1}, {1, 31}}},
	} {
		t.Run(c.String(), func(t *testing.T) {
			r := newAttentionRun(newFixture(t, s.open(t)), c)
			r.spec.QNorm, r.oracle.QNorm = r.NormWeight(c.heads.Q * c.heads.Dim)
			r.spec.KNorm, r.oracle.KNorm = r.NormWeight(c.heads.KV * c.heads.Dim)
			if _, several := r.Backend.(interface{ Ranks() int }); several {
				seq := r.drawSequence(3)
				r.StoreKV(r.Mat(r.ActType(), 3, c.heads.QKVCols(), seq.qkv), r.spec, c.blockTokens, []kernels.Segment{{Rows: 3, Blocks: seq.blocks}})
				if r.Sync() == nil {
					t.Error("several ranks: no error")
				}
				return
			}
			s.compareAttention(r)
		})
	}
	d := newFixture(t, s.open(t))
	r := newAttentionRun(d, attentionCase{kernels.Heads{Q: 2, KV: 2, Dim: 16}, 16, 0, true, 1, nil})
	r.spec.KNorm, _ = d.NormWeight(32)
	seq := r.drawSequence(3)
	r.StoreKV(r.Mat(r.ActType(), 3, r.c.heads.QKVCols(), seq.qkv), r.spec, 16, []kernels.Segment{{Rows: 3, Blocks: seq.blocks}})
	if r.Sync() == nil {
		t.Error("a norm of each head and one of all: no error")
	}
}

// testCappedAttention has scores that are capped.
func (s suite) testCappedAttention(t *testing.T) {
	for i, limit := range []float32{0.5, 3, 50} {
		c := attentionCases[i+1]
		t.Run(c.String(), func(t *testing.T) {
			r := newAttentionRun(newFixture(t, s.open(t)), c)
			r.cap = limit
			r.oracle.Cap = float64(r.cap)
			s.compareAttention(r)
		})
	}
}
