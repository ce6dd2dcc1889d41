package kerneltest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// chunkings are the numbers of rows that a computation is cut into.
var chunkings = []int{1, 7, 64, 512}

// checkBits compares rows with those of one call over all.
func checkBits(t testing.TB, what string, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("%s: row %d has other bits than in one call over all rows", what, i)
			return
		}
	}
}

// rowsOp computes some rows, given as indices into its inputs, in one call.
type rowsOp struct {
	name    string
	compute func(rows []int) [][]byte
}

// opsShape is the matrices of linearOps: their type, and the widths of the first one's parts.
type opsShape struct {
	typ           kernels.DType
	hidden, inter int
	parts         []int
}

var (
	halfOps = opsShape{kernels.BF16, 80, 150, []int{96, 17, 17}}
	deepOps = opsShape{kernels.BF16, 96, 1090, []int{96, 17, 17}}
)

// linearOps are the operations whose rows do not see one another, on fixed random inputs of n rows.
func linearOps(d *fixture, shape opsShape, n int) []rowsOp {
	const vocabulary = 203
	hidden, inter := shape.hidden, shape.inter
	l, _, _ := d.Linear(shape.typ, hidden, true, shape.parts...)
	back, _, _ := d.OutputLinear(shape.typ, hidden, true, hidden)
	down, _, _ := d.OutputLinear(shape.typ, inter, false, hidden)
	gated, _, _ := d.GatedLinear(shape.typ, inter, hidden, 0.2)
	headType := kernels.BF16
	if shape.typ == kernels.I8 {
		headType = kernels.I8
	}
	table, _ := d.Table(headType, vocabulary, hidden)
	norm, _ := d.NormWeight(hidden)
	plain, centred := newBiasedMLP(d, false, kernels.GELU, kernels.BF16, hidden, inter), newLayerNorm(d, hidden, true, true).Norm
	xs := NewMatrix(n, hidden, d.Normal(n*hidden, 2))
	srcs := NewMatrix(n, hidden, d.Normal(n*hidden, 1))
	x := func(rows []int) kernels.Mat { return d.Mat(kernels.F32, len(rows), hidden, xs.Pick(rows)) }
	return []rowsOp{
		{"NormLinear", func(rows []int) [][]byte {
			dst := d.Mat(d.ActType(), len(rows), l.Out(), nil)
			d.NormLinear(dst, x(rows), rootMean(norm), l)
			return d.RowBits(dst)
		}},
		{"AddLinear", func(rows []int) [][]byte {
			x := x(rows)
			d.AddLinear(x, d.Mat(d.ActType(), len(rows), hidden, srcs.Pick(rows)), back)
			return d.RowBits(x)
		}},
		{"MLP", func(rows []int) [][]byte {
			x := x(rows)
			d.MLP(x, rootMean(norm), kernels.SiLU, gated, down)
			return d.RowBits(x)
		}},
		{"MLP, centred and not gated", func(rows []int) [][]byte {
			x := x(rows)
			d.MLP(x, centred, kernels.GELU, plain.up, plain.down)
			return d.RowBits(x)
		}},
		{"Product and AddNorm", func(rows []int) [][]byte {
			x, given := x(rows), d.Mat(kernels.F32, len(rows), hidden, nil)
			d.Product(given, d.Mat(d.ActType(), len(rows), hidden, srcs.Pick(rows)), back)
			d.AddNorm(x, given, rootMean(norm))
			return d.RowBits(x)
		}},
		{"Logits", func(rows []int) [][]byte {
			dst := d.Mat(kernels.F32, len(rows), vocabulary, nil)
			d.Logits(dst, x(rows), rootMean(norm), table, nil)
			return d.RowBits(dst)
		}},
		{"Logits of some", func(rows []int) [][]byte {
			ids := []uint32{202, 7, 7, 100}
			dst := d.Mat(kernels.F32, len(rows), len(ids), nil)
			d.Logits(dst, x(rows), rootMean(norm), table, ids)
			return d.RowBits(dst)
		}},
	}
}

// testRowsOfLinears computes rows in chunks of several sizes and in another order.
func (s suite) testRowsOfLinears(t *testing.T) {
	s.rowsOfLinears(t, halfOps)
	t.Run("Deep", func(t *testing.T) { s.rowsOfLinears(t, deepOps) })
}

