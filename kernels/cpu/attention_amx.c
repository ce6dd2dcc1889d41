//go:build cgo && linux && amd64

// Attention with AMX, transposed: scores are keys times queries, [keys][32 queries], and sums values
// times probabilities, [dimension][32 queries], with keys and values as first operands. So a vector is one
// key, or one dimension, of 16 queries: maxima, sums and masks are per lane, and nothing is reduced.
//
// A tile of 64 keys leaves scores, probabilities and sums of a block in the first-level cache, and is
// soon enough through the softmax for the tile unit not to fall asleep; keys and values are streamed.
// Sums are relative to a lane's top score, which follows the largest one only when that has risen far.

#include <immintrin.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")

#define PF_LANES 16

#include "amx.h"
#include "attention.h"
#include "vectors.h"

#define INLINE static inline __attribute__((always_inline))

enum {
	ROWS = 32,                   // of a block: two tiles
	KEYS = 64,                   // of a tile of keys
	STEP = 32,                   // keys that are looked at together
	STEPS = KEYS / STEP,
	ROW = 4 * ROWS,              // bytes of a key's scores, or of a dimension's sums
	TILE = 16 * 32,              // elements of an operand
};

// How far a score may rise above the top, as a power of two: probabilities are then at most 2^8.
static const float SLACK = 8;

// power_of_two is 2^x to 1.1e-4, less than bf16 tells apart; far below 0 it is 0, and 2^0 is 1.
static inline vf power_of_two(vf x)
{
	vf f = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
	vf p = vf_set(0.0790200f);
	p = p * f + 0.2241300f;
	p = p * f + 0.6968500f;
	p = p * f + 1.0f;
	return (vf)_mm512_scalef_ps((__m512)p, (__m512)x);
}

static inline vf larger(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }

// pairs_of is the bf16 of both side by side, rounded to nearest; neither is negative. NaN may get lost: the sum
// of the probabilities keeps it.
static inline __m512i pairs_of(vf low, vf high)
{
	const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xffff0000);
	__m512i a = _mm512_srli_epi32(_mm512_add_epi32((__m512i)low, half), 16);
	__m512i b = _mm512_add_epi32((__m512i)high, half);
	return _mm512_ternarylogic_epi32(a, b, upper, 0xf8); // a | (b & upper)
}

// load lays queries out as second operands, [2][padded/2][16 queries][2].
static void load(const pf_attention_rows *r, const pf_bf16 *const *queries, int dim)
{
	static const pf_bf16 zeros[1024];
	for (int i = 0; i < ROWS; i += 16) {
		const pf_bf16 *rows[16];
		for (int j = 0; j < 16; j++)
			rows[j] = i + j < r->count ? queries[i + j] : zeros;
		pf_transpose((uint32_t *)r->queries + i * r->padded / 2, 16, rows, 2, dim, r->padded / 2, 0);
	}
}

// SCORE sums the products of a group of keys in two accumulators; then stores those of the group before,
// which are complete by now. BEFORE is empty for the first group.
#define SCORE(sum, sum2, key, BEFORE) \
	do { \
		PF_TILE_ZERO(sum); \
		PF_TILE_ZERO(sum2); \
		PRAGMA_UNROLL for (int d = 0; d < padded / 32; d++) { \
			PF_TILE_STREAM(4, (key) + d * TILE, 64); \
			PF_TILE_LOAD(5, q + d * TILE, 64); \
			PF_TILE_DP(sum, 4, 5); \
			if (tall) { \
				PF_TILE_LOAD(6, q2 + d * TILE, 64); \
				PF_TILE_DP(sum2, 4, 6); \
			} \
			if (d == 0) { \
				BEFORE; \
			} \
		} \
	} while (0)
#define PRAGMA_UNROLL _Pragma("GCC unroll 4")
#define STORE_SCORES(sum, sum2, group) \
	do { \
		PF_TILE_STORE(sum, scores + (group) * 16 * ROWS, ROW); \
		if (tall) \
			PF_TILE_STORE(sum2, scores + (group) * 16 * ROWS + 16, ROW); \
	} while (0)

