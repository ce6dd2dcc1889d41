//go:build cgo && linux && amd64

package cpu

/*
#include "prefillonly_kernels.h"
*/
import "C"

import (
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.LowRanks = (*Backend)(nil)

// lowRankMemory is what stands between the products of operations with low-rank ones. It grows to the largest asked for.
type lowRankMemory struct{ wide, inner, between *buffer }

func (m *lowRankMemory) free() {
	for _, at := range []**buffer{&m.wide, &m.inner, &m.between} {
		if *at != nil {
			(*at).Free()
			*at = nil
		}
	}
}

// growMemory is memory of so many bytes at least; nil, and an error of the operation, where there is none.
func (b *Backend) growMemory(op string, at **buffer, bytes int64) *buffer {
	if *at != nil && (*at).Bytes() >= bytes {
		return *at
	}
	grown, err := newBuffer(bytes)
	if err != nil {
		b.fail("%s: %w", op, err)
		return nil
	}
	if *at != nil {
		(*at).Free()
	}
	*at = grown
	return grown
}

// offsetBy is the address of an element behind p.
func offsetBy[T any](p *T, elements int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), int64(elements)*int64(unsafe.Sizeof(*p))))
}

func roundToPanels(n int) int64 { return (int64(n) + C.PF_PANEL - 1) / C.PF_PANEL * C.PF_PANEL }

// LowRankBytes is for sums of whole panels, the activation, and what stands between A and B. Sums of gated matrices are twice as wide as inner.
func (b *Backend) LowRankBytes(rows, widest, inner, rank int) int64 {
	return int64(rows) * (4*max(roundToPanels(widest), 2*roundToPanels(inner)) + 2*roundToPanels(inner) + 2*roundToPanels(rank))
}

// AddLowRank adds products as they come out of the registers.
func (b *Backend) AddLowRank(x, src kernels.Mat, low []kernels.LowRank) {
	const op = "AddLowRank"
	if !b.fits(op, "x", x, x.Rows, x.Cols, kernels.F32) || !b.fits(op, "src", src, x.Rows, src.Cols, kernels.BF16) || !b.fitLowRanks(op, x.Rows, src.Cols, x.Cols, low) {
		return
	}
	b.addLowRanks(op, float32s(x), x.Stride, bf16(src), src.Stride, low)
}

// fitLowRanks checks low-rank products beside those of a matrix of this shape.
func (b *Backend) fitLowRanks(op string, rows, in, out int, low []kernels.LowRank) bool {
	for _, p := range low {
		if p.Row < 0 || p.Rows < 1 || p.Row+p.Rows > rows || p.A.In() != in || p.A.Out() != p.B.In() || p.B.Out() != out {
			b.fail("%s: low-rank matrices [%d, %d] and [%d, %d] of rows %d to %d do not fit %d rows of a matrix [%d, %d]", op, p.A.Out(), p.A.In(), p.B.Out(), p.B.In(), p.Row, p.Row+p.Rows, rows, out, in)
			return false
		}
	}
	return true
}

// addLowRanks adds products of rows of src to floats.
func (b *Backend) addLowRanks(op string, to *C.float, stride int, src *C.pf_bf16, srcStride int, low []kernels.LowRank) {
	for _, p := range low {
		if between := b.growBetween(op, p); between != nil {
			from := offsetBy(src, p.Row*srcStride)
			b.check(op, C.pf_linear_bf16(b.pool, b.products, between, C.size_t(p.A.Out()), from, C.size_t(srcStride), C.int(p.Rows), &p.A.(*linear).c))
			b.addBetween(op, to, stride, between, p)
		}
	}
}

// addNormLowRanks adds products of normalised rows to floats.
func (b *Backend) addNormLowRanks(op string, to *C.float, stride int, x C.pf_rows, low []kernels.LowRank) {
	for _, p := range low {
		if between := b.growBetween(op, p); between != nil {
			rows := x
			rows.x, rows.rows = offsetBy(x.x, p.Row*int(x.stride)), C.int(p.Rows)
			b.check(op, C.pf_norm_linear(b.pool, b.products, between, C.size_t(p.A.Out()), &rows, &p.A.(*linear).c))
			b.addBetween(op, to, stride, between, p)
		}
	}
}

// growBetween is memory for what stands between A and B.
func (b *Backend) growBetween(op string, p kernels.LowRank) *C.pf_bf16 {
	memory := b.growMemory(op, &b.lowRank.between, 2*int64(p.Rows)*int64(p.A.Out()))
	if memory == nil {
		return nil
	}
	return (*C.pf_bf16)(memory.At(0))
}

