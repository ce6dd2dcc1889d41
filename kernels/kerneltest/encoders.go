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
	const hidden = 80
	e, norm := requireEncoders(d), newLayerNorm(d, hidden, true, true).Norm
	xs := NewMatrix(n, hidden, d.Normal(n*hidden, 2))
	return []rowsOp{{"LayerNorm", func(rows []int) [][]byte {
		x := d.Mat(kernels.F32, len(rows), hidden, xs.Pick(rows))
		e.LayerNorm(x, x, norm)
		return d.RowBits(x)
	}}}
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
