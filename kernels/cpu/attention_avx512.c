//go:build cgo && linux && amd64

// Attention with AVX-512 F: bf16 keys and values are widened in registers, queries and probabilities
// are floats, rounded to bf16; 12 rows by 2 vectors in 24 registers.
// On one Zen 5 core it reaches half the rate of AVX-512 BF16.

#include <immintrin.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")

#define PF_LANES 16
#define TILE_ROWS 12
#define TILE_VECTORS 2

#include "vectors.h"
#include "attention_wide.h"
#include "exp512.h"
#include "attention_products.h"
#include "attention_softmax.h"

const pf_attention_ops pf_attention_avx512 = {sizeof(operand), PF_KEY_TILE, PF_KV_GROUP, 24, 4, NULL, NULL, load, attend, NULL, finish};
