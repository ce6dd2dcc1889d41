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
// bfloat16, and sums that are to be scaled, but of hardly more than sumsCols columns.
func (b *Backend) ScratchBytes(rows, maxIn, maxOut int, largest kernels.LargestCodes) int64 {
	if largest.I8 > 0 {
		rows, maxIn, maxOut = multipleOf(rows, Int8Rows), multipleOf(maxIn, codesMultiple), multipleOf(maxOut, codesMultiple)
	}
	bytes := 2*int64(rows)*int64(maxIn+maxOut+maxOut/2) + 4*int64(maxOut)
	if largest.I8 > 0 || largest.I8Alone > 0 || largest.FP8 > 0 && b.device.FP8() == FP8Sums {
		bytes += 4 * int64(rows) * int64(min(maxOut, sumsCols+codesMultiple))
	}
	widened := min(largest.I8Alone, int64(sumsCols)*int64(maxIn))
	if b.device.FP8() == NoFP8 {
		widened = max(widened, largest.FP8)
	}
	return bytes + 2*widened
}

// Embed launches one block a row.
func (b *Backend) Embed(x kernels.Mat, t kernels.Table, ids []uint32, scale float32) {
	rows := t.(table)
	if rows.typ.Scaled() {
		b.fail("a table of %s is an LM head, which nothing is looked up in", rows.typ)
		return
	}
	if list, ok := b.rowsIn(rows, ids); ok {
		b.device.Launch("pf_embed", [2]int{len(ids), 1}, block, uint64(at(x)), uint64(x.Stride), uint64(rows.at()), uint64(list), uint64(rows.in), floatArg(scale))
	}
}

func (v *vector) at() Ptr { return v.Buffer.(*buffer).at }

// rowsIn uploads the numbers of rows of t; it is not ok after a failure that it reports.
func (b *Backend) rowsIn(t table, ids []uint32) (list Ptr, ok bool) {
	for _, id := range ids {
		if int(id) >= t.out {
			b.fail("token %d is outside the table of %d rows", id, t.out)
			return 0, false
		}
	}
	raw := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		raw = binary.LittleEndian.AppendUint32(raw, id)
	}
	if list = b.tables.allocBytes(b, int64(len(raw))); list == 0 {
		return 0, false
	}
	b.device.Upload(list, raw)
	return list, true
}

// normArgs are the last arguments of a kernel that normalises rows of so many columns.
func normArgs(n kernels.Norm, cols int) []uint64 {
	centred := uint64(0)
	if n.Centred {
		centred = 1
	}
	return []uint64{vectorArg(n.Weight), vectorArg(n.Bias), uint64(cols), floatArg(n.Eps), centred}
}

// AddNorm is one kernel.
func (b *Backend) AddNorm(x, src kernels.Mat, n kernels.Norm) {
	b.device.Launch("pf_add_norm", [2]int{x.Rows, 1}, block,
		append([]uint64{uint64(at(x)), uint64(x.Stride), uint64(at(src)), uint64(src.Stride)}, normArgs(n, x.Cols)...)...)
}

// NormLinear normalises into scratch and multiplies.
func (b *Backend) NormLinear(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear) {
	m, d := l.(*linear), result{Mat: dst}
	inBytes := b.operandBytes(x.Rows, m)
	room := b.arena.allocBytes(b, inBytes+b.sumsBytes(m, d))
	if room == 0 {
		return
	}
	b.enqueueProduct(b.normOperand(x, n, m, room), m, d, room+Ptr(inBytes))
}

// AddLinear accumulates in the product's epilogue.
func (b *Backend) AddLinear(x, src kernels.Mat, l kernels.Linear) { b.multiplyLinear(x, src, l, true) }

// multiplyLinear sets x = src l^T + bias, or adds it.
func (b *Backend) multiplyLinear(x, src kernels.Mat, l kernels.Linear, add bool) {
	m, d := l.(*linear), result{x, add}
	var inBytes int64
	if b.operandType(m).Scaled() {
		inBytes = b.operandBytes(x.Rows, m)
	}
	var room Ptr
	if bytes := inBytes + b.sumsBytes(m, d); bytes > 0 {
		if room = b.arena.allocBytes(b, bytes); room == 0 {
			return
		}
	}
	b.enqueueProduct(b.operandOf(src, m, room), m, d, room+Ptr(inBytes))
}

// addBias adds to x the bias of a layer that has one: cuBLASLt's epilogue has none in bfloat16 for
// float32 results.
func (b *Backend) addBias(x kernels.Mat, m *linear) {
	if m.bias != nil {
		b.device.Launch("pf_add_bias", [2]int{x.Rows, 1}, block, uint64(at(x)), uint64(x.Stride), uint64(m.biasPtr()), uint64(m.out))
	}
}

// MLP is norm, the first product, its activation, and the down product into x.
func (b *Backend) MLP(x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	b.mlp(x, x, n, act, up, down, true)
}

// Product is a product whose epilogue does not accumulate.
func (b *Backend) Product(dst, src kernels.Mat, l kernels.Linear) {
	b.multiplyLinear(dst, src, l, false)
}

// MLPProduct is MLP whose last product does not accumulate.
func (b *Backend) MLPProduct(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	b.mlp(dst, x, n, act, up, down, false)
}

// mlp sets dst to the down product, or adds it.
func (b *Backend) mlp(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear, add bool) {
	g, d, into := up.(*linear), down.(*linear), result{dst, add}
	both := result{Mat: kernels.Mat{Rows: x.Rows, Cols: g.out, Stride: g.out, Type: kernels.BF16}}
	inBytes, bothBytes, hiddenBytes := b.operandBytes(x.Rows, g), roundUp(2*int64(x.Rows)*int64(g.out)), b.operandBytes(x.Rows, d)
	room := b.arena.allocBytes(b, inBytes+bothBytes+hiddenBytes+max(b.sumsBytes(g, both), b.sumsBytes(d, into)))
	if room == 0 {
		return
	}
	both.Buf = &buffer{b.device, room + Ptr(inBytes), bothBytes}
	hidden := room + Ptr(inBytes+bothBytes)
	sums := hidden + Ptr(hiddenBytes)
	b.enqueueProduct(b.normOperand(x, n, g, room), g, both, sums)
	b.enqueueProduct(b.activeOperand(both.Mat, act, d, hidden), d, into, sums)
}

// Logits multiplies by the whole table, or takes the dot products with the listed rows.
func (b *Backend) Logits(dst, x kernels.Mat, n kernels.Norm, t kernels.Table, ids []uint32) {
	head := t.(table)
	if ids == nil {
		b.NormLinear(dst, x, n, head.linear)
		return
	}
	room := b.arena.allocBytes(b, b.operandBytes(x.Rows, head.linear))
	if room == 0 {
		return
	}
	list, ok := b.rowsIn(head, ids)
	if !ok {
		return
	}
	h := b.normOperand(x, n, head.linear, room)
	kernel, scales := "pf_label_logits", Ptr(0)
	if head.typ.Scaled() {
		kernel, scales = "pf_label_logits_int8", head.scalesPtr()
		if head.weightOnly {
			kernel = "pf_label_logits_int8_alone"
		}
	}
	labels := (len(ids) + block/32 - 1) / (block / 32)
	b.device.Launch(kernel, [2]int{labels, x.Rows}, block, uint64(at(dst)), uint64(dst.Stride), uint64(h.at), uint64(h.scales),
		uint64(head.at()), uint64(scales), uint64(list), uint64(len(ids)), uint64(head.k))
}
