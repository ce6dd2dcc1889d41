package kerneltest

import (
	"fmt"
	"math"
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

// encoders is the backend, which must be one.
func (d *device) encoders() kernels.Encoders {
	d.t.Helper()
	e, err := kernels.EncodersOf(d.Backend)
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

// layerNorm is a norm and what it does to a row, by its definition.
type layerNorm struct {
	kernels.Norm
	weight, bias []float64
}

func (d *device) layerNorm(n int, norm, bias bool) layerNorm {
	l := layerNorm{Norm: kernels.Norm{Eps: normEps}}
	if norm {
		l.Weight, l.weight = d.normWeight(n)
	}
	if norm && bias {
		l.Bias, l.bias = d.normWeight(n)
	}
	return l
}

func (l *layerNorm) of(m matrix) matrix {
	if l.weight == nil {
		return m
	}
	out := matrix{m.rows, m.cols, make([]float64, 0, len(m.v))}
	for i := range m.rows {
		mean, variance := 0.0, 0.0
		for _, v := range m.row(i) {
			mean += v / float64(m.cols)
		}
		for _, v := range m.row(i) {
			variance += (v - mean) * (v - mean) / float64(m.cols)
		}
		for j, v := range m.row(i) {
			y := (v - mean) / math.Sqrt(variance+normEps) * l.weight[j]
			if l.bias != nil {
				y += l.bias[j]
			}
			out.v = append(out.v, y)
		}
	}
	return out
}

func (s suite) testAddEmbed(t *testing.T) {
	for _, cols := range []int{5, 51, 128} {
		d := newDevice(t, s.open)
		w := d.weight("embedding", kernels.F32, 37, cols, 1)
		table, err := d.NewTable(w.tensor)
		if err != nil {
			t.Fatal(err)
		}
		defer table.Free()
		ids := []uint32{36, 0, 5, 5, 17}
		before := rounded(kernels.F32, d.normal(len(ids)*cols, 1))
		x := d.mat(kernels.F32, len(ids), cols, before)
		d.encoders().AddEmbed(x, table, ids)
		var want []float64
		for _, id := range ids {
			want = append(want, w.row(int(id))...)
		}
		d.check("added", Tolerance{Max: max(s.tol.Max, 1e-6), RMS: max(s.tol.RMS, 1e-6)}, minus(d.values(x), before), want)
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
			d := newDevice(t, s.open)
			n := d.layerNorm(cols, norm, bias)
			values := rounded(kernels.F32, d.normal(rows*cols, 3))
			for i := range values {
				values[i] += 5
			}
			values = rounded(kernels.F32, values)
			want := n.of(matrix{rows, cols, values}).v
			x := d.mat(kernels.F32, rows, cols, values)
			wide, narrow := d.mat(kernels.F32, rows, cols, nil), d.mat(d.ActType(), rows, cols, nil)
			d.encoders().LayerNorm(wide, x, n.Norm)
			d.encoders().LayerNorm(narrow, x, n.Norm)
			d.check("dst", Tolerance{Max: 1e-5, RMS: 1e-6}, d.values(wide), want)
			d.check("dst as activations", s.tol, d.values(narrow), want)
			d.check("x after", Tolerance{}, d.values(x), values)
			d.encoders().LayerNorm(x, x, n.Norm)
			d.sameBits("in place", d.rowBits(x), d.rowBits(wide))
		})
	}
}

func (s suite) testLayerNormLinear(t *testing.T) {
	for _, c := range linearCases {
		eachNorm(t, c.String(), func(t *testing.T, norm, bias bool) {
			d := newDevice(t, s.open)
			l, w, b := d.linear(c.typ, c.in, c.bias, c.out...)
			n := d.layerNorm(c.in, norm, bias)
			values := rounded(kernels.F32, d.normal(c.rows*c.in, 3))
			x := d.mat(kernels.F32, c.rows, c.in, values)
			dst := d.mat(d.ActType(), c.rows, w.rows, nil)
			d.encoders().LayerNormLinear(dst, x, n.Norm, l)
			d.check("dst", s.tol, d.values(dst), n.of(matrix{c.rows, c.in, values}).timesTransposed(w, b).v)
			d.check("x after", Tolerance{}, d.values(x), values)
		})
	}
}

