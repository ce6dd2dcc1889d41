//go:build cgo && linux && amd64

// Int8 products with AVX-VNNI: vpdpbusd multiplies groups of four codes, the activations' as code + 128. Up to 6 rows by 16
// columns in 12 registers, twice for a panel.

#include <immintrin.h>

#ifdef PF_INT8_EMULATED
#pragma GCC target("avx2,fma,f16c")
#else
#pragma GCC target("avx2,fma,f16c,avxvnni")
#endif

#define PF_LANES 8
#include "vectors.h"

enum { ROWS = 6, SLOTS = 8, WEIGHT_BYTES = 4 * PF_LANES };
typedef uint8_t code;
enum { CODE_OFFSET = 128 };

static inline vi load_codes(const uint8_t *b) { return (vi)_mm256_load_si256((const __m256i *)b); }

#ifdef PF_INT8_EMULATED
#include "int8_dot.h"
#else
static inline vi dot(vi acc, vi x, vi w) { return (vi)_mm256_dpbusd_avx_epi32((__m256i)acc, (__m256i)x, (__m256i)w); }
#endif

#include "int8_tiles.h"

static void tile(int rows, int words, const int32_t *a, const uint8_t *b, const int32_t *start, float *c, const float *scale, const float *row_scales,
                 const char *ahead, int step)
{
	switch (rows) {
		TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
	}
}

const pf_ops pf_ops_int8_avx_vnni = INT8_OPS;
