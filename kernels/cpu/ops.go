//go:build cgo && linux && amd64

package cpu

/*
#include "prefillonly_kernels.h"
*/
import "C"

import "github.com/prefillonly/prefillonly/kernels"

// residual describes x and the normalisation that the operation begins with.
func (b *Backend) residual(op string, x kernels.Mat, w kernels.Vector, eps float32) (C.pf_rows, bool) {
	if !b.fits(op, "x", x, x.Rows, x.Cols, kernels.F32) {
		return C.pf_rows{}, false
	}
	rows := C.pf_rows{x: float32s(x), stride: C.size_t(x.Stride), rows: C.int(x.Rows), cols: C.int(x.Cols), eps: C.float(eps)}
	if w != nil {
		if w.Len() != x.Cols {
			b.fail("%s: got %d norm weights, want %d", op, w.Len(), x.Cols)
			return C.pf_rows{}, false
		}
		rows.weight = w.(*vector).floats()
	}
	return rows, x.Rows > 0
}

// NormLinear normalises while it packs the rows of x.
func (b *Backend) NormLinear(dst, x kernels.Mat, w kernels.Vector, eps float32, l kernels.Linear) {
	if !b.fits("NormLinear", "dst", dst, x.Rows, l.Out(), kernels.BF16) || !b.fits("NormLinear", "x", x, x.Rows, l.In(), kernels.F32) {
		return
	}
	if rows, ok := b.residual("NormLinear", x, w, eps); ok {
		b.check("NormLinear", C.pf_norm_linear(b.pool, b.products, bf16(dst), C.size_t(dst.Stride), &rows, &l.(*linear).c))
	}
}

// AddLinear adds products to the residual stream as they come out of the registers.
func (b *Backend) AddLinear(x, src kernels.Mat, l kernels.Linear) {
	if !b.fits("AddLinear", "src", src, x.Rows, l.In(), kernels.BF16) || !b.fits("AddLinear", "x", x, x.Rows, l.Out(), kernels.F32) {
		return
	}
	if rows, ok := b.residual("AddLinear", x, nil, 0); ok {
		b.check("AddLinear", C.pf_add_linear(b.pool, b.products, &rows, bf16(src), C.size_t(src.Stride), &l.(*linear).c))
	}
}

// MLP keeps the activation between its two products packed, some rows at a time.
func (b *Backend) MLP(x kernels.Mat, w kernels.Vector, eps float32, act kernels.Activation, gated, down kernels.Linear) {
	b.mlp("MLP", x, x, w, eps, act, gated, down)
}

// activations are the kernels' numbers of activations.
var activations = map[kernels.Activation]C.pf_activation{kernels.SiLU: C.PF_SILU, kernels.GELU: C.PF_GELU_ERF, kernels.GELUTanh: C.PF_GELU_TANH}

// mlp adds the product to dst.
func (b *Backend) mlp(op string, dst, x kernels.Mat, w kernels.Vector, eps float32, act kernels.Activation, gated, down kernels.Linear) {
	how, known := activations[act]
	if !known {
		b.fail("%s: unknown activation %v", op, act)
		return
	}
	if !b.inner(op, x, gated, down) {
		return
	}
	if rows, ok := b.residual(op, x, w, eps); ok {
		b.check(op, C.pf_mlp(b.pool, b.products, float32s(dst), C.size_t(dst.Stride), &rows, how, &gated.(*linear).c, &down.(*linear).c))
	}
}

// inner checks the matrices of an MLP.
func (b *Backend) inner(op string, x kernels.Mat, up, down kernels.Linear) bool {
	if up.In() != x.Cols || up.Out() != down.In() || down.Out() != x.Cols {
		b.fail("%s: matrices [%d, %d] and [%d, %d] do not fit %d columns", op, up.Out(), up.In(), down.Out(), down.In(), x.Cols)
		return false
	}
	return true
}
