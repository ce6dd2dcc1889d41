package cuda

import "github.com/prefillonly/prefillonly/kernels"

// FP8 is what a device's matrix products do with operands in FP8.
type FP8 uint8

// The kinds of devices, by compute capability.
const (
	NoFP8     FP8 = iota // 8.0: nothing; weights become bfloat16 before a product
	FP8Sums              // 8.9: they sum products of codes, which another kernel scales
	FP8Scaled            // 9.0: they scale the sums, too
)

// codesMultiple is what sizes, strides in bytes and addresses of products of codes are multiples of. FP8 needs it. For int8
// cuBLASLt's documentation of cublasLtMatmul asks for multiples of 4 and advises 16; matrices are filled up with zeros.
const codesMultiple = 16

// Int8Rows is what the rows of int8 products are a multiple of. It is not documented, but of few or odd numbers of rows
// cuBLASLt computes no int8 on some GPUs (pytorch/pytorch pull request 178469, OpenNMT/CTranslate2 pull request 1937).
const Int8Rows = 32

// multipleOf rounds n up.
func multipleOf(n, of int) int { return (n + of - 1) / of * of }

// operandType is what activations become for a product with l.
func (b *Backend) operandType(l *linear) kernels.DType {
	switch {
	case l.typ == kernels.I8 && !l.weightOnly:
		return kernels.I8
	case l.typ == kernels.F8E4M3 && b.device.FP8() != NoFP8 && l.in%codesMultiple == 0 && l.out%codesMultiple == 0:
		return kernels.F8E4M3
	}
	return kernels.BF16
}

// loadInstruction is what stands on the left of a product: rows of codes with a scale each, or rows of bfloat16.
type loadInstruction struct {
	typ    kernels.DType
	at     Ptr
	stride int
	scales Ptr // 0: bfloat16
}

// rowsOf is how many rows a product of so many has in memory. What is in those beyond them goes nowhere.
func rowsOf(rows int, typ kernels.DType) int {
	if typ == kernels.I8 {
		return multipleOf(rows, Int8Rows)
	}
	return rows
}

// operandBytes is the room for rows to be multiplied with l.
func (b *Backend) operandBytes(rows int, l *linear) int64 {
	typ := b.operandType(l)
	bytes := roundUp(int64(rowsOf(rows, typ)) * int64(l.k) * typ.Size())
	if typ.Scaled() {
		bytes += roundUp(4 * int64(rows))
	}
	return bytes
}

// result is where a product goes: d = ... + bias, or, of float32, d += ... + bias.
type result struct {
	kernels.Mat
	add bool
}

// scalesLater says whether sums of l's products into d are scaled by a kernel of ours: those of int8 are, and those of FP8 where
// cuBLASLt scales none on this device, or cannot write to d. MLP's room has no address yet, but a suitable one.
func (b *Backend) scalesLater(l *linear, d result) bool {
	if l.typ == kernels.I8 {
		return true
	}
	aligned := d.Stride%codesMultiple == 0 && (d.Buf == nil || at(d.Mat)%codesMultiple == 0)
	return b.operandType(l) == kernels.F8E4M3 && (b.device.FP8() == FP8Sums || !aligned)
}

// sumsCols is how many columns of a product with codes have their sums in memory at a time, and their int8 weights as bfloat16:
// all of a layer's in most models, and some of an LM head's, which are the vocabulary. It is a multiple of codesMultiple.
const sumsCols = 32768

// sumsBytes is the room for sums that are to be scaled, of the widest piece.
func (b *Backend) sumsBytes(l *linear, d result) int64 {
	if b.scalesLater(l, d) {
		return roundUp(4 * int64(rowsOf(d.Rows, b.operandType(l))) * int64(l.pieces[0].n))
	}
	return 0
}

// place is the operand for l at an address.
func (b *Backend) place(at Ptr, rows int, l *linear) loadInstruction {
	o := loadInstruction{typ: b.operandType(l), at: at, stride: l.k}
	if o.typ.Scaled() {
		o.scales = at + Ptr(roundUp(int64(rowsOf(rows, o.typ))*int64(l.k)))
	}
	return o
}

// roundUp makes a number of bytes a multiple of what memory is aligned to.
func roundUp(bytes int64) int64 { return (bytes + 255) / 256 * 256 }

// codesSuffix ends the names of kernels that leave rows of such codes.
func codesSuffix(typ kernels.DType) string {
	if typ == kernels.I8 {
		return "_int8"
	}
	return "_fp8"
}

// quantizeRows launches a kernel that leaves rows of codes at o.
func (b *Backend) quantizeRows(kernel string, rows int, o loadInstruction, args ...uint64) {
	b.device.Launch(kernel+codesSuffix(o.typ), [2]int{rows, 1}, block, append([]uint64{uint64(o.at), uint64(o.stride), uint64(o.scales)}, args...)...)
}

// operandOf is src itself, or its quantised rows at an address.
func (b *Backend) operandOf(src kernels.Mat, l *linear, room Ptr) loadInstruction {
	o := b.place(room, src.Rows, l)
	if !o.typ.Scaled() {
		return loadInstruction{typ: o.typ, at: at(src), stride: src.Stride}
	}
	b.quantizeRows("pf_quantise", src.Rows, o, uint64(at(src)), uint64(src.Stride), uint64(l.in))
	return o
}

