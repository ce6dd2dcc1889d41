// Expansion of FP8 E4M3 and int8 codes to bfloat16, which holds each of their values exactly, compiled once per
// instruction set: a source that includes this states PF_LANES and its target first.

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

// expand sets dst to the values of n codes of a matrix of PF_FP8 or PF_INT8_WEIGHTS; n is a multiple of 32.
static void expand(pf_bf16 *dst, pf_kind kind, const uint8_t *codes, size_t n)
{
	if (kind == PF_FP8)
		expand_fp8(dst, codes, n);
	else
		expand_int8(dst, codes, n);
}
