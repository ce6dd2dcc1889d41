// Vectors of 16 floats of which some lanes are loaded or stored, with AVX-512 BF16, and in plain C for tests on machines without.

#include "vectors.h"

#ifdef __AVX512BF16__

#include "exp512.h"

static inline vf exp_of(vf x) { return exp2_below(x * 1.44269504f); }

static inline vf load_some(const float *p, uint32_t lanes) { return (vf)_mm512_maskz_loadu_ps((__mmask16)lanes, p); }

static inline void store_some(float *p, uint32_t lanes, vf v) { _mm512_mask_storeu_ps(p, (__mmask16)lanes, (__m512)v); }

// narrow_some stores some of 32 floats as bf16.
static inline void narrow_some(void *p, uint32_t lanes, vf low, vf high)
{
	_mm512_mask_storeu_epi16(p, lanes, (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
}

#else

static inline vf exp_of(vf x) { return vf_exp(x); }

static inline vf load_some(const float *p, uint32_t lanes)
{
	vf v = {};
	for (int i = 0; i < 16; i++)
		if (lanes >> i & 1)
			v[i] = p[i];
	return v;
}

static inline void store_some(float *p, uint32_t lanes, vf v)
{
	for (int i = 0; i < 16; i++)
		if (lanes >> i & 1)
			p[i] = v[i];
}

static inline void narrow_some(void *p, uint32_t lanes, vf low, vf high)
{
	pf_bf16 part[32];
	vf_narrow(part, low);
	vf_narrow(part + 16, high);
	for (int i = 0; i < 32; i++)
		if (lanes >> i & 1)
			((pf_bf16 *)p)[i] = part[i];
}

#endif
