//go:build cgo && linux && amd64

// The functions of networks with AVX2 and FMA: tiles of up to 6 rows by 16 columns in 12 registers.

#pragma GCC target("avx2,fma")

#define PN_LANES 8
enum { ROWS = 6 };
#include "functions.h"

static void tile(int rows, int cols, int runs, size_t k, const float *const *a, ptrdiff_t lda, const float *b,
                 ptrdiff_t ldb, float *c, ptrdiff_t ldc, const float *init, const pn_ending *ending)
{
	switch (TILE_CASE) {
		TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
	}
}

const pn_kernels pn_kernels_avx2 = KERNELS;