// larger_of_group moves the lanes' largest scores up to those of a group.
INLINE void larger_of_group(const int tall, const float *scores, vf *now)
{
#pragma GCC unroll 2
	for (int i = 0; i < 1 + tall; i++) {
		vf a = now[i], b = a;
#pragma GCC unroll 8
		for (int j = 0; j < PF_KV_GROUP; j += 2) {
			a = larger(a, vf_load(scores + j * ROWS + 16 * i));
			b = larger(b, vf_load(scores + (j + 1) * ROWS + 16 * i));
		}
		now[i] = larger(a, b);
	}
}

// score sets the scores of a tile's steps, and moves the lanes' largest up to them unless some are to be hidden.
INLINE void score(const int tall, const int padded, const int steps, const pf_attention_rows *r, const pf_bf16 *const *keys, float *scores, vf *now)
{
	const pf_bf16 *q = r->queries, *q2 = q + 16 * padded;
	SCORE(0, 1, keys[0], );
	SCORE(2, 3, keys[1], STORE_SCORES(0, 1, 0));
	if (steps > 1) {
		SCORE(0, 1, keys[2], STORE_SCORES(2, 3, 1));
		SCORE(2, 3, keys[3], STORE_SCORES(0, 1, 2));
		if (!r->masked)
			larger_of_group(tall, scores, now);
	}
	STORE_SCORES(2, 3, 2 * steps - 1);
	for (int g = steps > 1; !r->masked && g < 2 * steps; g++)
		larger_of_group(tall, scores + g * PF_KV_GROUP * ROWS, now);
}

// hide replaces the scores of a step that its lanes may not see.
static void hide(const pf_attention_rows *r, int step, float *scores)
{
	for (int i = 0; i < ROWS; i += 16) {
		__m512i first = _mm512_loadu_si512(r->first + i), last = _mm512_loadu_si512(r->last + i);
		for (int j = 0; j < STEP; j++) {
			__m512i key = _mm512_set1_epi32(step * STEP + j);
			__mmask16 seen = _mm512_cmple_epi32_mask(first, key) & _mm512_cmplt_epi32_mask(key, last);
			float *s = scores + j * ROWS + i;
			_mm512_store_ps(s, _mm512_mask_mov_ps(_mm512_set1_ps(PF_HIDDEN_SCORE), seen, _mm512_load_ps(s)));
		}
	}
}

// rescale moves the lanes' top up to `now` where that is far above it, and sums with it.
static void rescale(const pf_attention_rows *r, int lane, vf now)
{
	vf top = vf_load(r->top + lane), rise = (now - top) * r->scale;
	__mmask16 far = _mm512_cmp_ps_mask((__m512)rise, _mm512_set1_ps(SLACK), _CMP_GT_OQ);
	if (!far)
		return;
	vf factor = (vf)_mm512_mask_mov_ps(_mm512_set1_ps(1), far, (__m512)power_of_two(-rise));
	_mm512_mask_storeu_ps(r->top + lane, far, (__m512)now);
	vf_store(r->total + lane, vf_load(r->total + lane) * factor);
	for (int d = 0; d < r->padded; d++)
		vf_store(r->out + d * ROWS + lane, vf_load(r->out + d * ROWS + lane) * factor);
}

// probabilities sets those of a step, as second operands [2][16 pairs of keys][16 queries][2], and adds them to
// each lane's total.
INLINE void probabilities(const int tall, vf scale, const vf *top, const float *scores, pf_bf16 *p, vf *total)
{
	vf top0 = top[0], top1 = top[1], total0 = total[0], total1 = total[1];
#pragma GCC unroll 4
	for (int j = 0; j < STEP; j += 2, scores += 2 * ROWS, p += 32) {
		vf a = power_of_two((vf_load(scores) - top0) * scale), b = power_of_two((vf_load(scores + ROWS) - top0) * scale);
		total0 += a + b;
		_mm512_store_si512(p, pairs_of(a, b));
		if (!tall)
			continue;
		a = power_of_two((vf_load(scores + 16) - top1) * scale);
		b = power_of_two((vf_load(scores + ROWS + 16) - top1) * scale);
		total1 += a + b;
		_mm512_store_si512(p + TILE, pairs_of(a, b));
	}
	total[0] = total0;
	total[1] = total1;
}

