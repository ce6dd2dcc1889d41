//go:build cuda

package driver

import (
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// Int8 tries a small product in int8 at first, and then asks cuBLASLt for an algorithm for the shape.
func (g *gpu) Int8(n, k int) error {
	if !g.int8 {
		if err := trialInt8(g); err != nil {
			return err
		}
		g.int8 = true
	}
	g.enter()
	const aligned = 256 // as the memory of operands is
	return g.blas.Choose(productOf(cuda.Gemm{M: cuda.Int8Rows, N: n, K: k, Type: kernels.I8, A: aligned, AStride: k, W: aligned, D: aligned, DStride: n, DType: kernels.F32}))
}
