// Exponential and maxima of 16 lanes.

#include "vectors.h"

// exp2_below is 2^floor(x) times a polynomial in x - floor(x), the minimax of degree 5 with p(0) = 1,
// whose relative error is 2^-23.5; below -149 the result is 0.
static inline vf exp2_below(vf x)
{
	__m512 t = (__m512)x;
	vf f = (vf)_mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
	vf p = vf_set(0x1.e974fap-10f);
	p = p * f + 0x1.277856p-7f;
	p = p * f + 0x1.c91ce6p-5f;
	p = p * f + 0x1.ebdb56p-3f;
	p = p * f + 0x1.62e4bap-1f;
	p = p * f + 1.0f;
	return (vf)_mm512_scalef_ps((__m512)p, t);
}

static inline vf larger(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
static inline float largest(vf v) { return _mm512_reduce_max_ps((__m512)v); }
