//go:build cgo && linux && amd64

// Matrix tiles with AVX-512 BF16: up to 14 rows by 32 columns in 28 registers. One step multiplies a
// pair of columns: 2 loads of weights, 14 broadcasts and 28 vdpbf16ps, which take 14 cycles on cores
// with two 512-bit units (Zen 5: 95 % of the 2 vdpbf16ps a cycle that registers alone reach).

#include <immintrin.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")

#define PF_LANES 16
#include "gemm_tiles.h"

enum { ROWS = 14, SLOTS = 16 };

static inline __attribute__((always_inline)) void tile_of(const int rows, int pairs, const uint32_t *a,
                                                          const pf_bf16 *b, float *c, const char *ahead, int step)
{
	__m512 acc[ROWS][2];
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++) {
		acc[i][0] = _mm512_load_ps(c + PF_PANEL * i);
		acc[i][1] = _mm512_load_ps(c + PF_PANEL * i + 16);
	}
	for (int p = 0; p < pairs; p++, a += SLOTS, b += 2 * PF_PANEL, ahead += step) {
		pf_prefetch(ahead, step);
		__m512bh b0 = (__m512bh)_mm512_load_si512(b), b1 = (__m512bh)_mm512_load_si512(b + PF_PANEL);
#pragma GCC unroll 14
		for (int i = 0; i < rows; i++) {
			__m512bh pair = (__m512bh)_mm512_set1_epi32((int)a[i]);
			acc[i][0] = _mm512_dpbf16_ps(acc[i][0], pair, b0);
			acc[i][1] = _mm512_dpbf16_ps(acc[i][1], pair, b1);
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
	pf_pack_pairs(tile, pair, src, stride, rows, k, pairs);
}

const pf_ops pf_ops_avx512_bf16 = {
	.rows = ROWS, .pair_bytes = SLOTS * 4, .pack = pack, .norm = norm, .layer_norm = layer_norm, .add_norm = add_norm, .activate = activate, .cut = cut, .multiply = multiply,
};
