// Expansion of FP8 E4M3 and int8 codes to bfloat16, which holds each of their values exactly, and of codes of four bits, whose
// values are rounded to it, compiled once per instruction set: a source that includes this states PF_LANES and its target first.

#include "vectors.h"

#if PF_LANES == 16

// expand_fp8 looks each code's magnitude up in 128 values, 64 at a time. n is a multiple of 32.
static void expand_fp8(pf_bf16 *dst, const uint8_t *codes, size_t n)
{
	_Alignas(64) uint16_t values[128] = {0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60}; // multiples of 2^-9
	for (int i = 8; i < 127; i++)
		values[i] = (uint16_t)((i << 4) + (120 << 7)); // the exponent's bias is 127 instead of 7
	values[127] = 0x7fc0;
	__m512i table[4];
	for (int i = 0; i < 4; i++)
		table[i] = _mm512_load_si512(values + 32 * i);
	const __m512i large = _mm512_set1_epi16(64), sign = _mm512_set1_epi16((short)0x8000);
	for (size_t i = 0; i < n; i += 32) {
		__m512i code = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(codes + i)));
		__m512i low = _mm512_permutex2var_epi16(table[0], code, table[1]);
		__m512i high = _mm512_permutex2var_epi16(table[2], code, table[3]);
		__m512i value = _mm512_mask_mov_epi16(low, _mm512_test_epi16_mask(code, large), high);
		// (code << 8 & sign) | value
		_mm512_storeu_si512(dst + i, _mm512_ternarylogic_epi32(_mm512_slli_epi16(code, 8), sign, value, 0xea));
	}
}

#else

typedef uint8_t vb __attribute__((vector_size(16)));
typedef uint16_t vw __attribute__((vector_size(32)));

// expand_fp8 takes 16 codes at a time; n is a multiple of them.
static void expand_fp8(pf_bf16 *dst, const uint8_t *codes, size_t n)
{
	for (size_t i = 0; i < n; i += 16) {
		vb bytes;
		memcpy(&bytes, codes + i, sizeof bytes);
		vw code = __builtin_convertvector(bytes, vw), magnitude = code & 0x7f;
		vw value = (magnitude << 4) + (120 << 7); // the exponent's bias is 127 instead of 7
		// Below 8 there are multiples of 2^-9.
		vw four = (vw)(magnitude < 8), two = (vw)(magnitude < 4), one = (vw)(magnitude < 2), zero = (vw)(magnitude == 0);
		value = (value & ~four) | (four & (0x3c00 | (magnitude & 3) << 5));
		value = (value & ~two) | (two & (0x3b80 | (magnitude & 1) << 6));
		value = (value & ~one) | (one & 0x3b00);
		value = (value & ~zero) | ((vw)(magnitude == 0x7f) & 0x7fc0);
		value |= (code & 0x80) << 8;
		memcpy(dst + i, &value, sizeof value);
	}
}

#endif

// expand_int8 converts codes of even and of odd columns by themselves: so nothing crosses lanes. n is a multiple of 32.
static void expand_int8(pf_bf16 *dst, const uint8_t *codes, size_t n)
{
	typedef int8_t vc __attribute__((vector_size(2 * PF_LANES)));
	typedef int16_t vs __attribute__((vector_size(4 * PF_LANES)));
	for (size_t i = 0; i < n; i += 2 * PF_LANES) {
		vc code;
		memcpy(&code, codes + i, sizeof code);
		vi pair = (vi)__builtin_convertvector(code, vs);
		vu even = (vu)__builtin_convertvector(pair << 16 >> 16, vf), odd = (vu)__builtin_convertvector(pair >> 16, vf);
		vu value = even >> 16 | odd; // a code has 8 bits: the lower halves are zero
		memcpy(dst + i, &value, sizeof value);
	}
}

// unit is what codes of a group are worth: scale times code, plus low.
#if PF_LANES == 16

typedef struct unit { __m512 scale[4], low[4]; } unit;

// read_unit reads scales of 32 rows, each twice in turn since elements are pairs of columns, and what zero codes are worth.
static inline unit read_unit(const float *scale, const uint8_t *zeros)
{
	const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
	unit u;
	for (int i = 0; i < 4; i++) {
		__m256 zero = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(zeros + 8 * i))));
		__m256 one = _mm256_loadu_ps(scale + 8 * i), low = _mm256_sub_ps(_mm256_setzero_ps(), _mm256_mul_ps(zero, one));
		u.scale[i] = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(one));
		u.low[i] = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(low));
	}
	return u;
}

