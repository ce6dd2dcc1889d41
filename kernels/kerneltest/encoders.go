package kerneltest

import (
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// RunEncoders tests every operation that kernels.Encoders adds, of the backend that open returns.
func RunEncoders(t *testing.T, open Open, tol Tolerance) {
	s := suite{open: open, tol: tol}
	t.Run("AddEmbed", s.testAddEmbed)
	t.Run("LayerNorm", s.testLayerNorm)
	t.Run("LayerNormLinear", s.testLayerNormLinear)
	t.Run("LayerNormMLP", s.testLayerNormMLP)
	t.Run("AttentionBothWays", s.testAttentionBothWays)
	t.Run("RowsOfEncoders", s.testRowsOfEncoders)
	t.Run("RowsOfAttentionBothWays", s.testRowsOfAttentionBothWays)
	t.Run("MalformedEncoders", s.testMalformedEncoders)
}

// requireEncoders is the backend, which must be one.
func requireEncoders(d *fixture) kernels.Encoders {
	d.T.Helper()
	e, err := kernels.EncodersOf(d.Backend)
	if err != nil {
		d.T.Fatal(err)
	}
	return e
}

// layerNorm is a norm and what it does to a row, by its definition.
type layerNorm struct {
	kernels.Norm
	weight, bias []float64
}

func newLayerNorm(d *fixture, n int, norm, bias bool) layerNorm {
	l := layerNorm{Norm: kernels.Norm{Eps: normEps}}
	if norm {
		l.Weight, l.weight = d.NormWeight(n)
	}
	if norm && bias {
		l.Bias, l.bias = d.NormWeight(n)
	}
	return l
}

func (l *layerNorm) expectedOutput(m Matrix) Matrix { return m.LayerNorm(l.weight, l.bias, normEps) }

func (s suite) testAddEmbed(t *testing.T) {
	for _, cols := range []int{5, 51, 128} {
		d := newFixture(t, s.open(t))
		table, w := d.Table(kernels.F32, 37, cols)
		ids := []uint32{36, 0, 5, 5, 17}
		before := Rounded(kernels.F32, d.Normal(len(ids)*cols, 1))
		x := d.Mat(kernels.F32, len(ids), cols, before)
		requireEncoders(d).AddEmbed(x, table, ids)
		var want []float64
		for _, id := range ids {
			want = append(want, w.Row(int(id))...)
		}
		checkValues(d.T, "added", Tolerance{Max: max(s.tol.Max, 1e-6), RMS: max(s.tol.RMS, 1e-6)}, subtractValues(d.Values(x), before), want)
	}
}

// eachNorm runs a test with no norm, and with one without and with bias.
func eachNorm(t *testing.T, name string, test func(t *testing.T, norm, bias bool)) {
	for _, c := range []struct{ norm, bias bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%s-norm=%t-bias=%t", name, c.norm, c.bias), func(t *testing.T) { test(t, c.norm, c.bias) })
	}
}

func (s suite) testLayerNorm(t *testing.T) {
	for _, shape := range [][2]int{{1, 3}, {5, 77}, {33, 130}, {70, 768}} {
		rows, cols := shape[0], shape[1]
		eachNorm(t, fmt.Sprintf("%dx%d", rows, cols), func(t *testing.T, norm, bias bool) {
			d := newFixture(t, s.open(t))
			n := newLayerNorm(d, cols, norm, bias)
			values := Rounded(kernels.F32, d.Normal(rows*cols, 3))
			for i := range values {
				values[i] += 5
			}
			values = Rounded(kernels.F32, values)
			want := n.expectedOutput(NewMatrix(rows, cols, values)).V
			x := d.Mat(kernels.F32, rows, cols, values)
			wide, narrow := d.Mat(kernels.F32, rows, cols, nil), d.Mat(d.ActType(), rows, cols, nil)
			requireEncoders(d).LayerNorm(wide, x, n.Norm)
			requireEncoders(d).LayerNorm(narrow, x, n.Norm)
			checkValues(d.T, "dst", Tolerance{Max: 1e-5, RMS: 1e-6}, d.Values(wide), want)
			checkValues(d.T, "dst as activations", s.tol, d.Values(narrow), want)
			checkValues(d.T, "x after", Tolerance{}, d.Values(x), values)
			requireEncoders(d).LayerNorm(x, x, n.Norm)
			checkBits(d.T, "in place", d.RowBits(x), d.RowBits(wide))
		})
	}
}

func (s suite) testLayerNormLinear(t *testing.T) {
	for _, c := range linearCases {
		eachNorm(t, c.String(), func(t *testing.T, norm, bias bool) {
			d := newFixture(t, s.open(t))
			l, w, b := d.Linear(c.typ, c.in, c.bias, c.out...)
			n := newLayerNorm(d, c.in, norm, bias)
			values := Rounded(kernels.F32, d.Normal(c.rows*c.in, 3))
			x := d.Mat(kernels.F32, c.rows, c.in, values)
			dst := d.Mat(d.ActType(), c.rows, w.Rows, nil)
			requireEncoders(d).LayerNormLinear(dst, x, n.Norm, l)
			checkValues(d.T, "dst", s.tol, d.Values(dst), n.expectedOutput(NewMatrix(c.rows, c.in, values)).TimesTransposed(w, b).V)
			checkValues(d.T, "x after", Tolerance{}, d.Values(x), values)
		})
	}
}

// encoderMLP is an MLP's matrices, and what it adds to x.
type encoderMLP struct {
	up, down kernels.Linear
	added    func(in Matrix) []float64
}

func newEncoderMLP(d *fixture, gated bool, act kernels.Activation, typ kernels.DType, hidden, inter int) encoderMLP {
	down, w, b := d.OutputLinear(typ, inter, true, hidden)
	if !gated {
		up, u, bias := d.Linear(typ, hidden, true, inter)
		return encoderMLP{up, down, func(in Matrix) []float64 {
			h := in.TimesTransposed(u, bias)
			for i := range h.V {
				h.V[i] = Activate(h.V[i], act)
			}
			return h.TimesTransposed(w, b).V
		}}
	}
	up, gate, other := d.GatedLinear(typ, inter, hidden, 0.2)
	return encoderMLP{up, down, func(in Matrix) []float64 {
		g, u := in.TimesTransposed(gate, nil), in.TimesTransposed(other, nil)
		for i := range g.V {
			g.V[i] = Activate(g.V[i], act) * u.V[i]
		}
		return g.TimesTransposed(w, b).V
	}}
}

func (s suite) testLayerNormMLP(t *testing.T) {
	for _, c := range []mlpCase{
		{1, 48, 77, kernels.BF16, 0}, {2, 64, 176, kernels.F16, 0}, {17, 100, 301, kernels.F32, 0}, {65, 96, 33, kernels.BF16, 0}, {300, 130, 250, kernels.BF16, 0},
	} {
		for act := kernels.GELU; act <= kernels.GELUTanh; act++ {
			for _, gated := range []bool{false, true} {
				eachNorm(t, fmt.Sprintf("%dx%dx%d-%s-%v-gated=%t", c.rows, c.hidden, c.inter, c.typ, act, gated), func(t *testing.T, norm, bias bool) {
					d := newFixture(t, s.open(t))
					m, n := newEncoderMLP(d, gated, act, c.typ, c.hidden, c.inter), newLayerNorm(d, c.hidden, norm, bias)
					before := Rounded(kernels.F32, d.Normal(c.rows*c.hidden, 2))
					x := d.Mat(kernels.F32, c.rows, c.hidden, before)
					requireEncoders(d).LayerNormMLP(x, n.Norm, act, m.up, m.down)
					checkValues(d.T, "added", s.tol, subtractValues(d.Values(x), before), m.added(n.expectedOutput(NewMatrix(c.rows, c.hidden, before))))
				})
			}
		}
	}
}

// lookBothWays makes attention that of encoders.
func (r *attentionRun) lookBothWays() {
	r.bothWays, r.oracle.BothWays = requireEncoders(r.fixture), true
}

// newBothWays is a run of attention that looks both ways, rotated or not.
func newBothWays(t *testing.T, open Open, c attentionCase, rotated bool) *attentionRun {
	r := newAttentionRun(newFixture(t, open(t)), c)
	r.lookBothWays()
	if !rotated {
		r.spec.Rope, r.oracle.Freq = nil, nil
	}
	return r
}

func (s suite) testAttentionBothWays(t *testing.T) {
	for _, c := range attentionCases {
		for _, rotated := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v-rotated=%t", c, rotated), func(t *testing.T) {
				s.compareAttention(newBothWays(t, s.open, c, rotated))
			})
		}
	}
}

