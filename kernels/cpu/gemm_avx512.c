//go:build cgo && linux && amd64

// Matrix tiles with AVX-512 without BF16: weights are widened to float32 in registers, activations
// when they are packed. Up to 14 rows by 32 columns in 28 registers.

#include <immintrin.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")

#define PF_LANES 16
#include "gemm_tiles.h"

enum { ROWS = 14, SLOTS = 16 };

static inline __attribute__((always_inline)) void tile_of(const int rows, int pairs, const float *a, const pf_bf16 *b,
                                                          float *c, const char *ahead, int step)
{
	__m512 acc[ROWS][2];
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++) {
		acc[i][0] = _mm512_load_ps(c + PF_PANEL * i);
		acc[i][1] = _mm512_load_ps(c + PF_PANEL * i + 16);
	}
	for (int p = 0; p < pairs; p++, a += 2 * SLOTS, b += 2 * PF_PANEL, ahead += step) {
		pf_prefetch(ahead, step);
#pragma GCC unroll 2
		for (int odd = 0; odd < 2; odd++) {
			__m512i w0 = _mm512_load_si512(b), w1 = _mm512_load_si512(b + PF_PANEL);
			__m512 b0, b1;
			if (odd) {
				const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
				b0 = (__m512)_mm512_and_si512(w0, upper);
				b1 = (__m512)_mm512_and_si512(w1, upper);
			} else {
				b0 = (__m512)_mm512_slli_epi32(w0, 16);
				b1 = (__m512)_mm512_slli_epi32(w1, 16);
			}
#pragma GCC unroll 14
			for (int i = 0; i < rows; i++) {
				__m512 x = _mm512_set1_ps(a[odd * SLOTS + i]);
				acc[i][0] = _mm512_fmadd_ps(x, b0, acc[i][0]);
				acc[i][1] = _mm512_fmadd_ps(x, b1, acc[i][1]);
			}
		}
	}
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++) {
		_mm512_store_ps(c + PF_PANEL * i, acc[i][0]);
		_mm512_store_ps(c + PF_PANEL * i + 16, acc[i][1]);
	}
}

#define TILE(n) \
	case n: \
		tile_of(n, pairs, a, b, c, ahead, step); \
		break;

static void tile(int rows, int pairs, const void *a, const pf_bf16 *b, float *c, const char *ahead, int step)
{
	switch (rows) {
		TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7)
		TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
	}
}

static void pack(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs)
{
	pf_pack_floats(SLOTS, tile, pair, src, stride, rows, k, pairs);
}

const pf_ops pf_ops_avx512 = {
	.rows = ROWS, .pair_bytes = 2 * SLOTS * 4, .pack = pack, .norm = norm, .layer_norm = layer_norm, .add_norm = add_norm, .activate = activate, .cut = cut, .multiply = multiply,
};
