//go:build cgo && linux && amd64

// Transposition of rows into pairs side by side: the packing of weights, tables and activations.

#include "internal.h"

#include <immintrin.h>
#include <string.h>

#pragma GCC target("avx2,fma")

// transpose8 turns 8 rows of 8 dwords into 8 columns.
static inline __attribute__((always_inline)) void transpose8(__m256i v[8])
{
	__m256i t[8], u[8];
	for (int i = 0; i < 8; i += 2) {
		t[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
		t[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
	}
	for (int i = 0; i < 8; i += 4) {
		u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
		u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
		u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
		u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
	for (int i = 0; i < 4; i++) {
		v[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
		v[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
	}
}

// load8 transposes pairs [from, from+8) of 8 rows of k elements; beyond k there are zeros.
static inline __attribute__((always_inline)) void load8(__m256i v[8], const pf_bf16 *const *rows, int from, int k)
{
	for (int i = 0; i < 8; i++) {
		if (2 * from + 16 <= k) {
			v[i] = _mm256_loadu_si256((const __m256i *)(rows[i] + 2 * from));
		} else {
			pf_bf16 tail[16] = {0};
			if (k > 2 * from)
				memcpy(tail, rows[i] + 2 * from, (size_t)(k - 2 * from) * sizeof *tail);
			v[i] = _mm256_loadu_si256((const __m256i *)tail);
		}
	}
	transpose8(v);
}

void pf_transpose(uint32_t *dst, size_t stride, const pf_bf16 *const *rows, int groups, int k, int pairs, size_t ahead)
{
	for (int p = 0; p < pairs; p += 8) {
		int n = pf_min(8, pairs - p);
		for (int i = 0; ahead && p % 16 == 0 && i < 8 * groups; i++)
			__builtin_prefetch(rows[i] + ahead + 2 * p, 0, 2);
		for (int g = 0; g < groups; g++) {
			__m256i v[8];
			load8(v, rows + 8 * g, p, k);
			uint32_t *out = dst + p * stride + 8 * g;
			for (int j = 0; j < n; j++)
				_mm256_storeu_si256((__m256i *)(out + j * stride), v[j]);
		}
	}
}

static void transpose_floats(float *dst, size_t stride, const pf_bf16 *const *rows, int groups, int k, int pairs)
{
	const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
	for (int p = 0; p < pairs; p += 8) {
		int n = pf_min(8, pairs - p);
		for (int g = 0; g < groups; g++) {
			__m256i v[8];
			load8(v, rows + 8 * g, p, k);
			float *out = dst + 2 * p * stride + 8 * g;
			for (int j = 0; j < n; j++) {
				_mm256_storeu_si256((__m256i *)(out + 2 * j * stride), _mm256_slli_epi32(v[j], 16));
				_mm256_storeu_si256((__m256i *)(out + (2 * j + 1) * stride), _mm256_and_si256(v[j], upper));
			}
		}
	}
}

// list sets the addresses of whole groups of 8 rows, and returns their number; missing rows repeat
// the last, and are never multiplied.
static int list(const pf_bf16 *addresses[16], const pf_bf16 *src, size_t stride, int rows)
{
	int groups = pf_ceil(rows, 8);
	for (int i = 0; i < 8 * groups; i++)
		addresses[i] = src + pf_min(i, rows - 1) * stride;
	return groups;
}

void pf_pack_pairs(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs)
{
	const pf_bf16 *addresses[16];
	int groups = list(addresses, src, stride, rows);
	pf_transpose((uint32_t *)tile + pair * 16, 16, addresses, groups, k, pairs, 0);
}

void pf_pack_floats(int slots, void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs)
{
	const pf_bf16 *addresses[16];
	int groups = list(addresses, src, stride, rows);
	transpose_floats((float *)tile + 2 * pair * slots, (size_t)slots, addresses, groups, k, pairs);
}
