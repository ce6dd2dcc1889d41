//go:build cgo && linux && amd64

// Attention with AVX-512 BF16: 6 rows by 4 vectors in 24 registers; one step multiplies a pair of the
// head's dimensions (or of keys): 4 loads, 6 broadcasts and 24 vdpbf16ps.
//
// On one Zen 5 core, 512 rows by 2,048 keys reach 76 % of the rate of vdpbf16ps in registers alone at heads
// of 64, 82 % at heads of 128. The products run at 98 % of it; the rest is the softmax, 20 % of the
// cycles at 64, half of that at 128, which does not overlap with them.

#include <immintrin.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")

#define PF_LANES 16
#define TILE_ROWS 6
#define TILE_VECTORS 4

#include "vectors.h"

#include "exp512.h"

typedef pf_bf16 operand;

static inline void store_operands(operand *p, vf low, vf high)
{
	_mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
}

static void load_row(operand *q, const pf_bf16 *query, int dim, int padded)
{
	memcpy(q, query, (size_t)dim * sizeof *query);
	memset(q + dim, 0, (size_t)(padded - dim) * sizeof *query);
}

typedef __m512bh row_pair, column_pairs;

static inline row_pair broadcast(const operand *p)
{
	int pair;
	memcpy(&pair, p, sizeof pair);
	return (__m512bh)_mm512_set1_epi32(pair);
}

static inline column_pairs columns(const pf_bf16 *p) { return (__m512bh)_mm512_loadu_si512(p); }

static inline column_pairs columns_even(const pf_bf16 *p)
{
	return (__m512bh)_mm512_maskz_loadu_epi16(0x55555555, p);
}

static inline vf multiply_add(vf sum, row_pair a, column_pairs b) { return (vf)_mm512_dpbf16_ps((__m512)sum, a, b); }

#include "attention_products.h"
#include "attention_softmax.h"

const pf_attention_ops pf_attention_avx512_bf16 = {sizeof(operand), PF_KEY_TILE, PF_KV_GROUP, 24, 4, NULL, NULL, load, attend, NULL, finish};
