//go:build cgo && linux && amd64

// The functions of networks with AVX-512: tiles of up to 14 rows by 32 columns in 28 registers.

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")

#define PN_LANES 16
enum { ROWS = 14 };
#include "functions.h"

static void tile(int rows, int cols, int runs, size_t k, const float *const *a, ptrdiff_t lda, const float *b,
                 ptrdiff_t ldb, float *c, ptrdiff_t ldc, const float *init, const pn_ending *ending)
{
	switch (TILE_CASE) {
		TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7)
		TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
	}
}

const pn_kernels pn_kernels_avx512 = KERNELS;
