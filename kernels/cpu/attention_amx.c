//go:build cgo && linux && amd64

// Attention with AMX, transposed: scores are keys times queries, [keys][32 queries], and sums values
// times probabilities, [dimension][32 queries], with keys and values as first operands. So a vector is one
// key, or one dimension, of 16 queries: sums and masks are per lane, and nothing is reduced.
//
// A tile of 64 keys leaves scores, probabilities and sums of a block in the first-level cache, and is
// soon enough through the softmax for the tile unit not to fall asleep; keys and values are streamed.
// Sums are relative to a lane's top, its largest score when it was last looked for: that is in the lane's first tile,
// and where a tile's probabilities get too large.

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

// How much the probabilities of a tile may be in all.
static const float MOST = 0x1p16f;

// Scaled tops from here on are off by 1 and more, as powers of two, when they are rounded.
static const float FAR = 0x1p24f;

// power_of_two is 2^x to 1.1e-4, less than bf16 tells apart, and `more` at the last power of two below it; far below
// 0 it is 0, and 2^0 is 1.
static inline vf power_of_two(vf x, float more)
{
	vf f = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
	vf p = vf_set(0.0790200f);
	p = p * f + 0.2241300f;
	p = p * f + 0.6968500f;
	p = p * f + (1.0f + more);
	return (vf)_mm512_scalef_ps((__m512)p, (__m512)x);
}

static inline vf larger(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }

// HALF of the last place of bf16 turns truncation into rounding to nearest.
#define HALF 0x1p-8f

