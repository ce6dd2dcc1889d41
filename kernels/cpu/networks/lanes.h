// Vectors of PN_LANES floats for sources compiled once per instruction set: a source that includes this
// states PN_LANES and its target first.
#ifndef PREFILLONLY_NETWORKS_LANES_H
#define PREFILLONLY_NETWORKS_LANES_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

#if PN_LANES == 16

#define APART(v) __asm__("" : "+v"(v)) // what is computed with v does not become one operation with what made it

typedef __m512 vf;
typedef __mmask16 vm; // a truth for each lane
typedef __m256 hf;    // half as many lanes

INLINE hf half_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void half_store(float *p, hf v) { _mm256_storeu_ps(p, v); }
INLINE hf half_load_first(const float *p, vm m) { return _mm256_maskz_loadu_ps((__mmask8)m, p); }
INLINE void half_store_first(float *p, hf v, vm m) { _mm256_mask_storeu_ps(p, (__mmask8)m, v); }
INLINE hf half_set(float x) { return _mm256_set1_ps(x); }
INLINE hf half_muladd(hf a, hf b, hf c) { return _mm256_fmadd_ps(a, b, c); }
INLINE hf half_hold(hf a, float low, float high) { return _mm256_min_ps(half_set(high), _mm256_max_ps(half_set(low), a)); }