// put_words stores 32 elements as bf16, rounded to nearest even.
static inline void put_words(pf_bf16 *dst, __m512 first, __m512 second)
{
#ifdef __AVX512BF16__
	__m512bh both = _mm512_cvtne2ps_pbh(second, first);
	_mm512_storeu_si512(dst, (__m512i)both);
#else
	vf_narrow(dst, (vf)first);
	vf_narrow(dst + 16, (vf)second);
#endif
}

static inline void expand_pair(pf_bf16 *dst, const uint8_t *codes, const unit *u)
{
	const __m512i four = _mm512_set1_epi32(15);
#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		__m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(codes + 16 * i)));
		__m512 first = _mm512_cvtepi32_ps(_mm512_and_si512(both, four)), second = _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4));
		put_words(dst + 32 * i, _mm512_fmadd_ps(first, u->scale[2 * i], u->low[2 * i]),
		          _mm512_fmadd_ps(second, u->scale[2 * i + 1], u->low[2 * i + 1]));
	}
}

#else

typedef struct unit { __m256 scale[8], low[8]; } unit;

static inline unit read_unit(const float *scale, const uint8_t *zeros)
{
	const __m256i twice = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
	unit u;
	for (int i = 0; i < 8; i++) {
		int32_t four;
		memcpy(&four, zeros + 4 * i, sizeof four);
		__m128 zero = _mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
		__m128 one = _mm_loadu_ps(scale + 4 * i), low = _mm_sub_ps(_mm_setzero_ps(), _mm_mul_ps(zero, one));
		u.scale[i] = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(one), twice);
		u.low[i] = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(low), twice);
	}
	return u;
}

static inline void expand_pair(pf_bf16 *dst, const uint8_t *codes, const unit *u)
{
	const __m256i four = _mm256_set1_epi32(15);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) { // 8 bytes: elements 8i%16 on of 32, and as many 16 behind them
		__m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(codes + 8 * i)));
		int at = i / 2 * 4 + i % 2;
		__m256 first = _mm256_cvtepi32_ps(_mm256_and_si256(both, four)), second = _mm256_cvtepi32_ps(_mm256_srli_epi32(both, 4));
		vf_narrow(dst + 8 * at, (vf)_mm256_fmadd_ps(first, u->scale[at], u->low[at]));
		vf_narrow(dst + 8 * at + 16, (vf)_mm256_fmadd_ps(second, u->scale[at + 2], u->low[at + 2]));
	}
}

#endif

// expand_int4 expands pairs of columns of a panel from `pair` on, a group after the other. Columns behind the last have its scale.
static void expand_int4(pf_bf16 *dst, const pf_linear *l, int panel, int pair, int pairs)
{
	const uint8_t *codes = l->codes + ((size_t)panel * l->pairs + pair) * PF_PANEL;
	for (int end = pair + pairs; pair < end;) {
		int group = pf_min(2 * pair / l->group, l->groups - 1);
		int until = group == l->groups - 1 ? end : pf_min(end, (group + 1) * (l->group / 2));
		size_t at = ((size_t)panel * l->groups + group) * PF_PANEL;
		unit u = read_unit(l->group_scale + at, l->zeros + at);
		for (; pair < until; pair++, codes += PF_PANEL, dst += 2 * PF_PANEL)
			expand_pair(dst, codes, &u);
	}
}

// expand sets dst to the values of pairs of columns of a panel from `pair` on, of PF_FP8, PF_INT8_WEIGHTS or PF_INT4; there are a multiple of 16.
static void expand(pf_bf16 *dst, const pf_linear *l, int panel, int pair, int pairs)
{
	if (l->kind == PF_INT4) {
		expand_int4(dst, l, panel, pair, pairs);
		return;
	}
	const uint8_t *codes = l->codes + ((size_t)panel * l->pairs + pair) * PF_PANEL * 2;
	if (l->kind == PF_FP8)
		expand_fp8(dst, codes, (size_t)pairs * PF_PANEL * 2);
	else
		expand_int8(dst, codes, (size_t)pairs * PF_PANEL * 2);
}