// sum_values adds the products of the steps' values to the sums: 32 of the dimension at a time, the second half
// of which is stored, and loaded, while the first half of the next is multiplied.
INLINE void sum_values(const int tall, const int padded, const int steps, const pf_bf16 *const *values, const pf_bf16 *p, float *out)
{
	PF_TILE_LOAD(0, out, ROW);
	if (tall)
		PF_TILE_LOAD(1, out + 16, ROW);
	PF_TILE_LOAD(2, out + 16 * ROWS, ROW);
	if (tall)
		PF_TILE_LOAD(3, out + 16 * ROWS + 16, ROW);
#pragma GCC unroll 4
	for (int d = 0; d < padded; d += 32, out += 32 * ROWS) {
#pragma GCC unroll 2
		for (int s = 0; s < steps; s++) {
			PF_TILE_STREAM(4, values[s] + d * 32, 64);
			PF_TILE_STREAM(5, values[s] + d * 32 + TILE, 64);
			PF_TILE_LOAD(6, p + s * 2 * TILE, 64);
			PF_TILE_DP(0, 4, 6);
			if (tall) {
				PF_TILE_LOAD(7, p + s * 2 * TILE + TILE, 64);
				PF_TILE_DP(1, 4, 7);
			}
			if (s == 0 && d > 0) {
				PF_TILE_STORE(2, out - 16 * ROWS, ROW);
				if (tall)
					PF_TILE_STORE(3, out - 16 * ROWS + 16, ROW);
				PF_TILE_LOAD(2, out + 16 * ROWS, ROW);
				if (tall)
					PF_TILE_LOAD(3, out + 16 * ROWS + 16, ROW);
			}
			PF_TILE_DP(2, 5, 6);
			if (tall)
				PF_TILE_DP(3, 5, 7);
		}
		PF_TILE_STORE(0, out, ROW);
		if (tall)
			PF_TILE_STORE(1, out + 16, ROW);
		if (d + 32 < padded) {
			PF_TILE_LOAD(0, out + 32 * ROWS, ROW);
			if (tall)
				PF_TILE_LOAD(1, out + 32 * ROWS + 16, ROW);
		}
	}
	PF_TILE_STORE(2, out - 16 * ROWS, ROW);
	if (tall)
		PF_TILE_STORE(3, out - 16 * ROWS + 16, ROW);
}

// values_of is a step's values, where they lie or, if some are not looked at or they lie apart, copied
// with zeros for those that are not.
static const pf_bf16 *values_of(const pf_attention_keys *k, int step, int padded, pf_bf16 *copy)
{
	int g = 2 * step, low = pf_max(0, k->low - step * STEP), end = pf_min(STEP, k->end - step * STEP);
	if (low == 0 && end == STEP && k->value_stride[g] == STEP && k->values[g + 1] == k->values[g] + PF_KV_GROUP)
		return k->values[g];
	__mmask32 seen = 0xffffffffu << low & 0xffffffffu >> (STEP - end);
	int second = end > PF_KV_GROUP ? g + 1 : g; // of a group that is not looked at there may be no address
	int first = low < PF_KV_GROUP ? g : g + 1;
	for (int d = 0; d < padded; d++) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(k->values[first] + (size_t)d * k->value_stride[first]));
		__m256i b = _mm256_loadu_si256((const __m256i *)(k->values[second] + (size_t)d * k->value_stride[second]));
		__m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
		_mm512_store_si512(copy + d * STEP, _mm512_maskz_mov_epi16(seen, both));
	}
	return copy;
}