INLINE vf load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void store(float *p, vf v) { _mm512_storeu_ps(p, v); }
INLINE vm first(int n) { return (vm)((1u << n) - 1); } // lanes below n, which is below 16
INLINE vf load_first(const float *p, vm m) { return _mm512_maskz_loadu_ps(m, p); }
INLINE void store_first(float *p, vf v, vm m) { _mm512_mask_storeu_ps(p, m, v); }
INLINE vf set(float x) { return _mm512_set1_ps(x); }
INLINE vf muladd(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf mulsub(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } // c - a*b
INLINE vf larger(vf a, vf b) { return _mm512_max_ps(a, b); }          // b where one is NaN
INLINE vf smaller(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf root(vf a) { return _mm512_sqrt_ps(a); }
INLINE vf choose(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
INLINE vm is_less(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
INLINE vm is_less_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
INLINE vm is_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
INLINE vm is_not(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
INLINE vf magnitude(vf a) { return _mm512_andnot_ps(set(-0.0f), a); }
INLINE vf negative(vf a) { return _mm512_xor_ps(set(-0.0f), a); }
INLINE vf with_sign(vf a, vf of) { return _mm512_or_ps(a, _mm512_and_ps(set(-0.0f), of)); } // a is not negative
INLINE vf nearest(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE vf below(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE vf above(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

// scale is a * 2^n for whole n.
INLINE vf scale(vf a, vf n) { return _mm512_scalef_ps(a, n); }

// as_exponent is 2^(k - 127) of a float whose lowest bits are k, from 1 to 254.
INLINE vf as_exponent(vf a) { return (vf)_mm512_slli_epi32((__m512i)a, 23); }

// within is a, or most with its sign if it is further from 0; NaN becomes any number. Golden Cove's vrange and vgetmant wait for the
// register that they write, which the compiler may choose to be the end of the loop's last turn: here it is the operand.
INLINE vf within(vf a, float most)
{
	__asm__("vrangeps $2, %1, %0, %0" : "+v"(a) : "v"(set(most)));
	return a;
}

// reciprocal of a normal number whose reciprocal is normal, to one unit in the last place.
INLINE vf reciprocal(vf a)
{
	vf r = _mm512_rcp14_ps(a);
	return muladd(r, mulsub(a, r, set(1.0f)), r);
}

// evens are every second lane of a and then of b.
INLINE vf evens(vf a, vf b)
{
	return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
}

// exponent and mantissa make a > 0 the second, in [1, 2), times 2^(the first).
INLINE vf exponent(vf a) { return _mm512_getexp_ps(a); }
INLINE vf mantissa(vf a)
{
	__asm__("vgetmantps $0, %0, %0" : "+v"(a)); // the sign is a's
	return a;
}

#else

#define APART(v) __asm__("" : "+x"(v))

typedef __m256 vf;
typedef __m256 vm;
typedef __m128 hf;

INLINE __m128i half_mask(vm m) { return _mm256_castsi256_si128((__m256i)m); }
INLINE hf half_load(const float *p) { return _mm_loadu_ps(p); }
INLINE void half_store(float *p, hf v) { _mm_storeu_ps(p, v); }
INLINE hf half_load_first(const float *p, vm m) { return _mm_maskload_ps(p, half_mask(m)); }
INLINE void half_store_first(float *p, hf v, vm m) { _mm_maskstore_ps(p, half_mask(m), v); }
INLINE hf half_set(float x) { return _mm_set1_ps(x); }
INLINE hf half_muladd(hf a, hf b, hf c) { return _mm_fmadd_ps(a, b, c); }
INLINE hf half_hold(hf a, float low, float high) { return _mm_min_ps(half_set(high), _mm_max_ps(half_set(low), a)); }

INLINE vf load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void store(float *p, vf v) { _mm256_storeu_ps(p, v); }
INLINE vm first(int n)
{
	return (vm)_mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vf load_first(const float *p, vm m) { return _mm256_maskload_ps(p, (__m256i)m); }
INLINE void store_first(float *p, vf v, vm m) { _mm256_maskstore_ps(p, (__m256i)m, v); }
INLINE vf set(float x) { return _mm256_set1_ps(x); }
INLINE vf muladd(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vf mulsub(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
INLINE vf larger(vf a, vf b) { return _mm256_max_ps(a, b); }
INLINE vf smaller(vf a, vf b) { return _mm256_min_ps(a, b); }
INLINE vf root(vf a) { return _mm256_sqrt_ps(a); }
INLINE vf choose(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
INLINE vm is_less(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
INLINE vm is_less_equal(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
INLINE vm is_equal(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
INLINE vm is_not(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
INLINE vf magnitude(vf a) { return _mm256_andnot_ps(set(-0.0f), a); }
INLINE vf negative(vf a) { return _mm256_xor_ps(set(-0.0f), a); }
INLINE vf with_sign(vf a, vf of) { return _mm256_or_ps(a, _mm256_and_ps(set(-0.0f), of)); }
INLINE vf nearest(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE vf below(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE vf above(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

// In two steps, so that results may be subnormal; n is from -252 to 254.
INLINE vf scale(vf a, vf n)
{
	__m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
	const __m256i bias = _mm256_set1_epi32(127);
	a *= (vf)_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
	return a * (vf)_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
}

INLINE vf as_exponent(vf a) { return (vf)_mm256_slli_epi32((__m256i)a, 23); }

INLINE vf within(vf a, float most) { return smaller(set(most), larger(set(-most), a)); }

INLINE vf reciprocal(vf a) { return set(1.0f) / a; }

INLINE vf evens(vf a, vf b)
{
	return (vf)_mm256_permute4x64_pd((__m256d)_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)), _MM_SHUFFLE(3, 1, 2, 0));
}

INLINE vf exponent(vf a)
{
	vm tiny = is_less(a, set(0x1p-126f));
	__m256i bits = (__m256i)choose(tiny, a * set(0x1p23f), a);
	vf e = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(127)));
	return e - choose(tiny, set(23), set(0));
}

INLINE vf mantissa(vf a)
{
	__m256i bits = (__m256i)choose(is_less(a, set(0x1p-126f)), a * set(0x1p23f), a);
	bits = _mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff));
	return (vf)_mm256_or_si256(bits, _mm256_set1_epi32(0x3f800000));
}

#endif

// any_larger and any_smaller are NaN where one is.
INLINE vf any_larger(vf a, vf b) { return choose(is_not(a, a), a, larger(a, b)); }
INLINE vf any_smaller(vf a, vf b) { return choose(is_not(a, a), a, smaller(a, b)); }

#endif