func (b *Backend) addBetween(op string, to *C.float, stride int, between *C.pf_bf16, p kernels.LowRank) {
	l := p.B.(*linear).c
	if l.gated != 0 {
		l = C.pf_wide(&l)
	}
	rows := C.pf_rows{x: offsetBy(to, p.Row*stride), stride: C.size_t(stride), rows: C.int(p.Rows), cols: l.out, norm: C.PF_NO_NORM}
	b.check(op, C.pf_add_linear(b.pool, b.products, &rows, between, C.size_t(p.A.Out()), &l))
}

// wideProduct is normalised rows times a matrix and with low-rank products: floats of so many columns, whole panels; nil without memory.
func (b *Backend) wideProduct(op string, x C.pf_rows, l *linear, low []kernels.LowRank) (sums *C.float, cols int) {
	cols = int(l.c.panels) * C.PF_PANEL
	memory := b.growMemory(op, &b.lowRank.wide, 4*int64(x.rows)*int64(cols))
	if memory == nil {
		return nil, 0
	}
	sums = (*C.float)(memory.At(0))
	C.pf_clear(b.pool, &C.pf_rows{x: sums, stride: C.size_t(cols), rows: x.rows, cols: C.int(cols)})
	b.check(op, C.pf_norm_wide(b.pool, b.products, sums, C.size_t(cols), &x, &l.c))
	b.addNormLowRanks(op, sums, cols, x, low)
	return sums, cols
}

// NormLinearLowRank rounds its sums when all products are in them.
func (b *Backend) NormLinearLowRank(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear, low []kernels.LowRank) {
	const op = "NormLinearLowRank"
	if !b.fits(op, "dst", dst, x.Rows, l.Out(), kernels.BF16) || !b.fits(op, "x", x, x.Rows, l.In(), kernels.F32) || !b.fitLowRanks(op, x.Rows, l.In(), l.Out(), low) {
		return
	}
	rows, ok := b.residual(op, x, n)
	if !ok {
		return
	}
	if sums, cols := b.wideProduct(op, rows, l.(*linear), low); sums != nil {
		rounded := C.pf_rows{x: sums, stride: C.size_t(cols), rows: rows.rows, cols: C.int(l.Out()), norm: C.PF_NO_NORM}
		C.pf_layer_norm(b.pool, b.products, dst.Buf.(*buffer).At(dst.Off), C.PF_BF16, C.size_t(dst.Stride), &rounded)
	}
}

// MLPLowRank keeps its sums between the two matrices, which MLP does not.
func (b *Backend) MLPLowRank(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear, ups, downs []kernels.LowRank) {
	const op = "MLPLowRank"
	how, known := activations[act]
	if !known || act == kernels.SiLU && up.(*linear).c.gated == 0 {
		b.fail("%s: activation %v of a network that is not gated, or unknown", op, act)
		return
	}
	if !b.inner(op, x, up, down) || !b.fits(op, "dst", dst, x.Rows, x.Cols, kernels.F32) ||
		!b.fitLowRanks(op, x.Rows, x.Cols, up.Out(), ups) || !b.fitLowRanks(op, x.Rows, down.In(), x.Cols, downs) {
		return
	}
	rows, ok := b.residual(op, x, n)
	if !ok {
		return
	}
	sums, cols := b.wideProduct(op, rows, up.(*linear), ups)
	width := cols
	if up.(*linear).c.gated != 0 {
		width /= 2
	}
	memory := b.growMemory(op, &b.lowRank.inner, 2*int64(x.Rows)*int64(width))
	if sums == nil || memory == nil || dst != x && !b.clear(op, dst, x.Rows, x.Cols) {
		return
	}
	inner := (*C.pf_bf16)(memory.At(0))
	C.pf_activate(b.pool, b.products, inner, C.size_t(width), sums, C.size_t(cols), rows.rows, how, &up.(*linear).c)
	to := C.pf_rows{x: float32s(dst), stride: C.size_t(dst.Stride), rows: rows.rows, cols: rows.cols, norm: C.PF_NO_NORM}
	b.check(op, C.pf_add_linear(b.pool, b.products, &to, inner, C.size_t(width), &down.(*linear).c))
	b.addLowRanks(op, to.x, dst.Stride, inner, width, downs)
}