// pairs_of is the bf16 of both side by side, truncated.
static inline __m512i pairs_of(vf low, vf high)
{
	const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
	return _mm512_ternarylogic_epi32(_mm512_srli_epi32((__m512i)low, 16), (__m512i)high, upper, 0xf8); // low | (high & upper)
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

// score sets the scores of a tile's steps, 32 keys at a time. They are stored two products after they are complete, while
// those of the next keys are summed.
INLINE void score(const int tall, const int padded, const int steps, const pf_bf16 *q, const pf_bf16 *const *keys, float *scores)
{
	const pf_bf16 *q2 = q + 16 * padded;
#define STORE_SCORES(t, t2, group) \
	do { \
		PF_TILE_STORE(t, scores + (group) * 16 * ROWS, ROW); \
		if (tall) \
			PF_TILE_STORE(t2, scores + (group) * 16 * ROWS + 16, ROW); \
	} while (0)
#pragma GCC unroll 2
	for (int s = 0; s < steps; s++) {
		const pf_bf16 *a = keys[2 * s], *b = keys[2 * s + 1];
#pragma GCC unroll 4
		for (int d = 0; d < padded / 32; d++) {
			PF_TILE_STREAM(4, a + d * TILE, 64);
			PF_TILE_STREAM(5, b + d * TILE, 64);
			PF_TILE_LOAD(6, q + d * TILE, 64);
			if (tall)
				PF_TILE_LOAD(7, q2 + d * TILE, 64);
			if (d == 0) {
				if (s > 0)
					STORE_SCORES(0, 1, 2 * s - 2);
				PF_TILE_ZERO(0);
				PF_TILE_ZERO(1);
			}
			PF_TILE_DP(0, 4, 6);
			if (tall)
				PF_TILE_DP(1, 4, 7);
			if (d == 0) {
				if (s > 0)
					STORE_SCORES(2, 3, 2 * s - 1);
				PF_TILE_ZERO(2);
				PF_TILE_ZERO(3);
			}
			PF_TILE_DP(2, 5, 6);
			if (tall)
				PF_TILE_DP(3, 5, 7);
		}
	}
	STORE_SCORES(0, 1, 2 * steps - 2);
	STORE_SCORES(2, 3, 2 * steps - 1);
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

// A top_of is what the scores of 16 lanes are relative to, also scaled, and which of the lanes are far.
typedef struct top_of {
	vf top, scaled;
	__mmask16 far;
} top_of;

INLINE top_of load_top(const pf_attention_rows *r, int lane)
{
	vf top = vf_load(r->top + lane), scaled = top * r->scale;
	return (top_of){top, scaled, _mm512_cmp_ps_mask(_mm512_abs_ps((__m512)scaled), _mm512_set1_ps(FAR), _CMP_GE_OQ)};
}

// relative is how far scores are above the top, scaled. What rounding did to the scaled top is common to a lane's scores, and so of
// no account, unless the lane is far; far tells whether some may be.
INLINE vf relative(const int far, vf score, vf scale, const top_of *t)
{
	__m512 x = _mm512_fmsub_ps((__m512)score, (__m512)scale, (__m512)t->scaled);
	return (vf)(far ? _mm512_mask_mov_ps(x, t->far, (__m512)((score - t->top) * scale)) : x);
}

// raise_top moves the top of some lanes up to their largest score of a tile's keys, and what they have summed with it.
static __attribute__((noinline)) void raise_top(const pf_attention_rows *r, int lane, __mmask16 some, int keys, int have_sums)
{
	if (!some)
		return;
	top_of before = load_top(r, lane);
	vf largest = before.top, largest2 = largest, scale = vf_set(r->scale);
	for (int j = 0; j < keys; j += 2) {
		largest = larger(largest, vf_load(r->scores + j * ROWS + lane));
		largest2 = larger(largest2, vf_load(r->scores + (j + 1) * ROWS + lane));
	}
	largest = larger(largest, largest2);
	_mm512_mask_storeu_ps(r->top + lane, some, (__m512)largest);
	if (!have_sums)
		return;
	top_of now = load_top(r, lane);
	vf fall = relative(1, largest, scale, &now) - relative(1, largest, scale, &before);
	vf factor = (vf)_mm512_mask_mov_ps(_mm512_set1_ps(1), some, (__m512)power_of_two(fall, 0));
	vf_store(r->total + lane, vf_load(r->total + lane) * factor);
	for (int d = 0; d < r->padded; d++)
		vf_store(r->out + d * ROWS + lane, vf_load(r->out + d * ROWS + lane) * factor);
}

// pair sets the probabilities of two keys, and adds what they are rounded to to a sum.
INLINE __m512 pair(const int far, const float *scores, vf scale, const top_of *top, pf_bf16 *p, __m512 sum)
{
	vf a = power_of_two(relative(far, vf_load(scores), scale, top), HALF);
	vf b = power_of_two(relative(far, vf_load(scores + ROWS), scale, top), HALF);
	__m512i both = pairs_of(a, b);
	_mm512_store_si512(p, both);
	return _mm512_dpbf16_ps(sum, (__m512bh)both, (__m512bh)_mm512_set1_epi32(0x3f803f80)); // times one
}

// probabilities sets those of a tile, as second operands [steps][2][16 pairs of keys][16 queries][2], and each lane's sum of them.
INLINE void probabilities(const int tall, const int far, int steps, vf scale, const top_of *tops, const float *scores, pf_bf16 *p, __m512 *sums)
{
	top_of top = tops[0], top2 = tops[1];
	__m512 sum = {}, sum2 = {};
	for (int s = 0; s < steps; s++, p += TILE)
#pragma GCC unroll 4
		for (int j = 0; j < STEP; j += 2, scores += 2 * ROWS, p += 32) {
			sum = pair(far, scores, scale, &top, p, sum);
			if (tall)
				sum2 = pair(far, scores + 16, scale, &top2, p + TILE, sum2);
		}
	sums[0] = sum;
	sums[1] = sum2;
}

static __attribute__((noinline)) void far_probabilities(int steps, vf scale, const top_of *tops, const float *scores, pf_bf16 *p, __m512 *sums)
{
	probabilities(1, 1, steps, scale, tops, scores, p, sums);
}

// first_tops gives lanes that had no score before this tile a top.
static __attribute__((noinline)) void first_tops(int tall, const pf_attention_rows *r, int keys)
{
	for (int lane = 0; lane < 16 * (1 + tall); lane += 16)
		raise_top(r, lane, _mm512_cmp_ps_mask(_mm512_loadu_ps(r->top + lane), _mm512_set1_ps(PF_LOWEST_TOP), _CMP_EQ_OQ), keys, 0);
}

// softmax turns a tile's scores into probabilities, and adds them to the lanes' totals. Whether a lane's top moves depends on
// its own scores alone.
static __attribute__((noinline)) void softmax(int tall, int steps, const pf_attention_rows *r, pf_bf16 *p)
{
	vf scale = vf_set(r->scale);
	__m512 sums[2];
	for (int tries = 0;; tries++) {
		top_of tops[2] = {load_top(r, 0), load_top(r, 16)};
		int far = tops[0].far || (tall && tops[1].far);
		if (far && tries == 0) { // so are lanes that have no top yet
			first_tops(tall, r, steps * STEP);
			continue;
		}
		if (far)
			far_probabilities(steps, scale, tops, r->scores, p, sums);
		else if (tall)
			probabilities(1, 0, steps, scale, tops, r->scores, p, sums);
		else
			probabilities(0, 0, steps, scale, tops, r->scores, p, sums);
		__mmask16 some = _mm512_cmp_ps_mask(sums[0], _mm512_set1_ps(MOST), _CMP_GT_OQ);
		__mmask16 some2 = tall ? _mm512_cmp_ps_mask(sums[1], _mm512_set1_ps(MOST), _CMP_GT_OQ) : 0;
		if (!(some | some2))
			break;
		raise_top(r, 0, some, steps * STEP, 1);
		raise_top(r, 16, some2, steps * STEP, 1);
	}
	vf_store(r->total, vf_load(r->total) + (vf)sums[0]);
	if (tall)
		vf_store(r->total + 16, vf_load(r->total + 16) + (vf)sums[1]);
}

// SUM adds the products of the steps' values to the sums of 16 of the dimension, from d on, in tiles x and y. Those of the 16
// before, in y and z, are stored when they have been complete for two products.
#define SUM(x, y, z) \
	do { \
		PF_TILE_STREAM(3, values[0] + d * 32, 64); \
		PF_TILE_LOAD(x, out + d * ROWS, ROW); \
		PF_TILE_DP(x, 3, 4); \
		if (d > 0) \
			PF_TILE_STORE(y, out + (d - 16) * ROWS, ROW); \
		if (tall) { \
			PF_TILE_LOAD(y, out + d * ROWS + 16, ROW); \
			PF_TILE_DP(y, 3, 5); \
			if (d > 0) \
				PF_TILE_STORE(z, out + (d - 16) * ROWS + 16, ROW); \
		} \
		if (steps > 1) { \
			PF_TILE_STREAM(3, values[1] + d * 32, 64); \
			PF_TILE_DP(x, 3, 6); \
			if (tall) \
				PF_TILE_DP(y, 3, 7); \
		} \
		d += 16; \
	} while (0)
#define END(x, y) \
	do { \
		PF_TILE_STORE(x, out + (d - 16) * ROWS, ROW); \
		if (tall) \
			PF_TILE_STORE(y, out + (d - 16) * ROWS + 16, ROW); \
	} while (0)

// sum_values adds the products of the steps' values to the sums. The probabilities stay in tiles meanwhile.
INLINE void sum_values(const int tall, const int padded, const int steps, const pf_bf16 *const *values, const pf_bf16 *p, float *out)
{
	PF_TILE_LOAD(4, p, 64);
	if (tall)
		PF_TILE_LOAD(5, p + TILE, 64);
	if (steps > 1) {
		PF_TILE_LOAD(6, p + 2 * TILE, 64);
		if (tall)
			PF_TILE_LOAD(7, p + 3 * TILE, 64);
	}
	for (int d = 0;;) {
		SUM(0, 1, 2);
		SUM(2, 0, 1);
		if (d == padded) {
			END(2, 0);
			break;
		}
		SUM(1, 2, 0);
		SUM(0, 1, 2);
		if (d == padded) {
			END(0, 1);
			break;
		}
		SUM(2, 0, 1);
		SUM(1, 2, 0);
		if (d == padded) {
			END(1, 2);
			break;
		}
	}
}

// values_of is a step's values, where they lie or, if some are not looked at or they lie apart, copied
// with zeros for those that are not.
static __attribute__((noinline)) const pf_bf16 *values_of(const pf_attention_keys *k, int step, int padded, pf_bf16 *copy)
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

// attend_as adds the steps of a tile, the first being number `from` among those of all keys.
INLINE void attend_as(const int tall, const int padded, const int steps, const pf_attention_rows *r, const pf_attention_keys *k, int from)
{
	int group = 2 * from, end = pf_ceil(k->end, PF_KV_GROUP);
	pf_bf16 *p = (pf_bf16 *)(r->scores + KEYS * ROWS), *copy = r->copy;
	const pf_bf16 *const *keys = k->keys + group, *some[2 * STEPS], *values[STEPS];
	if (group < k->group || end < group + 2 * steps) {
		for (int g = 0; g < 2 * steps; g++) // in place of a group that is not looked at, one that is
			some[g] = k->keys[pf_max(k->group, pf_min(group + g, end - 1))];
		keys = some;
	}
	for (int s = 0; s < steps; s++, copy += STEP * padded)
		values[s] = values_of(k, from + s, padded, copy);
	score(tall, padded, steps, r->queries, keys, r->scores);
	for (int i = 0; r->cap > 0 && i < steps * STEP * ROWS; i += PF_LANES)
		vf_store(r->scores + i, vf_cap(vf_load(r->scores + i), r->inner, r->cap));
	if (r->masked && (r->first[ROWS - 1] > from * STEP || r->last[0] < (from + steps) * STEP))
		for (int s = 0; s < steps; s++)
			hide(r, from + s, r->scores + s * STEP * ROWS);
	softmax(tall, steps, r, p);
	sum_values(tall, padded, steps, values, p, r->out);
}

// attend is compiled for whole tiles with the usual widths of heads.
static void attend(const pf_attention_rows *r, const pf_attention_keys *k)
{
	int end = pf_ceil(k->end, STEP);
	for (int from = k->low / STEP; from < end;) {
		int steps = pf_min(end, (from / STEPS + 1) * STEPS) - from;
		if (r->count <= 16)
			attend_as(0, r->padded, steps, r, k, from);
		else if (r->padded == 64 && steps == STEPS)
			attend_as(1, 64, STEPS, r, k, from);
		else if (r->padded == 128 && steps == STEPS)
			attend_as(1, 128, STEPS, r, k, from);
		else
			attend_as(1, r->padded, steps, r, k, from);
		from += steps;
	}
}

static void move(const pf_attention_rows *to, int row, const pf_attention_rows *from, int old)
{
	to->top[row] = from->top[old];
	to->total[row] = from->total[old];
	for (int d = 0; d < to->padded; d++)
		to->out[d * ROWS + row] = from->out[d * ROWS + old];
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

const pf_attention_ops pf_attention_amx = {sizeof(pf_bf16), PF_KEY_TILE, STEP, ROWS, 12, pf_tiles_begin, pf_tiles_end, load, attend, move, finish};
