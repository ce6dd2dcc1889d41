package cuda

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/kernels"
)

// KVBlockBytes is keys [KV][tokens][Dim] and values of the same shape, bfloat16.
func (b *Backend) KVBlockBytes(h kernels.Heads, tokens int) int64 {
	return 2 * 2 * int64(h.KV) * int64(tokens) * int64(h.Dim)
}

// ScratchBytes is the normalised input, the gated matrix and its product, or logits' ids; with codes also a matrix as
// bfloat16, and sums that are to be scaled.
func (b *Backend) ScratchBytes(rows, maxIn, maxOut int, largest kernels.LargestCodes) int64 {
	if largest.I8 > 0 {
		rows, maxIn, maxOut = multipleOf(rows, Int8Rows), multipleOf(maxIn, codesMultiple), multipleOf(maxOut, codesMultiple)
	}
	bytes := 2*int64(rows)*int64(maxIn+maxOut+maxOut/2) + 4*int64(maxOut)
	if largest.I8 > 0 || largest.I8Alone > 0 || largest.FP8 > 0 && b.device.FP8() == FP8Sums {
		bytes += 4 * int64(rows) * int64(maxOut)
	}
	widened := largest.I8Alone
	if b.device.FP8() == NoFP8 {
		widened = max(widened, largest.FP8)
	}
	return bytes + 2*widened
}

// Embed launches one block a row.
func (b *Backend) Embed(x kernels.Mat, t kernels.Table, ids []uint32) {
	for _, id := range ids {
		if int(id) >= t.Rows() {
			b.fail("token %d is outside the table of %d rows", id, t.Rows())
			return
		}
	}
	list := b.uploadIDs(ids)
	b.device.Launch("pf_embed", [2]int{len(ids), 1}, block, uint64(at(x)), uint64(x.Stride), uint64(t.(*table).at()), uint64(list), uint64(t.Cols()))
}

func (t *table) at() Ptr  { return t.Buffer.(*buffer).at }
func (v *vector) at() Ptr { return v.Buffer.(*buffer).at }

func (b *Backend) uploadIDs(ids []uint32) Ptr {
	raw := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		raw = binary.LittleEndian.AppendUint32(raw, id)
	}
	list := b.tables.take(b, int64(len(raw)))
	if list != 0 {
		b.device.Upload(list, raw)
	}
	return list
}

// norm enqueues dst = RMSNorm(x) into dense rows.
func (b *Backend) norm(dst Ptr, x kernels.Mat, w kernels.Vector, eps float32) {
	b.device.Launch("pf_rms_norm", [2]int{x.Rows, 1}, block, uint64(dst), uint64(at(x)), uint64(x.Stride), uint64(w.(*vector).at()), uint64(x.Cols), word(eps))
}

// NormLinear normalises into scratch and multiplies.
func (b *Backend) NormLinear(dst, x kernels.Mat, w kernels.Vector, eps float32, l kernels.Linear) {
	m, d := l.(*linear), result{Mat: dst}
	inBytes := b.operandBytes(x.Rows, m)
	room := b.arena.take(b, inBytes+b.sumsBytes(m, d))
	if room == 0 {
		return
	}
	b.product(b.normed(x, w, eps, m, room), m, d, room+Ptr(inBytes))
}

// AddLinear accumulates in the product's epilogue.
func (b *Backend) AddLinear(x, src kernels.Mat, l kernels.Linear) { b.multiply(x, src, l, true) }

// multiply sets x = src l^T + bias, or adds it.
func (b *Backend) multiply(x, src kernels.Mat, l kernels.Linear, add bool) {
	m, d := l.(*linear), result{x, add}
	var inBytes int64
	if b.operandType(m).Scaled() {
		inBytes = b.operandBytes(x.Rows, m)
	}
	var room Ptr
	if bytes := inBytes + b.sumsBytes(m, d); bytes > 0 {
		if room = b.arena.take(b, bytes); room == 0 {
			return
		}
	}
	b.product(b.operandOf(src, m, room), m, d, room+Ptr(inBytes))
}

// addBias adds to x the bias of a layer that has one: cuBLASLt's epilogue has none in bfloat16 for
// float32 results.
func (b *Backend) addBias(x kernels.Mat, m *linear) {
	if m.bias != nil {
		b.device.Launch("pf_add_bias", [2]int{x.Rows, 1}, block, uint64(at(x)), uint64(x.Stride), uint64(m.biasPtr()), uint64(m.out))
	}
}

// MLP is norm, the gated product, SwiGLU, and the down product into x.
func (b *Backend) MLP(x kernels.Mat, w kernels.Vector, eps float32, gated, down kernels.Linear) {
	b.mlp(x, x, w, eps, gated, down, true)
}

// mlp sets dst to the down product, or adds it.
func (b *Backend) mlp(dst, x kernels.Mat, w kernels.Vector, eps float32, gated, down kernels.Linear, add bool) {
	g, d, into := gated.(*linear), down.(*linear), result{dst, add}
	both := result{Mat: kernels.Mat{Rows: x.Rows, Cols: g.out, Stride: g.out, Type: kernels.BF16}}
	inBytes, bothBytes, hiddenBytes := b.operandBytes(x.Rows, g), roundUp(2*int64(x.Rows)*int64(g.out)), b.operandBytes(x.Rows, d)
	room := b.arena.take(b, inBytes+bothBytes+hiddenBytes+max(b.sumsBytes(g, both), b.sumsBytes(d, into)))
	if room == 0 {
		return
	}
	both.Buf = &buffer{b.device, room + Ptr(inBytes), bothBytes}
	hidden := room + Ptr(inBytes+bothBytes)
	sums := hidden + Ptr(hiddenBytes)
	b.product(b.normed(x, w, eps, g, room), g, both, sums)
	b.product(b.swiglu(both.Mat, d, hidden), d, into, sums)
}

// Logits multiplies by the whole table, or takes the dot products with the listed rows.
func (b *Backend) Logits(dst, x kernels.Mat, w kernels.Vector, eps float32, t kernels.Table, ids []uint32) {
	for _, id := range ids {
		if int(id) >= t.Rows() {
			b.fail("token %d is outside the table of %d rows", id, t.Rows())
			return
		}
	}
	h := b.arena.take(b, 2*int64(x.Rows)*int64(x.Cols))
	if h == 0 {
		return
	}
	b.norm(h, x, w, eps)
	head := t.(*table)
	if ids == nil {
		b.device.Gemm(Gemm{M: x.Rows, N: head.rows, K: head.cols, Type: kernels.BF16, A: h, AStride: head.cols, W: head.at(), D: at(dst), DStride: dst.Stride, DType: kernels.F32})
		return
	}
	list := b.uploadIDs(ids)
	labels := (len(ids) + block/32 - 1) / (block / 32)
	b.device.Launch("pf_label_logits", [2]int{labels, x.Rows}, block, uint64(at(dst)), uint64(dst.Stride), uint64(h), uint64(head.at()), uint64(list), uint64(len(ids)), uint64(head.cols))
}
