//go:build cgo && linux && amd64

// Int8 products with AVX-512 VNNI: vpdpbusd multiplies groups of four codes, the activations' as code + 128. Up to 14 rows by 32
// columns in 28 registers.

#include <immintrin.h>

#ifdef PF_INT8_EMULATED
#pragma GCC target("avx2,fma,f16c")
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,prefer-vector-width=512")
#endif

#define PF_LANES 16
#include "vectors.h"

enum { ROWS = 14, SLOTS = 16, WEIGHT_BYTES = 4 * PF_LANES };
typedef uint8_t code;
enum { CODE_OFFSET = 128 };

static inline vi load_codes(const uint8_t *b)
{
	vi v;
	memcpy(&v, b, sizeof v);
	return v;
}

#ifdef PF_INT8_EMULATED
#include "int8_dot.h"
#else
static inline vi dot(vi acc, vi x, vi w) { return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)x, (__m512i)w); }
#endif

#include "int8_tiles.h"

static void tile(int rows, int words, const int32_t *a, const uint8_t *b, const int32_t *start, float *c, const float *scale, const float *row_scales,
                 const char *ahead, int step)
{
	switch (rows) {
		TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7)
		TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
	}
}

const pf_ops pf_ops_int8_avx512_vnni = INT8_OPS;
