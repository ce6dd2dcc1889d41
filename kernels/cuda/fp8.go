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

// fp8Multiple is what sizes, strides in bytes and addresses of FP8 products are multiples of.
const fp8Multiple = 16

// quantised says whether activations are quantised for l.
func (b *Backend) quantised(l *linear) bool {
	return l.scales != nil && b.device.FP8() != NoFP8 && l.in%fp8Multiple == 0 && l.out%fp8Multiple == 0
}

// operand is what stands on the left of a product: dense rows of codes with a scale each, or rows of
// bfloat16.
type operand struct {
	at     Ptr
	stride int
	scales Ptr // 0: bfloat16
}

// operandBytes is the room for rows to be multiplied with l.
func (b *Backend) operandBytes(rows int, l *linear) int64 {
	if b.quantised(l) {
		return roundUp(int64(rows)*int64(l.in)) + roundUp(4*int64(rows))
	}
	return roundUp(2 * int64(rows) * int64(l.in))
}

// result is where a product goes: d = ... + bias, or, of float32, d += ... + bias.
type result struct {
	kernels.Mat
	add bool
}

// scalesLater says whether sums of l's products into d are scaled by a kernel of ours: cuBLASLt scales
// none on this device, or cannot write to d. MLP's room has no address yet, but a suitable one.
func (b *Backend) scalesLater(l *linear, d result) bool {
	aligned := d.Stride%fp8Multiple == 0 && (d.Buf == nil || at(d.Mat)%fp8Multiple == 0)
	return b.quantised(l) && (b.device.FP8() == FP8Sums || !aligned)
}

// sumsBytes is the room for sums that are to be scaled.
func (b *Backend) sumsBytes(l *linear, d result) int64 {
	if b.scalesLater(l, d) {
		return roundUp(4 * int64(d.Rows) * int64(l.out))
	}
	return 0
}

// place is the operand for l at an address.
func (b *Backend) place(at Ptr, rows int, l *linear) operand {
	o := operand{at: at, stride: l.in}
	if b.quantised(l) {
		o.scales = at + Ptr(roundUp(int64(rows)*int64(l.in)))
	}
	return o
}

// roundUp makes a number of bytes a multiple of what memory is aligned to.
func roundUp(bytes int64) int64 { return (bytes + 255) / 256 * 256 }

// operandOf is src itself, or its quantised rows at an address.
func (b *Backend) operandOf(src kernels.Mat, l *linear, room Ptr) operand {
	if !b.quantised(l) {
		return operand{at: at(src), stride: src.Stride}
	}
	o := b.place(room, src.Rows, l)
	b.device.Launch("pf_quantise_fp8", [2]int{src.Rows, 1}, block, uint64(o.at), uint64(o.scales), uint64(at(src)), uint64(src.Stride), uint64(l.in))
	return o
}

// normed enqueues RMSNorm(x) as the operand for l.
func (b *Backend) normed(x kernels.Mat, w kernels.Vector, eps float32, l *linear, room Ptr) operand {
	o := b.place(room, x.Rows, l)
	if o.scales == 0 {
		b.norm(o.at, x, w, eps)
		return o
	}
	b.device.Launch("pf_rms_norm_fp8", [2]int{x.Rows, 1}, block, uint64(o.at), uint64(o.scales), uint64(at(x)), uint64(x.Stride), uint64(w.(*vector).at()), uint64(x.Cols), word(eps))
	return o
}

// swiglu enqueues silu(gate) * up as the operand for down; rows of both are dense.
func (b *Backend) swiglu(both kernels.Mat, down *linear, room Ptr) operand {
	o := b.place(room, both.Rows, down)
	if o.scales != 0 {
		b.device.Launch("pf_swiglu_fp8", [2]int{both.Rows, 1}, block, uint64(o.at), uint64(o.scales), uint64(at(both)), uint64(down.in))
		return o
	}
	columns := max(1, down.in/8/block)
	b.device.Launch("pf_swiglu", [2]int{both.Rows, columns}, block, uint64(o.at), uint64(at(both)), uint64(down.in))
	return o
}

// product enqueues d = a l^T + bias, or d += ...; sums is room for sumsBytes.
func (b *Backend) product(a operand, l *linear, d result, sums Ptr) {
	g := Gemm{
		M: d.Rows, N: l.out, K: l.in, A: a.at, AStride: a.stride, W: l.weights.(*buffer).at,
		D: at(d.Mat), DStride: d.Stride, DType: d.Type, Accumulate: d.add,
	}
	if d.Type == kernels.BF16 {
		g.Bias = l.biasPtr()
	}
	switch {
	case l.scales == nil:
	case a.scales == 0:
		g.W = b.widened.of(b, l)
	case b.scalesLater(l, d):
		b.scaleSums(g, a.scales, l, sums)
		return
	default:
		g.FP8, g.AScale, g.WScale = true, a.scales, l.scalesPtr()
	}
	b.device.Gemm(g)
	if d.Type == kernels.F32 {
		b.addBias(d.Mat, l)
	}
}

// scaleSums enqueues g in two steps: sums of products of codes, and their scales.
func (b *Backend) scaleSums(g Gemm, rowScales Ptr, l *linear, sums Ptr) {
	b.device.Gemm(Gemm{M: g.M, N: g.N, K: g.K, A: g.A, AStride: g.AStride, W: g.W, D: sums, DStride: g.N, DType: kernels.F32, FP8: true})
	kernel := "pf_scale_sums"
	switch {
	case g.Accumulate:
		kernel = "pf_add_scaled_sums"
	case g.DType == kernels.F32:
		kernel = "pf_scale_sums_f32"
	}
	b.device.Launch(kernel, [2]int{g.M, max(1, g.N/8/block)}, block,
		uint64(g.D), uint64(g.DStride), uint64(sums), uint64(rowScales), uint64(l.scalesPtr()), uint64(l.biasPtr()), uint64(g.N))
}

// widened is the last matrix that was made bfloat16: in a pass of one chunk each matrix is used once.
type widened struct {
	scratch
	held *linear
}

// of is the address of l's weights as bfloat16, or 0 after a failure that it reports to b.
func (w *widened) of(b *Backend, l *linear) Ptr {
	if w.held == l {
		return w.base
	}
	w.held = nil
	at := w.take(b, 2*int64(l.in)*int64(l.out))
	if at == 0 {
		return 0
	}
	w.held = l
	columns := max(1, l.in/8/block)
	b.device.Launch("pf_dequantise_fp8", [2]int{l.out, columns}, block, uint64(at), uint64(l.weights.(*buffer).at), uint64(l.scalesPtr()), uint64(l.in))
	return at
}

func (w *widened) free() {
	w.held = nil
	w.scratch.free()
}

// stackFP8 uploads the codes and the scales of parts.
func (b *Backend) stackFP8(parts []kernels.HostTensor, l *linear) error {
	var scales []float32
	for _, p := range parts {
		scales = append(scales, p.Scale...)
	}
	codes, err := b.Alloc(int64(l.in) * int64(l.out))
	if err != nil {
		return err
	}
	if l.scales, err = b.uploadFloats(scales); err != nil {
		codes.Free()
		return err
	}
	l.weights = codes
	var off int64
	for _, p := range parts {
		n, err := b.upload(codes, off, p)
		if err != nil {
			return err
		}
		off += n
	}
	return nil
}