func geluOf(x float64, act kernels.Activation) float64 {
	if act == kernels.GELUTanh {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x / 2 * (1 + math.Erf(x/math.Sqrt2))
}

// encoderMLP is an MLP's matrices, and what it adds to x.
type encoderMLP struct {
	up, down kernels.Linear
	added    func(in matrix) []float64
}

func (d *device) encoderMLP(gated bool, act kernels.Activation, typ kernels.DType, hidden, inter int) encoderMLP {
	down, w, b := d.outputLinear(typ, inter, true, hidden)
	if !gated {
		up, u, bias := d.linear(typ, hidden, true, inter)
		return encoderMLP{up, down, func(in matrix) []float64 {
			h := in.timesTransposed(u, bias)
			for i := range h.v {
				h.v[i] = geluOf(h.v[i], act)
			}
			return h.timesTransposed(w, b).v
		}}
	}
	gate, other := d.weight("gate", typ, inter, hidden, 0.2), d.weight("up", typ, inter, hidden, 0.2)
	up, err := d.NewGatedLinear(gate.tensor, other.tensor)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(up.Free)
	return encoderMLP{up, down, func(in matrix) []float64 {
		g, u := in.timesTransposed(gate.matrix, nil), in.timesTransposed(other.matrix, nil)
		for i := range g.v {
			g.v[i] = geluOf(g.v[i], act) * u.v[i]
		}
		return g.timesTransposed(w, b).v
	}}
}

func (s suite) testLayerNormMLP(t *testing.T) {
	for _, c := range []mlpCase{
		{1, 48, 77, kernels.BF16}, {2, 64, 176, kernels.F16}, {17, 100, 301, kernels.F32}, {65, 96, 33, kernels.BF16}, {300, 130, 250, kernels.BF16},
	} {
		for act := range kernels.GELUTanh + 1 {
			for _, gated := range []bool{false, true} {
				eachNorm(t, fmt.Sprintf("%dx%dx%d-%s-%v-gated=%t", c.rows, c.hidden, c.inter, c.typ, act, gated), func(t *testing.T, norm, bias bool) {
					d := newDevice(t, s.open)
					m, n := d.encoderMLP(gated, act, c.typ, c.hidden, c.inter), d.layerNorm(c.hidden, norm, bias)
					before := rounded(kernels.F32, d.normal(c.rows*c.hidden, 2))
					x := d.mat(kernels.F32, c.rows, c.hidden, before)
					d.encoders().LayerNormMLP(x, n.Norm, act, m.up, m.down)
					d.check("added", s.tol, minus(d.values(x), before), m.added(n.of(matrix{c.rows, c.hidden, before})))
				})
			}
		}
	}
}

// newBothWays is a run of attention that looks both ways, rotated or not.
func newBothWays(t *testing.T, open Open, c attentionCase, rotated bool) *attentionRun {
	r := newAttentionRun(newDevice(t, open), c)
	r.bothWays = r.encoders()
	if !rotated {
		r.spec.Rope = nil
	}
	return r
}

func (s suite) testAttentionBothWays(t *testing.T) {
	for _, c := range attentionCases {
		for _, rotated := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v-rotated=%t", c, rotated), func(t *testing.T) {
				r := newBothWays(t, s.open, c, rotated)
				var parts []part
				var queries, want []float64
				for _, seg := range c.segs {
					seq := r.sequence(seg.cached + seg.rows + 3)
					r.call(false, part{seq, 0, seq.tokens})
					p := part{seq, seg.cached, seg.cached + seg.rows}
					parts = append(parts, p)
					q, out := r.expected(p)
					queries, want = append(queries, q...), append(want, out...)
				}
				qkv, dst := r.call(true, parts...)
				r.check("queries", s.tol, r.queriesOf(r.values(qkv)), queries)
				r.check("attention", s.tol, r.values(dst), want)
			})
		}
	}
}

// testRowsOfAttentionBothWays computes one sequence whole, in chunks, and beside others.
func (s suite) testRowsOfAttentionBothWays(t *testing.T) {
	for _, c := range rowCases {
		t.Run(c.String(), func(t *testing.T) {
			r := newBothWays(t, s.open, c, c.norm)
			seq := r.sequence(c.segs[0].rows)
			r.call(false, part{seq, 0, seq.tokens})
			_, dst := r.call(true, part{seq, 0, seq.tokens})
			want := r.rowBits(dst)
			for _, size := range chunkings {
				var got [][]byte
				for from := 0; from < seq.tokens; from += size {
					_, dst := r.call(true, part{seq, from, min(seq.tokens, from+size)})
					got = append(got, r.rowBits(dst)...)
				}
				r.sameBits(fmt.Sprintf("chunks of %d rows", size), got, want)
			}
			again, before, after := &sequence{seq.qkv, seq.tokens, r.blocks(len(seq.blocks))}, r.sequence(37), r.sequence(5)
			_, dst = r.call(true, part{before, 0, 37}, part{again, 0, seq.tokens}, part{after, 0, 5})
			r.sameBits("beside others", r.rowBits(dst)[37:37+seq.tokens], want)
		})
	}
}

