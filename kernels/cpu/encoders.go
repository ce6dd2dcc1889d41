//go:build cgo && linux && amd64

package cpu

/*
#include "prefillonly_kernels.h"
*/
import "C"

import "github.com/prefillonly/prefillonly/kernels"

var _ kernels.Encoders = (*Backend)(nil)

// normalised describes x and the layer normalisation that the operation begins with.
func (b *Backend) normalised(op string, x kernels.Mat, n kernels.Norm) (C.pf_rows, bool) {
	rows, ok := b.residual(op, x, n.Weight, n.Eps)
	rows.norm = C.PF_NO_NORM
	if n.Weight != nil {
		rows.norm = C.PF_LAYER_NORM
	}
	if n.Bias != nil {
		if n.Bias.Len() != x.Cols {
			b.fail("%s: norm bias has %d elements, want %d", op, n.Bias.Len(), x.Cols)
			return rows, false
		}
		rows.bias = n.Bias.(*vector).floats()
	}
	return rows, ok
}

// LayerNorm normalises rows by all threads.
func (b *Backend) LayerNorm(dst, x kernels.Mat, n kernels.Norm) {
	if dst.Type != kernels.F32 && dst.Type != kernels.BF16 || !b.fits("LayerNorm", "dst", dst, x.Rows, x.Cols, dst.Type) {
		b.fail("LayerNorm: invalid type %s of dst", dst.Type)
		return
	}
	if rows, ok := b.normalised("LayerNorm", x, n); ok {
		C.pf_layer_norm(b.pool, b.products, dst.Buf.(*buffer).At(dst.Off), C.pf_type(dst.Type), C.size_t(dst.Stride), &rows)
	}
}

// LayerNormLinear normalises while it packs the rows of x.
func (b *Backend) LayerNormLinear(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear) {
	if !b.fits("LayerNormLinear", "dst", dst, x.Rows, l.Out(), kernels.BF16) || !b.fits("LayerNormLinear", "x", x, x.Rows, l.In(), kernels.F32) {
		return
	}
	if rows, ok := b.normalised("LayerNormLinear", x, n); ok {
		b.check("LayerNormLinear", C.pf_norm_linear(b.pool, b.products, bf16(dst), C.size_t(dst.Stride), &rows, &l.(*linear).c))
	}
}

// LayerNormMLP keeps the activation between its two products packed, some rows at a time.
func (b *Backend) LayerNormMLP(x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	how, known := activations[act]
	if !known || act == kernels.SiLU && up.(*linear).c.gated == 0 {
		b.fail("LayerNormMLP: unknown activation %v", act)
		return
	}
	if !b.inner("LayerNormMLP", x, up, down) {
		return
	}
	if rows, ok := b.normalised("LayerNormMLP", x, n); ok {
		b.check("LayerNormMLP", C.pf_mlp(b.pool, b.products, float32s(x), C.size_t(x.Stride), &rows, how, &up.(*linear).c, &down.(*linear).c))
	}
}

// AttentionBothWays is exact, tiled along absolute positions.
func (b *Backend) AttentionBothWays(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) {
	b.attend("AttentionBothWays", dst, qkv, spec, true, blockTokens, segs)
}
