// Vectors of PF_LANES floats for sources compiled once per instruction set. A source that includes
// this states PF_LANES and its target first.

#ifndef PREFILLONLY_VECTORS_H
#define PREFILLONLY_VECTORS_H

#include "internal.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi"

typedef float vf __attribute__((vector_size(4 * PF_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * PF_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * PF_LANES)));
typedef uint16_t vh __attribute__((vector_size(2 * PF_LANES)));

static inline vf vf_load(const float *p)
{
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }

static inline vf vf_set(float x) { return (vf){} + x; }

// vf_widen loads PF_LANES bf16 as floats.
static inline vf vf_widen(const pf_bf16 *p)
{
	vh h;
	memcpy(&h, p, sizeof h);
	return (vf)(__builtin_convertvector(h, vu) << 16);
}

// vf_narrow stores PF_LANES floats as bf16, rounded to nearest even; NaN stays NaN. AVX-512 BF16 takes
// subnormal floats for zero here, as in its products.
static inline void vf_narrow(pf_bf16 *p, vf v)
{
#if PF_LANES == 16 && defined(__AVX512BF16__)
	__m256bh narrow = _mm512_cvtneps_pbh((__m512)v);
	memcpy(p, &narrow, sizeof narrow);
#else
	vu u = (vu)v;
	vu rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	vu quiet = u >> 16 | 0x40;
	vu nan = (vu)(v != v);
	vh h = __builtin_convertvector((rounded & ~nan) | (quiet & nan), vh);
	memcpy(p, &h, sizeof h);
#endif
}

// vf_choose is a where the mask is all ones, b where it is zero.
static inline vf vf_choose(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

// vf_gelu is x times what g approximates.
static inline vf vf_gelu(vf x, const struct pf_gelu *g)
{
	vf limit = vf_set(g->limit), c = vf_choose(x > limit, limit, x);
	c = vf_choose(c < -limit, -limit, c);
	vf square = c * c, p = vf_set(g->terms[7]);
	for (int i = 6; i >= 0; i--)
		p = p * square + g->terms[i];
	return x * (0.5f + c * p);
}

// vf_exp is e^x to about one unit in the last place between -87 and 88, and clamped beyond; NaN stays
// NaN. Reduction by powers of two and a polynomial of degree 6 (Cephes, expf).
static inline vf vf_exp(vf x)
{
	const vf magic = vf_set(12582912.0f); // 1.5 * 2^23: adding it rounds to an integer
	x = vf_choose(x < -87.0f, vf_set(-87.0f), x);
	x = vf_choose(x > 88.0f, vf_set(88.0f), x);
	vf shifted = x * 1.44269504088896341f + magic;
	vf n = shifted - magic;
	vf r = x - n * 0.693359375f + n * 2.12194440e-4f;
	vf p = vf_set(1.9875691500e-4f);
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * r * r + r + 1.0f;
	vi power = ((vi)shifted - (vi)magic + 127) << 23;
	return p * (vf)power;
}

// vf_cap is cap * tanh(x * inner).
static inline vf vf_cap(vf x, float inner, float cap) { return cap - 2 * cap / (1.0f + vf_exp(x * (2 * inner))); }

#endif
