// Quantisation of rows to int8, compiled once per instruction set: a source that includes this states PF_LANES and its
// target first, and defines `code`, what an activation's code is stored as, and CODE_OFFSET, what is added to it.

#include "vectors.h"

// row_scale is the scale of kernels.QuantizeI8.
static float row_scale(const pf_bf16 *src, int k)
{
	typedef int16_t vs __attribute__((vector_size(2 * PF_LANES)));
	vs top = {0};
	int16_t most = 0;
	int whole = k / PF_LANES * PF_LANES;
	for (int i = 0; i < whole; i += PF_LANES) {
		vs v;
		memcpy(&v, src + i, sizeof v);
		v &= 0x7fff; // magnitudes are in the order of their bits, NaN beyond all
		vs larger = v > top;
		top = (v & larger) | (top & ~larger);
	}
	for (int i = 0; i < PF_LANES; i++)
		most = top[i] > most ? top[i] : most;
	for (int i = whole; i < k; i++)
		most = (src[i] & 0x7fff) > most ? (int16_t)(src[i] & 0x7fff) : most;
	uint32_t bits = (uint32_t)most << 16;
	float magnitude;
	memcpy(&magnitude, &bits, sizeof magnitude);
	float scale = magnitude / 127.5f;
	return scale == 0 ? 0x1p-23f : scale;
}

// codes_of is the codes of PF_LANES values; of NaN, which infinity has for a quotient, it is 0.
static inline vi codes_of(vf values, float scale)
{
	const vf magic = vf_set(12582912.0f); // 1.5 * 2^23: adding it rounds to an integer
	vf quotient = values / scale;
	vi c = ((vi)(quotient + magic) - (vi)magic) & (vi)(quotient == quotient);
	vi over = c > 127, under = c < -128;
	c = (c & ~over) | (127 & over);
	return ((c & ~under) | (-128 & under)) + CODE_OFFSET;
}

static void quantise(code *dst, const pf_bf16 *src, float scale, int n)
{
	typedef code vcode __attribute__((vector_size(sizeof(code) * PF_LANES)));
	for (int i = 0; i < n; i += PF_LANES) {
		pf_bf16 tail[PF_LANES] = {0};
		const pf_bf16 *from = src + i;
		if (n - i < PF_LANES)
			from = memcpy(tail, from, (size_t)(n - i) * sizeof *tail);
		vcode c = __builtin_convertvector(codes_of(vf_widen(from), scale), vcode);
		memcpy(dst + i, &c, sizeof c);
	}
}
