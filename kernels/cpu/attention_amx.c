//go:build cgo && linux && amd64

// Attention with AMX: blocks of 32 rows; four tile registers hold 32 rows by 32 keys of scores, or by 32
// columns of sums. The layouts of keys and values are those of its second operand.

#include <immintrin.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")

#define PF_LANES 16

#include "amx.h"
#include "attention.h"
#include "vectors.h"

#include "attention_bf16.h"
#include "exp512.h"

enum {
	ROWS = 16,                       // of a tile
	STEP_KEYS = 32,                  // keys that one multiplication of probabilities and values sums over
	SCORES_ROW = PF_KEY_TILE * 4,    // bytes
	GROUP_STEP = 16 * 2 * PF_KV_GROUP, // elements of a group's keys of 32 dimensions
};

// score sets 16 or 32 rows of scores with two groups of keys; a missing second group may be the first.
static inline __attribute__((always_inline)) void score(const int rows, const pf_bf16 *q, int padded, const pf_bf16 *key,
                                                        const pf_bf16 *key2, float *scores)
{
	PF_TILE_ZERO(0);
	PF_TILE_ZERO(1);
	if (rows > ROWS) {
		PF_TILE_ZERO(2);
		PF_TILE_ZERO(3);
	}
	for (int d = 0; d < padded; d += 32, key += GROUP_STEP, key2 += GROUP_STEP) {
		PF_TILE_LOAD(4, q + d, padded * 2);
		PF_TILE_LOAD(6, key, 64);
		PF_TILE_LOAD(7, key2, 64);
		PF_TILE_DP(0, 4, 6);
		PF_TILE_DP(1, 4, 7);
		if (rows > ROWS) {
			PF_TILE_LOAD(5, q + (size_t)ROWS * padded + d, padded * 2);
			PF_TILE_DP(2, 5, 6);
			PF_TILE_DP(3, 5, 7);
		}
	}
	PF_TILE_STORE(0, scores, SCORES_ROW);
	PF_TILE_STORE(1, scores + PF_KV_GROUP, SCORES_ROW);
	if (rows > ROWS) {
		PF_TILE_STORE(2, scores + ROWS * PF_KEY_TILE, SCORES_ROW);
		PF_TILE_STORE(3, scores + ROWS * PF_KEY_TILE + PF_KV_GROUP, SCORES_ROW);
	}
}

// score_all scores pairs of groups, the last group twice where its neighbour is not looked at; the
// softmax overwrites the scores of groups that are not.
static void score_all(const pf_attention_rows *r, const pf_attention_keys *k)
{
	int groups = pf_ceil(k->end, PF_KV_GROUP);
	for (int g = k->group & -2; g < groups; g += 2) {
		const pf_bf16 *key = k->keys[pf_max(g, k->group)], *key2 = k->keys[pf_min(g + 1, groups - 1)];
		float *scores = r->scores + g * PF_KV_GROUP;
		if (r->count > ROWS)
			score(2 * ROWS, r->queries, r->padded, key, key2, scores);
		else
			score(ROWS, r->queries, r->padded, key, key2, scores);
	}
}

// value_step is 32 keys' values, as rows of padded pairs: where they lie, or, if some of them are not
// looked at or lie apart, copied together with zeros for those that are not.
static const pf_bf16 *value_step(const pf_attention_keys *k, int g, int padded, pf_bf16 *copy)
{
	size_t group = (size_t)PF_KV_GROUP * padded;
	int whole = g >= k->group && (g + 2) * PF_KV_GROUP <= k->end;
	if (whole && k->values[g + 1] == k->values[g] + group)
		return k->values[g];
	memset(copy, 0, 2 * group * sizeof *copy);
	for (int i = pf_max(g, k->group); i < g + 2 && i * PF_KV_GROUP < k->end; i++) {
		int keys = pf_min(PF_KV_GROUP, k->end - i * PF_KV_GROUP);
		pf_bf16 *to = copy + (i - g) * group;
		memcpy(to, k->values[i], (size_t)(keys / 2) * padded * 2 * sizeof *copy);
		if (keys % 2)
			for (size_t at = (size_t)keys / 2 * padded * 2, end = at + 2 * padded; at < end; at += 2)
				to[at] = k->values[i][at];
	}
	return copy;
}

// sum_values adds the products with 32 columns of values to 16 or 32 rows of out.
static inline __attribute__((always_inline)) void sum_values(const int rows, const pf_attention_rows *r,
                                                             const pf_bf16 *const *values, int from, int steps, int column)
{
	float *out = r->out + column;
	size_t out_row = (size_t)r->padded * 4, lower = (size_t)ROWS * r->padded;
	const char *probabilities = (const char *)r->scores;
	PF_TILE_LOAD(0, out, out_row);
	PF_TILE_LOAD(1, out + 16, out_row);
	if (rows > ROWS) {
		PF_TILE_LOAD(2, out + lower, out_row);
		PF_TILE_LOAD(3, out + lower + 16, out_row);
	}
	for (int s = from; s < steps; s++) {
		const pf_bf16 *value = values[s] + 2 * column;
		const char *p = probabilities + s * STEP_KEYS * 2;
		PF_TILE_LOAD(4, p, SCORES_ROW);
		PF_TILE_LOAD(6, value, r->padded * 4);
		PF_TILE_LOAD(7, value + 32, r->padded * 4);
		PF_TILE_DP(0, 4, 6);
		PF_TILE_DP(1, 4, 7);
		if (rows > ROWS) {
			PF_TILE_LOAD(5, p + ROWS * SCORES_ROW, SCORES_ROW);
			PF_TILE_DP(2, 5, 6);
			PF_TILE_DP(3, 5, 7);
		}
	}
	PF_TILE_STORE(0, out, out_row);
	PF_TILE_STORE(1, out + 16, out_row);
	if (rows > ROWS) {
		PF_TILE_STORE(2, out + lower, out_row);
		PF_TILE_STORE(3, out + lower + 16, out_row);
	}
}

static void sum_all(const pf_attention_rows *r, const pf_attention_keys *k, const float *factor)
{
	for (int i = 0; i < r->count; i++)
		for (int d = 0; factor[i] != 1 && d < r->padded; d += PF_LANES)
			vf_store(r->out + (size_t)i * r->padded + d, vf_load(r->out + (size_t)i * r->padded + d) * factor[i]);

	enum { STEPS = PF_KEY_TILE / STEP_KEYS };
	const pf_bf16 *values[STEPS];
	int from = k->group / 2, steps = pf_ceil(k->end, STEP_KEYS);
	pf_bf16 *copy = (pf_bf16 *)r->copy;
	for (int s = from; s < steps; s++, copy += (size_t)STEP_KEYS * r->padded)
		values[s] = value_step(k, 2 * s, r->padded, copy);
	for (int column = 0; column < r->padded; column += 32)
		if (r->count > ROWS)
			sum_values(2 * ROWS, r, values, from, steps, column);
		else
			sum_values(ROWS, r, values, from, steps, column);
}

#include "attention_softmax.h"

const pf_attention_ops pf_attention_amx = {sizeof(operand), 2 * ROWS, pf_tiles_begin, pf_tiles_end, load, attend, finish};