// encoderOps are the operations whose rows do not see one another, on fixed random inputs of n rows.
func (d *device) encoderOps(n int) []rowsOp {
	const hidden, inter = 80, 150
	e := d.encoders()
	l, _, _ := d.linear(kernels.BF16, hidden, true, 96, 17)
	plain, gated := d.encoderMLP(false, kernels.GELU, kernels.BF16, hidden, inter), d.encoderMLP(true, kernels.GELU, kernels.BF16, hidden, inter)
	norm := d.layerNorm(hidden, true, true).Norm
	xs := matrix{n, hidden, d.normal(n*hidden, 2)}
	x := func(rows []int) kernels.Mat { return d.mat(kernels.F32, len(rows), hidden, xs.pick(rows)) }
	mlp := func(m encoderMLP) func(rows []int) [][]byte {
		return func(rows []int) [][]byte {
			x := x(rows)
			e.LayerNormMLP(x, norm, kernels.GELU, m.up, m.down)
			return d.rowBits(x)
		}
	}
	return []rowsOp{
		{"LayerNorm", func(rows []int) [][]byte {
			x := x(rows)
			e.LayerNorm(x, x, norm)
			return d.rowBits(x)
		}},
		{"LayerNormLinear", func(rows []int) [][]byte {
			dst := d.mat(d.ActType(), len(rows), l.Out(), nil)
			e.LayerNormLinear(dst, x(rows), norm, l)
			return d.rowBits(dst)
		}},
		{"LayerNormMLP", mlp(plain)},
		{"LayerNormMLP, gated", mlp(gated)},
	}
}

func (s suite) testRowsOfEncoders(t *testing.T) {
	d := newDevice(t, s.open)
	s.rowsOf(t, d, 600, d.encoderOps(600))
}

// testMalformedEncoders: operands that do not fit are an error of Sync.
func (s suite) testMalformedEncoders(t *testing.T) {
	d := newDevice(t, s.open)
	e := d.encoders()
	table, err := d.NewTable(d.weight("embedding", kernels.F32, 3, 8, 1).tensor)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Free()
	e.AddEmbed(d.mat(kernels.F32, 1, 8, nil), table, []uint32{3})
	if d.Sync() == nil {
		t.Error("a token outside the table: no error")
	}
	heads := kernels.Heads{Q: 1, KV: 1, Dim: 16}
	r := newBothWays(t, s.open, attentionCase{heads, 16, 0, false, 1, nil}, true)
	seq := r.sequence(16)
	qkv := r.mat(r.ActType(), 16, heads.QKVCols(), seq.qkv)
	r.bothWays.AttentionBothWays(r.mat(r.ActType(), 16, 16, nil), qkv, r.attention(), 16, []kernels.Segment{{Rows: 16, Blocks: seq.blocks, Len: 17}})
	if r.Sync() == nil {
		t.Error("a sequence longer than its blocks: no error")
	}
}

// SameBitsOfEncoders is SameBits for what kernels.Encoders adds.
func SameBitsOfEncoders(t *testing.T, a, b Open) {
	const n = 150
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	compute := func(open Open) map[string][][]byte {
		d := newDevice(t, open)
		bits := map[string][][]byte{}
		for _, op := range d.encoderOps(n) {
			bits[op.name] = op.compute(rows)
		}
		r := newAttentionRun(d, rowCases[0])
		r.bothWays = d.encoders()
		seq, beside := r.sequence(n), r.sequence(40)
		_, dst := r.call(true, part{seq, 0, n}, part{beside, 0, 40})
		bits["AttentionBothWays"] = r.rowBits(dst)
		return bits
	}
	want, got := compute(a), compute(b)
	for name := range want {
		(&device{t: t}).sameBits(name, got[name], want[name])
	}
}
