//go:build cgo && linux && amd64

package cpu

/*
#include "prefillonly_kernels.h"
*/
import "C"

import "github.com/prefillonly/prefillonly/kernels"

var _ kernels.Encoders = (*Backend)(nil)

// LayerNorm normalises rows by all threads.
func (b *Backend) LayerNorm(dst, x kernels.Mat, n kernels.Norm) {
	if dst.Type != kernels.F32 && dst.Type != kernels.BF16 || !b.fits("LayerNorm", "dst", dst, x.Rows, x.Cols, dst.Type) {
		b.fail("LayerNorm: invalid type %s of dst", dst.Type)
		return
	}
	if rows, ok := b.residual("LayerNorm", x, n); ok {
		C.pf_layer_norm(b.pool, b.products, dst.Buf.(*buffer).At(dst.Off), C.pf_type(dst.Type), C.size_t(dst.Stride), &rows)
	}
}

// AttentionBothWays is exact, tiled along absolute positions.
func (b *Backend) AttentionBothWays(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) {
	b.attend("AttentionBothWays", dst, qkv, spec, true, blockTokens, segs)
}