// normOperand enqueues n(x) as the operand for l.
func (b *Backend) normOperand(x kernels.Mat, n kernels.Norm, l *linear, room Ptr) loadInstruction {
	o := b.place(room, x.Rows, l)
	args := append([]uint64{uint64(at(x)), uint64(x.Stride)}, normArgs(n, x.Cols)...)
	if o.typ.Scaled() {
		b.quantizeRows("pf_norm", x.Rows, o, args...)
	} else {
		b.device.Launch("pf_norm", [2]int{x.Rows, 1}, block, append([]uint64{uint64(o.at)}, args...)...)
	}
	return o
}

// activeOperand enqueues act(gate) * up, or act(up) of what is not gated, as the operand for down; rows of inner are dense.
func (b *Backend) activeOperand(inner kernels.Mat, act kernels.Activation, down *linear, room Ptr) loadInstruction {
	o := b.place(room, inner.Rows, down)
	args := []uint64{uint64(at(inner)), uint64(inner.Cols), uint64(down.in), uint64(act)}
	if o.typ.Scaled() {
		b.quantizeRows("pf_activate", inner.Rows, o, args...)
		return o
	}
	columns := max(1, down.in/8/block)
	b.device.Launch("pf_activate", [2]int{inner.Rows, columns}, block, append([]uint64{uint64(o.at)}, args...)...)
	return o
}

// enqueueProduct enqueues d = a l^T + bias, or d += ...; sums is room for sumsBytes.
func (b *Backend) enqueueProduct(a loadInstruction, l *linear, d result, sums Ptr) {
	if b.scalesLater(l, d) {
		for _, piece := range l.pieces {
			b.scaledProduct(a, piece, d, sums)
			d.Off += int64(piece.out) * d.Type.Size()
		}
		return
	}
	g := Gemm{
		M: d.Rows, N: l.out, K: l.in, Type: a.typ, A: a.at, AStride: a.stride, W: b.factorAddress(l, a.typ),
		D: at(d.Mat), DStride: d.Stride, DType: d.Type, Accumulate: d.add,
	}
	if g.W == 0 {
		return
	}
	if a.typ.Scaled() {
		g.AScale, g.WScale = a.scales, l.scalesPtr()
	}
	if d.Type == kernels.BF16 {
		g.Bias = l.biasPtr()
	}
	b.device.Gemm(g)
	if d.Type == kernels.F32 {
		b.addBias(d.Mat, l)
	}
}

// scaledProduct is product in two steps: sums of products, and their scales, into the first columns of d.
func (b *Backend) scaledProduct(a loadInstruction, l *linear, d result, sums Ptr) {
	w := b.factorAddress(l, a.typ)
	if w == 0 {
		return
	}
	b.device.Gemm(Gemm{
		M: rowsOf(d.Rows, a.typ), N: l.n, K: l.k, Type: a.typ, A: a.at, AStride: a.stride, W: w - Ptr(l.before*l.k),
		D: sums, DStride: l.n, DType: kernels.F32,
	})
	kernel := "pf_scale_sums"
	if d.add {
		kernel = "pf_add_scaled_sums"
	}
	if a.typ == kernels.I8 {
		kernel += "_i32"
	}
	if d.Type == kernels.F32 && !d.add {
		kernel += "_f32"
	}
	b.device.Launch(kernel, [2]int{d.Rows, max(1, l.out/8/block)}, block,
		uint64(at(d.Mat)), uint64(d.Stride), uint64(sums)+uint64(4*l.before), uint64(l.n), uint64(a.scales), uint64(l.scalesPtr()), uint64(l.biasPtr()), uint64(l.out))
}

// factorAddress is the address of l's weights to be multiplied with operands of a type, or 0 after a failure that it reports.
func (b *Backend) factorAddress(l *linear, typ kernels.DType) Ptr {
	if l.typ.Scaled() && !typ.Scaled() {
		return b.widened.of(b, l)
	}
	return l.at()
}

// widened is the last matrix that was made bfloat16: in a pass of one chunk each matrix is used once.
type widened struct {
	scratch
	held *linear
}

// of is the address of l's weights as bfloat16, FP8 with and int8 without its scales, or 0 after a failure that it reports to b.
func (w *widened) of(b *Backend, l *linear) Ptr {
	if w.held == l {
		return w.base
	}
	w.held = nil
	elements := l.in * l.out
	at := w.allocBytes(b, 2*int64(elements))
	if at == 0 {
		return 0
	}
	w.held = l
	codes := uint64(l.at())
	if l.typ == kernels.I8 {
		b.device.Launch("pf_widen_int8", [2]int{min(fillBlocks, 1+elements/8/block), 1}, block, uint64(at), codes, uint64(elements))
		return at
	}
	b.device.Launch("pf_dequantise_fp8", [2]int{l.out, max(1, l.in/8/block)}, block, uint64(at), codes, uint64(l.scalesPtr()), uint64(l.in))
	return at
}

func (w *widened) freeWeights() {
	w.held = nil
	w.scratch.freeMemory()
}
