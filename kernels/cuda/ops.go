package cuda

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/kernels"
)

// KVBlockBytes is keys [KV][tokens][Dim] and values of the same shape, bfloat16.
func (b *Backend) KVBlockBytes(h kernels.Heads, tokens int) int64 {
	return 2 * 2 * int64(h.KV) * int64(tokens) * int64(h.Dim)
}

// ScratchBytes is the normalised input, the gated matrix and its product, or logits' ids.
func (b *Backend) ScratchBytes(rows, maxIn, maxOut int, _ int64) int64 {
	return 2*int64(rows)*int64(maxIn+maxOut+maxOut/2) + 4*int64(maxOut)
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
	h := b.arena.take(b, 2*int64(x.Rows)*int64(x.Cols))
	if h == 0 {
		return
	}
	b.norm(h, x, w, eps)
	m := l.(*linear)
	b.device.Gemm(Gemm{
		M: x.Rows, N: m.out, K: m.in, A: h, AStride: m.in, W: m.weights.(*buffer).at, Bias: m.biasPtr(),
		D: at(dst), DStride: dst.Stride, DType: dst.Type,
	})
}

// AddLinear accumulates in the product's epilogue.
func (b *Backend) AddLinear(x, src kernels.Mat, l kernels.Linear) { b.multiply(x, src, l, true) }

// multiply sets x = src l^T + bias, or adds it.
func (b *Backend) multiply(x, src kernels.Mat, l kernels.Linear, add bool) {
	m := l.(*linear)
	b.device.Gemm(Gemm{
		M: x.Rows, N: m.out, K: m.in, A: at(src), AStride: src.Stride, W: m.weights.(*buffer).at,
		D: at(x), DStride: x.Stride, DType: kernels.F32, Accumulate: add,
	})
	b.addBias(x, m)
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
	g, d := gated.(*linear), down.(*linear)
	rows, inter := int64(x.Rows), int64(d.in)
	h := b.arena.take(b, 2*align(rows*int64(g.in))+2*align(rows*2*inter)+2*rows*inter)
	if h == 0 {
		return
	}
	gateUp := h + Ptr(2*align(rows*int64(g.in)))
	product := gateUp + Ptr(2*align(rows*2*inter))
	b.norm(h, x, w, eps)
	b.device.Gemm(Gemm{M: x.Rows, N: g.out, K: g.in, A: h, AStride: g.in, W: g.weights.(*buffer).at, D: gateUp, DStride: g.out, DType: kernels.BF16})
	columns := max(1, int(inter)/8/block)
	b.device.Launch("pf_swiglu", [2]int{x.Rows, columns}, block, uint64(product), uint64(gateUp), uint64(inter))
	b.device.Gemm(Gemm{
		M: x.Rows, N: d.out, K: d.in, A: product, AStride: d.in, W: d.weights.(*buffer).at,
		D: at(dst), DStride: dst.Stride, DType: kernels.F32, Accumulate: add,
	})
	b.addBias(dst, d)
}

// align rounds a number of bfloat16 elements up to 256 bytes.
func align(elements int64) int64 { return (elements + 127) / 128 * 128 }

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
		b.device.Gemm(Gemm{M: x.Rows, N: head.rows, K: head.cols, A: h, AStride: head.cols, W: head.at(), D: at(dst), DStride: dst.Stride, DType: kernels.F32})
		return
	}
	list := b.uploadIDs(ids)
	labels := (len(ids) + block/32 - 1) / (block / 32)
	b.device.Launch("pf_label_logits", [2]int{labels, x.Rows}, block, uint64(at(dst)), uint64(dst.Stride), uint64(h), uint64(head.at()), uint64(list), uint64(len(ids)), uint64(head.cols))
}