// testRowsOfAttentionBothWays computes one sequence whole, in chunks, and beside others.
func (s suite) testRowsOfAttentionBothWays(t *testing.T) {
	for _, c := range rowCases {
		t.Run(c.String(), func(t *testing.T) {
			r := newBothWays(t, s.open, c, c.norm)
			seq := r.drawSequence(c.segs[0].rows)
			r.runAttention(false, part{seq, 0, seq.tokens})
			_, dst := r.runAttention(true, part{seq, 0, seq.tokens})
			want := r.RowBits(dst)
			for _, size := range chunkings {
				var got [][]byte
				for from := 0; from < seq.tokens; from += size {
					_, dst := r.runAttention(true, part{seq, from, min(seq.tokens, from+size)})
					got = append(got, r.RowBits(dst)...)
				}
				checkBits(r.T, fmt.Sprintf("chunks of %d rows", size), got, want)
			}
			again, before, after := &sequence{seq.qkv, seq.tokens, r.newBlocks(len(seq.blocks))}, r.drawSequence(37), r.drawSequence(5)
			_, dst = r.runAttention(true, part{before, 0, 37}, part{again, 0, seq.tokens}, part{after, 0, 5})
			checkBits(r.T, "beside others", r.RowBits(dst)[37:37+seq.tokens], want)
		})
	}
}

