//go:build cgo && linux && amd64

// Int8 products with AMX: tdpbssd multiplies 64 columns of 16 rows with 16 columns of a panel, in as many cycles as
// tdpbf16ps does 32.

#include <immintrin.h>

#ifdef PF_INT8_EMULATED
#pragma GCC target("avx2,fma,f16c")
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")
#endif

#define PF_LANES 16
#include "amx.h"

typedef int8_t code;
enum { CODE_OFFSET = 0 };
#include "int8_rows.h"
#include "norm.h"

#define PF_DP PF_TILE_DP_INT8
#define EXPANDS 0
#define SUMS_OF_CODES 1
enum { STEP_PAIRS = 32 }; // of columns
static const float *row_scales(const pf_product *g, int tile);
#include "gemm_amx_loop.h"

static float *scales_of(const void *tile, int pairs) { return (float *)((char *)tile + (size_t)pairs / STEP_PAIRS * A_STEP); }

static const float *row_scales(const pf_product *g, int tile)
{
	return scales_of(pf_tile_at(g->ops, g->a, g->l->pairs, tile), g->l->pairs);
}

static void pack(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs)
{
	(void)pair; // 0
	enum { COLUMNS = 2 * STEP_PAIRS };
	for (int i = 0; i < rows; i++, src += stride) {
		float scale = row_scale(src, k);
		scales_of(tile, pairs)[i] = scale;
		code *dst = (code *)tile + i * A_ROW;
		for (int from = 0; from < 2 * pairs; from += COLUMNS, dst += A_STEP) {
			int n = pf_min(COLUMNS, k - from);
			if (n < COLUMNS)
				memset(dst, 0, COLUMNS);
			quantise(dst, src + from, scale, n);
		}
	}
}

const pf_ops pf_ops_int8_amx = {
	.rows = 32, .whole = 1, .pair_bytes = A_STEP / STEP_PAIRS, .more_bytes = 32 * 4, .group = 4, .pack = pack, .norm = norm, .layer_norm = layer_norm, .add_norm = add_norm, .activate = activate,
	.cut = cut, .multiply = multiply,
};