func (s suite) rowsOfLinears(t *testing.T, shape opsShape) {
	d := newFixture(t, s.open(t))
	const n = 600
	s.rowsOf(t, d, n, linearOps(d, shape, n))
}

func (s suite) rowsOf(t *testing.T, d *fixture, n int, ops []rowsOp) {
	all := d.Random.Perm(n)
	for _, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			d := d.Within(t)
			want := make([][]byte, n)
			for i, bits := range op.compute(all) {
				want[all[i]] = bits
			}
			for _, size := range chunkings {
				rows := n
				if size == 1 {
					rows = 70 // one at a time is slow, and one is like another
				}
				var got [][]byte
				for chunk := range slices.Chunk(numbersBelow(rows), size) {
					got = append(got, op.compute(chunk)...)
				}
				checkBits(d.T, fmt.Sprintf("chunks of %d rows", size), got, want[:rows])
			}
		})
	}
}

var rowCases = []attentionCase{
	{kernels.Heads{Q: 14, KV: 2, Dim: 64}, 32, 0, false, 1, []span{{0, 600}}},
	{kernels.Heads{Q: 4, KV: 4, Dim: 128}, 16, 130, true, 1, []span{{0, 530}}},
	{kernels.Heads{Q: 8, KV: 1, Dim: 80}, 64, 0, true, 2, []span{{0, 290}}},
}

// testRowsOfAttention computes one sequence whole, in chunks, over cached keys, and beside others.
func (s suite) testRowsOfAttention(t *testing.T) {
	for _, c := range rowCases {
		t.Run(c.String(), func(t *testing.T) {
			r := newAttentionRun(newFixture(t, s.open(t)), c)
			seq := r.drawSequence(c.segs[0].rows)
			_, dst := r.runAttention(true, part{seq, 0, seq.tokens})
			want := r.RowBits(dst)
			// moved is the same sequence in other blocks.
			moved := func() *sequence {
				return &sequence{seq.qkv, seq.tokens, r.newBlocks(len(seq.blocks))}
			}
			for _, size := range chunkings {
				again := moved()
				var got [][]byte
				for from := 0; from < seq.tokens; from += size {
					_, dst := r.runAttention(true, part{again, from, min(seq.tokens, from+size)})
					got = append(got, r.RowBits(dst)...)
				}
				checkBits(r.T, fmt.Sprintf("chunks of %d rows", size), got, want)
			}
			for _, cached := range []int{1, 16, 100, 255, 256, 257} {
				again := moved()
				r.runAttention(false, part{again, 0, cached})
				before, after := r.drawSequence(37), r.drawSequence(5)
				_, dst := r.runAttention(true, part{before, 0, 37}, part{again, cached, seq.tokens}, part{after, 0, 5})
				got := r.RowBits(dst)[37:]
				checkBits(r.T, fmt.Sprintf("after %d cached, beside others", cached), got[:seq.tokens-cached], want[cached:])
			}
		})
	}
}

// numbersBelow is the numbers below n.
func numbersBelow(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// sameBits checks that two ways to open a backend compute the same bits.
func sameBits(t *testing.T, a, b Open, compute func(d *fixture) map[string][][]byte) {
	want, got := compute(newFixture(t, a(t))), compute(newFixture(t, b(t)))
	for name := range want {
		checkBits(t, name, got[name], want[name])
	}
}

// SameBits checks that two ways to open a backend, such as with one thread and with several, give the
// same bits.
func SameBits(t *testing.T, a, b Open) {
	const n = 150
	sameBits(t, a, b, func(d *fixture) map[string][][]byte {
		bits := map[string][][]byte{}
		for _, shape := range []opsShape{halfOps, deepOps, fp8Ops} {
			for _, op := range linearOps(d, shape, n) {
				bits[fmt.Sprintf("%s of %v", op.name, shape)] = op.compute(numbersBelow(n))
			}
		}
		r := newAttentionRun(d, rowCases[0])
		seq, beside := r.drawSequence(n), r.drawSequence(40)
		_, dst := r.runAttention(true, part{seq, 0, n}, part{beside, 0, 40})
		bits["Attention"] = r.RowBits(dst)
		return bits
	})
}
