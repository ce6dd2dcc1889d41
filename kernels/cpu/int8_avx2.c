//go:build cgo && linux && amd64

// Int8 products with AVX2: codes are widened to 16 bits, activations when they are packed, and multiplied in pairs by
// vpmaddwd, which has no sum that saturates but that of -32768 four times, which codes do not have. Up to 6 rows by 16 columns in 12
// registers, twice for a panel.

#include <immintrin.h>

#pragma GCC target("avx2,fma,f16c")

#define PF_LANES 8
#include "vectors.h"

enum { ROWS = 6, SLOTS = 8, WEIGHT_BYTES = 2 * PF_LANES };
typedef int16_t code;
enum { CODE_OFFSET = 0 };

static inline vi load_codes(const uint8_t *b) { return (vi)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)b)); }

static inline vi dot(vi acc, vi x, vi w) { return acc + (vi)_mm256_madd_epi16((__m256i)x, (__m256i)w); }

#include "int8_tiles.h"

static void tile(int rows, int words, const int32_t *a, const uint8_t *b, const int32_t *start, float *c, const float *scale, const float *row_scales,
                 const char *ahead, int step)
{
	switch (rows) {
		TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
	}
}

const pf_ops pf_ops_int8_avx2 = INT8_OPS;
