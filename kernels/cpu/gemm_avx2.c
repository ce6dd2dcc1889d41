//go:build cgo && linux && amd64

// Matrix tiles with AVX2 and FMA: weights are widened to float32 in registers, activations when they
// are packed. Up to 6 rows by 16 columns in 12 registers, twice for a panel.

#include <immintrin.h>

#pragma GCC target("avx2,fma,f16c")

#define PF_LANES 8
#include "gemm_tiles.h"

enum { ROWS = 6, SLOTS = 8 };

// add_product is acc += x * b. As the intrinsic, the compiler picks the form that overwrites x, and then
// spills sums, 16 registers being just enough.
static inline __attribute__((always_inline)) void add_product(__m256 *acc, __m256 x, __m256 b)
{
	__asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(x), "x"(b));
}

static inline __attribute__((always_inline)) void half_tile(const int rows, int pairs, const float *a, const pf_bf16 *b,
                                                            float *c, const char *ahead, int step)
{
	const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
	__m256 acc[ROWS][2];
#pragma GCC unroll 6
	for (int i = 0; i < rows; i++) {
		acc[i][0] = _mm256_load_ps(c + PF_PANEL * i);
		acc[i][1] = _mm256_load_ps(c + PF_PANEL * i + 8);
	}
	for (int p = 0; p < pairs; p++, a += 2 * SLOTS, b += 2 * PF_PANEL, ahead += step) {
		pf_prefetch(ahead, step);
#pragma GCC unroll 2
		for (int odd = 0; odd < 2; odd++) {
			__m256i w0 = _mm256_load_si256((const __m256i *)b), w1 = _mm256_load_si256((const __m256i *)(b + 16));
			__m256 b0 = (__m256)(odd ? _mm256_and_si256(w0, upper) : _mm256_slli_epi32(w0, 16));
			__m256 b1 = (__m256)(odd ? _mm256_and_si256(w1, upper) : _mm256_slli_epi32(w1, 16));
#pragma GCC unroll 6
			for (int i = 0; i < rows; i++) {
				__m256 x = _mm256_broadcast_ss(a + odd * SLOTS + i);
				add_product(&acc[i][0], x, b0);
				add_product(&acc[i][1], x, b1);
			}
		}
	}
#pragma GCC unroll 6
	for (int i = 0; i < rows; i++) {
		_mm256_store_ps(c + PF_PANEL * i, acc[i][0]);
		_mm256_store_ps(c + PF_PANEL * i + 8, acc[i][1]);
	}
}

#define TILE(n) \
	case n: \
		half_tile(n, pairs, a, b, c, ahead, step); \
		half_tile(n, pairs, a, b + PF_PANEL, c + PF_PANEL / 2, ahead, 0); \
		break;

static void tile(int rows, int pairs, const void *a, const pf_bf16 *b, float *c, const char *ahead, int step)
{
	switch (rows) {
		TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
	}
}

static void pack(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs)
{
	pf_pack_floats(SLOTS, tile, pair, src, stride, rows, k, pairs);
}

const pf_ops pf_ops_avx2 = {
	.rows = ROWS, .pair_bytes = 2 * SLOTS * 4, .pack = pack, .norm = norm, .layer_norm = layer_norm, .add_norm = add_norm, .activate = activate, .cut = cut, .multiply = multiply,
};