INLINE void attend_as(const int tall, const int padded, const int steps, const pf_attention_rows *r, const pf_attention_keys *k)
{
	int from = k->low / STEP, groups = pf_ceil(k->end, PF_KV_GROUP);
	float *scores = r->scores;
	pf_bf16 *p = (pf_bf16 *)(scores + KEYS * ROWS), *copy = r->copy;
	const pf_bf16 *keys[2 * STEPS], *values[STEPS];
	for (int g = 0; g < 2 * steps; g++) // in place of a group that is not looked at, one that is
		keys[g] = k->keys[pf_max(k->group, pf_min(2 * from + g, groups - 1))];
	for (int s = 0; s < steps; s++, copy += STEP * padded)
		values[s] = values_of(k, from + s, padded, copy);
	vf now[2] = {vf_load(r->top), vf_load(r->top + 16)};
	score(tall, padded, steps, r, keys, scores, now);
	for (int s = 0; r->masked && s < steps; s++) {
		hide(r, from + s, scores + s * STEP * ROWS);
		larger_of_group(tall, scores + s * STEP * ROWS, now);
		larger_of_group(tall, scores + (s * STEP + PF_KV_GROUP) * ROWS, now);
	}
	rescale(r, 0, now[0]);
	if (tall)
		rescale(r, 16, now[1]);
	vf scale = vf_set(r->scale), top[2] = {vf_load(r->top), vf_load(r->top + 16)};
	vf total[2] = {vf_load(r->total), vf_load(r->total + 16)};
	for (int s = 0; s < steps; s++)
		probabilities(tall, scale, top, scores + s * STEP * ROWS, p + s * 2 * TILE, total);
	vf_store(r->total, total[0]);
	vf_store(r->total + 16, total[1]);
	sum_values(tall, padded, steps, values, p, r->out);
}

// attend is compiled for whole tiles with the usual widths of heads.
static void attend(const pf_attention_rows *r, const pf_attention_keys *k)
{
	int steps = pf_ceil(k->end, STEP) - k->low / STEP;
	if (r->count <= 16)
		attend_as(0, r->padded, steps, r, k);
	else if (r->padded == 64 && steps == STEPS)
		attend_as(1, 64, STEPS, r, k);
	else if (r->padded == 128 && steps == STEPS)
		attend_as(1, 128, STEPS, r, k);
	else
		attend_as(1, r->padded, steps, r, k);
}

// transpose16 turns 16 vectors of 16 into columns.
static void transpose16(__m512 v[16])
{
	__m512 t[16];
	for (int i = 0; i < 16; i += 2) {
		t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
		t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
	}
	for (int i = 0; i < 16; i += 4)
		for (int j = 0; j < 2; j++) {
			__m512d a = (__m512d)t[i + j], b = (__m512d)t[i + j + 2];
			v[i + 2 * j] = (__m512)_mm512_unpacklo_pd(a, b);
			v[i + 2 * j + 1] = (__m512)_mm512_unpackhi_pd(a, b);
		}
	// v[i + j] has, in its quarter q, column 4q+j of rows i..i+3.
	for (int j = 0; j < 4; j++) {
		__m512 low = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x88), low2 = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x88);
		__m512 high = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xdd), high2 = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xdd);
		t[j] = _mm512_shuffle_f32x4(low, low2, 0x88);
		t[8 + j] = _mm512_shuffle_f32x4(low, low2, 0xdd);
		t[4 + j] = _mm512_shuffle_f32x4(high, high2, 0x88);
		t[12 + j] = _mm512_shuffle_f32x4(high, high2, 0xdd);
	}
	memcpy(v, t, sizeof t);
}

static void finish(pf_bf16 *const *dst, const pf_attention_rows *r, int dim)
{
	for (int lane = 0; lane < r->count; lane += 16) {
		vf worth = 1.0f / vf_load(r->total + lane);
		for (int d = 0; d < dim; d += 16) {
			__m512 v[16];
			for (int i = 0; i < 16; i++)
				v[i] = (__m512)(vf_load(r->out + (d + i) * ROWS + lane) * worth);
			transpose16(v);
			for (int i = 0; i < pf_min(16, r->count - lane); i++) {
				pf_bf16 narrow[16];
				vf_narrow(narrow, (vf)v[i]);
				memcpy(dst[lane + i] + d, narrow, (size_t)pf_min(16, dim - d) * sizeof *narrow);
			}
		}
	}
}

const pf_attention_ops pf_attention_amx = {sizeof(pf_bf16), KEYS, STEP, ROWS, 6, pf_tiles_begin, pf_tiles_end, load, attend, finish};
