// Products of attention in vector registers. A source that includes this includes vectors.h, states its
// target, TILE_ROWS and TILE_VECTORS (the accumulators that its registers hold: TILE_ROWS rows of
// TILE_VECTORS vectors) and defines
//
//   operand, row_pair, column_pairs           an element of a query or probability; pairs in registers
//   broadcast(const operand *)                two adjacent elements in every lane
//   columns(const pf_bf16 *)                  PF_LANES pairs
//   columns_even(const pf_bf16 *)             the same with the second of each pair zero
//   multiply_add(vf, row_pair, column_pairs)  sum + a[0]*b[0] + a[1]*b[1]

#include "attention.h"

enum {
	GROUP_VECTORS = PF_KV_GROUP / PF_LANES,
	PAIR_ELEMENTS = 2 * PF_LANES, // of K or V in one vector
};

#define INLINE static inline __attribute__((always_inline))

// score sets scores of `rows` queries with `vectors` vectors of keys, pointed at by key.
INLINE void score(const int rows, const int vectors, const operand *q, int padded, const pf_bf16 *const *key, float *scores)
{
	vf sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int v = 0; v < vectors; v++)
			sum[i][v] = (vf){};
	for (int p = 0; p < padded / 2; p++) {
		column_pairs b[TILE_VECTORS];
#pragma GCC unroll 4
		for (int v = 0; v < vectors; v++)
			b[v] = columns(key[v / GROUP_VECTORS] + p * 2 * PF_KV_GROUP + v % GROUP_VECTORS * PAIR_ELEMENTS);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			row_pair a = broadcast(q + i * padded + 2 * p);
#pragma GCC unroll 4
			for (int v = 0; v < vectors; v++)
				sum[i][v] = multiply_add(sum[i][v], a, b[v]);
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int v = 0; v < vectors; v++)
			vf_store(scores + i * PF_KEY_TILE + v * PF_LANES, sum[i][v]);
}

// sum_values sets out = out * factor + probabilities * values, for `rows` rows and `vectors` vectors
// of columns that begin at column. Values at or past k->end are not touched but for the other half of
// a pair, which counts as zero.
INLINE void sum_values(const int rows, const int vectors, const pf_attention_rows *r, const pf_attention_keys *k,
                       int row, int column, const float *factor)
{
	vf sum[TILE_ROWS][TILE_VECTORS];
	float *out = r->out + (size_t)row * r->padded + column;
	enum { STRIDE = PF_KEY_TILE * sizeof(float) / sizeof(operand) };
	const operand *probability = (const operand *)r->scores + (size_t)row * STRIDE;
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int v = 0; v < vectors; v++)
			sum[i][v] = vf_load(out + i * r->padded + v * PF_LANES) * factor[row + i];
#define STEP(load, g, p) \
	do { \
		column_pairs b[TILE_VECTORS]; \
		const pf_bf16 *value = k->values[g] + 2 * ((size_t)(p) * r->padded + column); \
		_Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) b[v] = load(value + v * PAIR_ELEMENTS); \
		_Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) \
		{ \
			row_pair a = broadcast(probability + i * STRIDE + (g) * PF_KV_GROUP + 2 * (p)); \
			_Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) sum[i][v] = multiply_add(sum[i][v], a, b[v]); \
		} \
	} while (0)
	for (int g = k->group; g * PF_KV_GROUP < k->end; g++) {
		int pairs = pf_min(PF_KV_GROUP, k->end - g * PF_KV_GROUP) / 2;
		for (int p = 0; p < pairs; p++)
			STEP(columns, g, p);
	}
	if (k->end % 2)
		STEP(columns_even, k->end / PF_KV_GROUP, k->end % PF_KV_GROUP / 2);
#undef STEP
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int v = 0; v < vectors; v++)
			vf_store(out + i * r->padded + v * PF_LANES, sum[i][v]);
}

// FOR_ROWS calls with the number of rows as a constant.
#define ROWS_CASE(n, call) \
	case n: { \
		enum { ROWS = n <= TILE_ROWS ? n : TILE_ROWS }; \
		call; \
		break; \
	}
#define FOR_ROWS(rows, call) \
	switch (rows) { \
		ROWS_CASE(1, call) ROWS_CASE(2, call) ROWS_CASE(3, call) ROWS_CASE(4, call) \
		ROWS_CASE(5, call) ROWS_CASE(6, call) ROWS_CASE(7, call) ROWS_CASE(8, call) \
		ROWS_CASE(9, call) ROWS_CASE(10, call) ROWS_CASE(11, call) ROWS_CASE(12, call) \
	}

INLINE void score_columns(const int vectors, const pf_attention_rows *r, const pf_attention_keys *k, int group)
{
	for (int i = 0; i < r->count; i += TILE_ROWS) {
		const operand *q = (const operand *)r->queries + (size_t)i * r->padded;
		float *scores = r->scores + i * PF_KEY_TILE + group * PF_KV_GROUP;
		FOR_ROWS(pf_min(TILE_ROWS, r->count - i), score(ROWS, vectors, q, r->padded, &k->keys[group], scores))
	}
}

static void score_all(const pf_attention_rows *r, const pf_attention_keys *k)
{
	enum { STEP = TILE_VECTORS / GROUP_VECTORS };
	int g = k->group, groups = pf_ceil(k->end, PF_KV_GROUP);
	for (; g + STEP <= groups; g += STEP)
		score_columns(TILE_VECTORS, r, k, g);
	for (; g < groups; g++)
		score_columns(GROUP_VECTORS, r, k, g);
}

INLINE void sum_columns(const int vectors, const pf_attention_rows *r, const pf_attention_keys *k, int column, const float *factor)
{
	for (int i = 0; i < r->count; i += TILE_ROWS)
		FOR_ROWS(pf_min(TILE_ROWS, r->count - i), sum_values(ROWS, vectors, r, k, i, column, factor))
}

static void sum_all(const pf_attention_rows *r, const pf_attention_keys *k, const float *factor)
{
	int column = 0;
	for (; column + TILE_VECTORS * PF_LANES <= r->padded; column += TILE_VECTORS * PF_LANES)
		sum_columns(TILE_VECTORS, r, k, column, factor);
	for (; column < r->padded; column += 32)
		sum_columns(32 / PF_LANES < TILE_VECTORS ? 32 / PF_LANES : TILE_VECTORS, r, k, column, factor);
}
