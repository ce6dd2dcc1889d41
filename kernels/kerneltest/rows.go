package kerneltest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// chunkings are the numbers of rows that a computation is cut into.
var chunkings = []int{1, 7, 64, 512}

// rowBits is the memory of each row of a matrix.
func (d *device) rowBits(m kernels.Mat) [][]byte {
	d.t.Helper()
	d.sync()
	raw := make([]byte, m.Buf.Bytes())
	d.Read(raw, m.Buf, 0)
	rows := make([][]byte, m.Rows)
	for i := range rows {
		at := m.Off + int64(i)*int64(m.Stride)*m.Type.Size()
		rows[i] = raw[at : at+int64(m.Cols)*m.Type.Size()]
	}
	return rows
}

func (d *device) sameBits(what string, got, want [][]byte) {
	d.t.Helper()
	if len(got) != len(want) {
		d.t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			d.t.Errorf("%s: row %d has other bits than in one call over all rows", what, i)
			return
		}
	}
}

// rowsOp computes some rows, given as indices into its inputs, in one call.
type rowsOp struct {
	name    string
	compute func(rows []int) [][]byte
}

// pick copies the given rows.
func (m matrix) pick(rows []int) []float64 {
	var v []float64
	for _, i := range rows {
		v = append(v, m.row(i)...)
	}
	return v
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
func (d *device) linearOps(shape opsShape, n int) []rowsOp {
	const vocabulary = 203
	hidden, inter := shape.hidden, shape.inter
	l, _, _ := d.linear(shape.typ, hidden, true, shape.parts...)
	back, _, _ := d.outputLinear(shape.typ, hidden, true, hidden)
	down, _, _ := d.outputLinear(shape.typ, inter, false, hidden)
	gated, err := d.NewGatedLinear(d.weight("gate", shape.typ, inter, hidden, 0.2).tensor, d.weight("up", shape.typ, inter, hidden, 0.2).tensor)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(gated.Free)
	headType := kernels.BF16
	if shape.typ == kernels.I8 {
		headType = kernels.I8
	}
	table, err := d.NewTable(d.weight("head", headType, vocabulary, hidden, 1).tensor)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(table.Free)
	norm, _ := d.normWeight(hidden)
	xs := matrix{n, hidden, d.normal(n*hidden, 2)}
	srcs := matrix{n, hidden, d.normal(n*hidden, 1)}
	x := func(rows []int) kernels.Mat { return d.mat(kernels.F32, len(rows), hidden, xs.pick(rows)) }
	return []rowsOp{
		{"NormLinear", func(rows []int) [][]byte {
			dst := d.mat(d.ActType(), len(rows), l.Out(), nil)
			d.NormLinear(dst, x(rows), norm, normEps, l)
			return d.rowBits(dst)
		}},
		{"AddLinear", func(rows []int) [][]byte {
			x := x(rows)
			d.AddLinear(x, d.mat(d.ActType(), len(rows), hidden, srcs.pick(rows)), back)
			return d.rowBits(x)
		}},
		{"MLP", func(rows []int) [][]byte {
			x := x(rows)
			d.MLP(x, norm, normEps, gated, down)
			return d.rowBits(x)
		}},
		{"Logits", func(rows []int) [][]byte {
			dst := d.mat(kernels.F32, len(rows), vocabulary, nil)
			d.Logits(dst, x(rows), norm, normEps, table, nil)
			return d.rowBits(dst)
		}},
		{"Logits of some", func(rows []int) [][]byte {
			ids := []uint32{202, 7, 7, 100}
			dst := d.mat(kernels.F32, len(rows), len(ids), nil)
			d.Logits(dst, x(rows), norm, normEps, table, ids)
			return d.rowBits(dst)
		}},
	}
}

// testRowsOfLinears computes rows in chunks of several sizes and in another order.
func (s suite) testRowsOfLinears(t *testing.T) {
	s.rowsOfLinears(t, halfOps)
	t.Run("Deep", func(t *testing.T) { s.rowsOfLinears(t, deepOps) })
}

func (s suite) rowsOfLinears(t *testing.T, shape opsShape) {
	d := newDevice(t, s.open)
	const n = 600
	s.rowsOf(t, d, n, d.linearOps(shape, n))
}

func (s suite) rowsOf(t *testing.T, d *device, n int, ops []rowsOp) {
	all := d.random.Perm(n)
	for _, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			d := d.within(t)
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
				for from := 0; from < rows; from += size {
					chunk := make([]int, 0, size)
					for i := from; i < min(rows, from+size); i++ {
						chunk = append(chunk, i)
					}
					got = append(got, op.compute(chunk)...)
				}
				d.sameBits(fmt.Sprintf("chunks of %d rows", size), got, want[:rows])
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
			r := newAttentionRun(newDevice(t, s.open), c)
			seq := r.sequence(c.segs[0].rows)
			_, dst := r.call(true, part{seq, 0, seq.tokens})
			want := r.rowBits(dst)
			// moved is the same sequence in other blocks.
			moved := func() *sequence {
				return &sequence{seq.qkv, seq.tokens, r.blocks(len(seq.blocks))}
			}
			for _, size := range chunkings {
				again := moved()
				var got [][]byte
				for from := 0; from < seq.tokens; from += size {
					_, dst := r.call(true, part{again, from, min(seq.tokens, from+size)})
					got = append(got, r.rowBits(dst)...)
				}
				r.sameBits(fmt.Sprintf("chunks of %d rows", size), got, want)
			}
			for _, cached := range []int{1, 16, 100, 255, 256, 257} {
				again := moved()
				r.call(false, part{again, 0, cached})
				before, after := r.sequence(37), r.sequence(5)
				_, dst := r.call(true, part{before, 0, 37}, part{again, cached, seq.tokens}, part{after, 0, 5})
				got := r.rowBits(dst)[37:]
				r.sameBits(fmt.Sprintf("after %d cached, beside others", cached), got[:seq.tokens-cached], want[cached:])
			}
		})
	}
}

// SameBits checks that two ways to open a backend, such as with one thread and with several, give the
// same bits.
func SameBits(t *testing.T, a, b Open) {
	const n = 150
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	compute := func(open Open) map[string][][]byte {
		d := newDevice(t, open)
		bits := map[string][][]byte{}
		for _, shape := range []opsShape{halfOps, deepOps, fp8Ops} {
			for _, op := range d.linearOps(shape, n) {
				bits[fmt.Sprintf("%s of %v", op.name, shape)] = op.compute(rows)
			}
		}
		r := newAttentionRun(d, rowCases[0])
		seq, beside := r.sequence(n), r.sequence(40)
		_, dst := r.call(true, part{seq, 0, n}, part{beside, 0, 40})
		bits["Attention"] = r.rowBits(dst)
		return bits
	}
	want, got := compute(a), compute(b)
	for name := range want {
		(&device{t: t}).sameBits(name, got[name], want[name])
	}
}
