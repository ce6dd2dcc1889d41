//go:build cgo && linux && amd64

// Matrix products with AMX in bf16.
//
// On one CPU of a Sapphire Rapids VM (2.5 GHz, tdpbf16ps 2.5 TFLOP/s; neighbours busy, so these are the best of
// several runs), weights coming from memory, of the raw rate: at 512 rows all products of a layer of
// Qwen2.5-0.5B 0.52, with norms and packing; the bare products 896->9728 0.72, 896->1152 0.61, 896->896 0.57 and
// 4864->896 0.49. Up to 32 rows they read 10 GB/s, what the memory gives a CPU there.

#include <immintrin.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")

#define PF_LANES 16
#include "amx.h"
#include "expand.h"
#include "norm.h"

#define PF_DP PF_TILE_DP
#define EXPANDS 1
#define SUMS_OF_CODES 0
enum { STEP_PAIRS = 16 }; // of columns
static const float *row_scales(const pf_product *g, int tile)
{
	(void)g, (void)tile;
	return NULL;
}

#include "gemm_amx_loop.h"

static void pack(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs)
{
	for (int p = 0; p < pairs; p += 8) {
		char *dst = (char *)tile + (pair + p) / STEP_PAIRS * A_STEP + (pair + p) % STEP_PAIRS * 4;
		int left = pf_max(0, pf_min(16, k - 2 * p));
		for (int i = 0; i < rows; i++, dst += A_ROW) {
			if (left == 16) {
				memcpy(dst, src + i * stride + 2 * p, 32);
				continue;
			}
			memset(dst, 0, 32);
			memcpy(dst, src + i * stride + 2 * p, (size_t)left * sizeof *src);
		}
	}
}

const pf_ops pf_ops_amx = {
	.rows = 32, .whole = 1, .pair_bytes = A_STEP / STEP_PAIRS, .pack = pack, .norm = norm, .layer_norm = layer_norm, .add_norm = add_norm, .activate = activate, .cut = cut, .multiply = multiply,
};
