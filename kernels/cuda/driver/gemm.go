//go:build cuda

package driver

import (
	"gorgonia.org/cu"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/cublas"
)

// Gemm enqueues a product of cuBLASLt.
func (g *gpu) Gemm(p cuda.Gemm) {
	g.enter()
	g.check("cuBLASLt", g.blas.Multiply(productOf(p)))
}

// operands are cublas's names of types.
var operands = map[kernels.DType]cublas.Operands{kernels.BF16: cublas.BFloat16, kernels.F8E4M3: cublas.FP8, kernels.I8: cublas.Int8}

// The two packages say the same of int8's rows.
var _ = [1]struct{}{}[cuda.Int8Rows-cublas.Int8Rows]

func productOf(p cuda.Gemm) cublas.Product {
	return cublas.Product{
		M: p.M, N: p.N, K: p.K, Operands: operands[p.Type], A: uint64(p.A), AStride: p.AStride, W: uint64(p.W), Bias: uint64(p.Bias),
		D: uint64(p.D), DStride: p.DStride, Float32: p.DType == kernels.F32, Accumulate: p.Accumulate,
		AScale: uint64(p.AScale), WScale: uint64(p.WScale),
	}
}

// FP8 is what probeFP8 found.
func (g *gpu) FP8() cuda.FP8 { return g.fp8 }

// probeFP8 asks this GPU's cuBLASLt for a small product in FP8, with the scales of rows and columns
// and without: which of its versions does so on which GPU is not written anywhere to be relied on.
func (g *gpu) probeFP8() cuda.FP8 {
	const n = 128
	memory, err := cu.MemAlloc(n*n + n*n + 4*n*n + 4*n)
	if err != nil {
		return cuda.NoFP8
	}
	defer func() { _ = cu.MemFree(memory) }()
	a := cuda.Ptr(memory)
	p := cuda.Gemm{M: n, N: n, K: n, A: a, AStride: n, W: a + n*n, D: a + 2*n*n, DStride: n, DType: kernels.BF16, Type: kernels.F8E4M3, AScale: a + 6*n*n, WScale: a + 6*n*n}
	if g.blas.Multiply(productOf(p)) == nil && cu.Synchronize() == nil {
		return cuda.FP8Scaled
	}
	p.DType, p.AScale, p.WScale = kernels.F32, 0, 0
	if g.blas.Multiply(productOf(p)) == nil && cu.Synchronize() == nil {
		return cuda.FP8Sums
	}
	return cuda.NoFP8
}