// encoderOps are the operations whose rows do not see one another, on fixed random inputs of n rows.
func encoderOps(d *fixture, n int) []rowsOp {
	const hidden, inter = 80, 150
	e := requireEncoders(d)
	l, _, _ := d.Linear(kernels.BF16, hidden, true, 96, 17)
	plain, gated := newEncoderMLP(d, false, kernels.GELU, kernels.BF16, hidden, inter), newEncoderMLP(d, true, kernels.GELU, kernels.BF16, hidden, inter)
	norm := newLayerNorm(d, hidden, true, true).Norm
	xs := NewMatrix(n, hidden, d.Normal(n*hidden, 2))
	x := func(rows []int) kernels.Mat { return d.Mat(kernels.F32, len(rows), hidden, xs.Pick(rows)) }
	mlp := func(m encoderMLP) func(rows []int) [][]byte {
		return func(rows []int) [][]byte {
			x := x(rows)
			e.LayerNormMLP(x, norm, kernels.GELU, m.up, m.down)
			return d.RowBits(x)
		}
	}
	return []rowsOp{
		{"LayerNorm", func(rows []int) [][]byte {
			x := x(rows)
			e.LayerNorm(x, x, norm)
			return d.RowBits(x)
		}},
		{"LayerNormLinear", func(rows []int) [][]byte {
			dst := d.Mat(d.ActType(), len(rows), l.Out(), nil)
			e.LayerNormLinear(dst, x(rows), norm, l)
			return d.RowBits(dst)
		}},
		{"LayerNormMLP", mlp(plain)},
		{"LayerNormMLP, gated", mlp(gated)},
	}
}

func (s suite) testRowsOfEncoders(t *testing.T) {
	d := newFixture(t, s.open(t))
	s.rowsOf(t, d, 600, encoderOps(d, 600))
}

// testMalformedEncoders: operands that do not fit are an error of Sync.
func (s suite) testMalformedEncoders(t *testing.T) {
	d := newFixture(t, s.open(t))
	e := requireEncoders(d)
	table, _ := d.Table(kernels.F32, 3, 8)
	e.AddEmbed(d.Mat(kernels.F32, 1, 8, nil), table, []uint32{3})
	if d.Sync() == nil {
		t.Error("a token outside the table: no error")
	}
	heads := kernels.Heads{Q: 1, KV: 1, Dim: 16}
	r := newBothWays(t, s.open, attentionCase{heads, 16, 0, false, 1, nil}, true)
	seq := r.drawSequence(16)
	qkv := r.Mat(r.ActType(), 16, heads.QKVCols(), seq.qkv)
	r.bothWays.AttentionBothWays(r.Mat(r.ActType(), 16, 16, nil), qkv, r.attentionSpec(), 16, []kernels.Segment{{Rows: 16, Blocks: seq.blocks, Len: 17}})
	if r.Sync() == nil {
		t.Error("a sequence longer than its blocks: no error")
	}
}

// SameBitsOfEncoders is SameBits for what kernels.Encoders adds.
func SameBitsOfEncoders(t *testing.T, a, b Open) {
	const n = 150
	sameBits(t, a, b, func(d *fixture) map[string][][]byte {
		bits := map[string][][]byte{}
		for _, op := range encoderOps(d, n) {
			bits[op.name] = op.compute(numbersBelow(n))
		}
		r := newAttentionRun(d, rowCases[0])
		r.lookBothWays()
		seq, beside := r.drawSequence(n), r.drawSequence(40)
		_, dst := r.runAttention(true, part{seq, 0, n}, part{beside, 0, 40})
		bits["AttentionBothWays"] = r.RowBits(dst)
		return bits
	})
}
