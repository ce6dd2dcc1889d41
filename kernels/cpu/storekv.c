//go:build cgo && linux && amd64

// StoreKV: per-head normalisation and rotation of queries and keys, and the way of keys and values
// into their blocks. The loops are plain, for the compiler to vectorise; AVX2 is enough for work that
// is a hundredth of the matrix products beside it, and so all instruction sets give the same bits.

#include "internal.h"

#include <math.h>
#include <string.h>

#pragma GCC target("avx2,fma,f16c")

enum {
	MAX_DIM = 1024,
	SUMS = 8, // partial sums of squares; x ends with as many zeros past dim
	TASKS_PER_THREAD = 4,
};

// prepare sets x = RMSNorm(x; weight, eps) if there is a weight, and turns the pairs (i, i+half) by
// the position's angles.
static void prepare(float *restrict x, int dim, const float *restrict weight, float eps,
                    const float *restrict cosines, const float *restrict sines, int half)
{
	if (weight) {
		float sums[SUMS] = {0}, square = 0;
		for (int i = 0; i < dim; i += SUMS)
			for (int j = 0; j < SUMS; j++)
				sums[j] += x[i + j] * x[i + j];
		for (int j = 0; j < SUMS; j++)
			square += sums[j];
		float scale = 1 / sqrtf(square / (float)dim + eps);
		for (int i = 0; i < dim; i++)
			x[i] = x[i] * scale * weight[i];
	}
	float *restrict y = x + half;
	for (int i = 0; i < half; i++) {
		float a = x[i], b = y[i];
		x[i] = a * cosines[i] - b * sines[i];
		y[i] = b * cosines[i] + a * sines[i];
	}
}

static void widen(float *restrict dst, const pf_bf16 *restrict src, int n)
{
	uint32_t *bits = (uint32_t *)(void *)dst;
	for (int i = 0; i < n; i++)
		bits[i] = (uint32_t)src[i] << 16;
}

// narrow rounds to nearest even; NaN stays NaN.
static void narrow(pf_bf16 *restrict dst, const float *restrict src, int n)
{
	for (int i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, &src[i], sizeof bits);
		uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
		dst[i] = (pf_bf16)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
	}
}

static void store_key(pf_kv_layout layout, pf_bf16 *keys, int slot, const pf_bf16 *key, int padded)
{
	int run = layout == PF_KV_TILES ? 32 : 2; // elements that stay side by side
	for (int d = 0; d < padded; d += run)
		memcpy(keys + pf_k_index(layout, slot, d, padded), key + d, (size_t)run * sizeof *key);
}

static void store_value(pf_kv_layout layout, pf_bf16 *values, int slot, const pf_bf16 *value, int padded, int tokens)
{
	pf_bf16 *to = values + pf_v_index(layout, slot, padded);
	int stride = pf_v_stride(layout, slot, tokens);
	for (int d = 0; d < padded; d++)
		to[(size_t)stride * d] = value[d];
}

static void store_token(pf_kv_layout layout, const pf_store_kv_args *a, const pf_segment *s, int row)
{
	float x[MAX_DIM + SUMS];
	pf_bf16 padded_row[MAX_DIM];
	int pos = s->pos + row, slot = pos % a->block_tokens, half = a->rope_dim / 2, padded = pf_kv_padded(a->dim);
	const float *cosines = a->cosines + (size_t)pos * half, *sines = a->sines + (size_t)pos * half;
	memset(x + a->dim, 0, SUMS * sizeof *x);
	pf_bf16 *query = a->qkv + (size_t)(s->row + row) * a->qkv_stride;
	for (int h = 0; h < a->q_heads; h++, query += a->dim) {
		widen(x, query, a->dim);
		prepare(x, a->dim, a->q_norm, a->eps, cosines, sines, half);
		narrow(query, x, a->dim);
	}
	const pf_bf16 *key = query, *value = key + a->kv_heads * a->dim;
	size_t elements = pf_kv_elems(a->block_tokens, a->dim);
	pf_bf16 *block = s->blocks[pos / a->block_tokens];
	memset(padded_row + a->dim, 0, (size_t)(padded - a->dim) * sizeof *padded_row);
	for (int h = 0; h < a->kv_heads; h++, key += a->dim, value += a->dim, block += 2 * elements) {
		widen(x, key, a->dim);
		prepare(x, a->dim, a->k_norm, a->eps, cosines, sines, half);
		narrow(padded_row, x, a->dim);
		store_key(layout, block, slot, padded_row, padded);
		memcpy(padded_row, value, (size_t)a->dim * sizeof *value);
		store_value(layout, block + elements, slot, padded_row, padded, a->block_tokens);
	}
}

typedef struct store {
	const pf_store_kv_args *args;
	pf_kv_layout layout;
	int rows, tasks;
} store;

// store_share stores a task's share of the rows of all segments.
static void store_share(void *arg, int task, int thread)
{
	(void)thread;
	const store *st = arg;
	int64_t from = (int64_t)st->rows * task / st->tasks, to = (int64_t)st->rows * (task + 1) / st->tasks;
	int64_t before = 0; // rows of earlier segments
	for (int i = 0; i < st->args->segment_count && before < to; i++) {
		const pf_segment *s = &st->args->segments[i];
		for (int64_t row = from > before ? from - before : 0; row < s->rows && before + row < to; row++)
			store_token(st->layout, st->args, s, (int)row);
		before += s->rows;
	}
}

void pf_store_kv(pf_pool *pool, pf_isa isa, const pf_store_kv_args *args)
{
	store st = {args, pf_kv_layout_of(isa), 0, 0};
	for (int i = 0; i < args->segment_count; i++)
		st.rows += args->segments[i].rows;
	st.tasks = pf_min(st.rows, pf_pool_threads(pool) * TASKS_PER_THREAD);
	pf_parallel(pool, store_share, &st, st.tasks);
}
