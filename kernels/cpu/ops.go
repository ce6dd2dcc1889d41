//go:build cgo && linux && amd64

package cpu

/*
#include "prefillonly_kernels.h"
*/
import "C"

import "github.com/prefillonly/prefillonly/kernels"

// residual describes x and the normalisation that the operation begins with.
func (b *Backend) residual(op string, x kernels.Mat, n kernels.Norm) (C.pf_rows, bool) {
	if !b.fits(op, "x", x, x.Rows, x.Cols, kernels.F32) {
		return C.pf_rows{}, false
	}
	rows := C.pf_rows{x: float32s(x), stride: C.size_t(x.Stride), rows: C.int(x.Rows), cols: C.int(x.Cols), norm: C.PF_NO_NORM, eps: C.float(n.Eps)}
	for _, v := range []kernels.Vector{n.Weight, n.Bias} {
		if v != nil && v.Len() != x.Cols {
			b.fail("%s: got %d norm weights, want %d", op, v.Len(), x.Cols)
			return C.pf_rows{}, false
		}
	}
	if n.Weight != nil {
		if rows.norm = C.PF_RMS_NORM; n.Centred {
			rows.norm = C.PF_LAYER_NORM
		}
		rows.weight, rows.bias = normFloats(n.Weight), normFloats(n.Bias)
	}
	return rows, x.Rows > 0
}

// NormLinear normalises while it packs the rows of x.
func (b *Backend) NormLinear(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear) {
	if !b.fits("NormLinear", "dst", dst, x.Rows, l.Out(), kernels.BF16) || !b.fits("NormLinear", "x", x, x.Rows, l.In(), kernels.F32) {
		return
	}
	if rows, ok := b.residual("NormLinear", x, n); ok {
		b.check("NormLinear", C.pf_norm_linear(b.pool, b.products, bf16(dst), C.size_t(dst.Stride), &rows, &l.(*linear).c))
	}
}

// AddLinear adds products to the residual stream as they come out of the registers.
func (b *Backend) AddLinear(x, src kernels.Mat, l kernels.Linear) {
	if !b.fits("AddLinear", "src", src, x.Rows, l.In(), kernels.BF16) || !b.fits("AddLinear", "x", x, x.Rows, l.Out(), kernels.F32) {
		return
	}
	if rows, ok := b.residual("AddLinear", x, kernels.Norm{}); ok {
		b.check("AddLinear", C.pf_add_linear(b.pool, b.products, &rows, bf16(src), C.size_t(src.Stride), &l.(*linear).c))
	}
}

// AddNorm adds the rows of src that the operation normalises.
func (b *Backend) AddNorm(x, src kernels.Mat, n kernels.Norm) {
	if !b.fits("AddNorm", "x", x, src.Rows, src.Cols, kernels.F32) {
		return
	}
	if n.Weight == nil || n.Centred {
		b.fail("AddNorm: want a norm with weights that is not centred")
		return
	}
	if rows, ok := b.residual("AddNorm", src, n); ok {
		C.pf_add_norm(b.pool, b.products, float32s(x), C.size_t(x.Stride), &rows)
	}
}

// MLP keeps the activation between its two products packed, some rows at a time.
func (b *Backend) MLP(x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	b.mlp("MLP", x, x, n, act, up, down)
}

// Product adds to zeros.
func (b *Backend) Product(dst, src kernels.Mat, l kernels.Linear) {
	if b.clear("Product", dst, dst.Rows, l.Out()) {
		b.AddLinear(dst, src, l)
	}
}

// MLPProduct adds to zeros.
func (b *Backend) MLPProduct(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	if b.clear("MLPProduct", dst, x.Rows, x.Cols) {
		b.mlp("MLPProduct", dst, x, n, act, up, down)
	}
}

func (b *Backend) clear(op string, dst kernels.Mat, rows, cols int) bool {
	if !b.fits(op, "dst", dst, rows, cols, kernels.F32) {
		return false
	}
	if all, ok := b.residual(op, dst, kernels.Norm{}); ok {
		C.pf_clear(b.pool, &all)
	}
	return true
}

// activations are the kernels' numbers of activations.
var activations = map[kernels.Activation]C.pf_activation{kernels.SiLU: C.PF_SILU, kernels.GELU: C.PF_GELU_ERF, kernels.GELUTanh: C.PF_GELU_TANH}

// mlp adds the product to dst.
func (b *Backend) mlp(op string, dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	how, known := activations[act]
	if !known || act == kernels.SiLU && up.(*linear).c.gated == 0 {
		b.fail("%s: activation %v of a network that is not gated, or unknown", op, act)
		return
	}
	if !b.inner(op, x, up, down) {
		return
	}
	if rows, ok := b.residual(op, x, n); ok {
		b.check(op, C.pf_mlp(b.pool, b.products, float32s(dst), C.size_t(dst.Stride), &rows, how, &up.(*linear).c, &down.(*linear).c))
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
