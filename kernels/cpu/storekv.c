//go:build cgo && linux && amd64

// StoreKV: per-head normalisation and rotation of queries and keys, and the way of keys and values
// into their blocks. The loops are plain, for the compiler to vectorise; AVX2 is enough for work that
// is a hundredth of the matrix products beside it, and so all instruction sets give the same bits.

#include "internal.h"

#include <immintrin.h>
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
	pf_bf16 *to = keys + pf_k_index(layout, slot, 0, padded);
	if (layout == PF_KV_TILES)
		for (int d = 0; d < padded; d += 32, to += PF_KV_GROUP * 32)
			memcpy(to, key + d, 32 * sizeof *key);
	else
		for (int d = 0; d < padded; d += 2, to += PF_KV_GROUP * 2)
			memcpy(to, key + d, 2 * sizeof *key);
}

static void store_value(pf_kv_layout layout, pf_bf16 *values, int slot, const pf_bf16 *value, int padded, int tokens)
{
	pf_bf16 *to = values + pf_v_index(layout, slot, padded);
	int stride = pf_v_stride(layout, slot, tokens);
	for (int d = 0; d < padded; d += 8, to += (size_t)stride * 8)
		for (int i = 0; i < 8; i++)
			to[(size_t)stride * i] = value[d + i];
}

// store_values stores those of 8 tokens from `slot` on, a multiple of 8, whose heads are src_stride apart and as wide as
// in memory, in PF_KV_TILES.
static void store_values(pf_bf16 *values, int slot, const pf_bf16 *value, size_t src_stride, int padded, int tokens)
{
	pf_bf16 *to = values + pf_v_index(PF_KV_TILES, slot, padded);
	int stride = pf_v_stride(PF_KV_TILES, slot, tokens);
	for (int d = 0; d < padded; d += 8) {
		__m128i v[8], t[8];
		for (int i = 0; i < 8; i++)
			v[i] = _mm_loadu_si128((const __m128i *)(value + i * src_stride + d));
		for (int i = 0; i < 4; i++) {
			t[2 * i] = _mm_unpacklo_epi16(v[i], v[i + 4]);
			t[2 * i + 1] = _mm_unpackhi_epi16(v[i], v[i + 4]);
		}
		for (int i = 0; i < 4; i++) {
			v[2 * i] = _mm_unpacklo_epi16(t[i], t[i + 4]);
			v[2 * i + 1] = _mm_unpackhi_epi16(t[i], t[i + 4]);
		}
		for (int i = 0; i < 4; i++) {
			t[2 * i] = _mm_unpacklo_epi16(v[i], v[i + 4]);
			t[2 * i + 1] = _mm_unpackhi_epi16(v[i], v[i + 4]);
		}
		for (int i = 0; i < 8; i++, to += stride)
			_mm_storeu_si128((__m128i *)to, t[i]);
	}
}

// normalise_heads sets a row of heads to the RMS norm of all of them together.
static void normalise_heads(pf_bf16 *heads, int count, int dim, const float *weight, float eps)
{
	float x[MAX_DIM + SUMS], sums[SUMS] = {0}, square = 0;
	memset(x + dim, 0, SUMS * sizeof *x);
	for (int h = 0; h < count; h++) {
		widen(x, heads + (size_t)h * dim, dim);
		for (int i = 0; i < dim; i += SUMS)
			for (int j = 0; j < SUMS; j++)
				sums[j] += x[i + j] * x[i + j];
	}
	for (int j = 0; j < SUMS; j++)
		square += sums[j];
	float scale = 1 / sqrtf(square / ((float)count * (float)dim) + eps);
	for (int h = 0; h < count; h++, heads += dim, weight += dim) {
		widen(x, heads, dim);
		for (int i = 0; i < dim; i++)
			x[i] = x[i] * scale * weight[i];
		narrow(heads, x, dim);
	}
}

// turned is the head that prepare makes of one, in room unless it is the same.
static const pf_bf16 *turned(pf_bf16 *room, const pf_bf16 *head, const pf_store_kv_args *a, const float *weight, const float *cosines, const float *sines)
{
	float x[MAX_DIM + SUMS];
	if (!weight && a->rope_dim == 0)
		return head;
	memset(x + a->dim, 0, SUMS * sizeof *x);
	widen(x, head, a->dim);
	prepare(x, a->dim, weight, a->eps, cosines, sines, a->rope_dim / 2);
	narrow(room, x, a->dim);
	return room;
}

// padded_to is the head with the zeros that follow it, in room unless there are none.
static const pf_bf16 *padded_to(pf_bf16 *room, const pf_bf16 *head, int dim, int padded)
{
	if (dim == padded)
		return head;
	memmove(room, head, (size_t)dim * sizeof *head);
	memset(room + dim, 0, (size_t)(padded - dim) * sizeof *head);
	return room;
}

typedef struct angles {
	const float *cosines, *sines;
} angles;

static angles angles_of(const pf_store_kv_args *a, int pos)
{
	size_t at = (size_t)pos * (a->rope_dim / 2);
	return (angles){a->rope_dim ? a->cosines + at : NULL, a->rope_dim ? a->sines + at : NULL};
}

static void turn_queries(const pf_store_kv_args *a, const pf_segment *s, int row, int rows)
{
	if (!a->q_norm && a->rope_dim == 0)
		return;
	for (int r = row; r < row + rows; r++) {
		angles at = angles_of(a, s->pos + r);
		pf_bf16 *query = a->qkv + (size_t)(s->row + r) * a->qkv_stride;
		for (int h = 0; h < a->q_heads; h++, query += a->dim)
			turned(query, query, a, a->q_norm, at.cosines, at.sines);
	}
}

// store_run stores rows that lie in one block, head by head, so that a head's part of the block stays in the first-level
// cache.
static void store_run(pf_kv_layout layout, const pf_store_kv_args *a, const pf_segment *s, int row, int rows)
{
	pf_bf16 room[MAX_DIM];
	int slot = (s->pos + row) % a->block_tokens, padded = pf_kv_padded(a->dim);
	size_t elements = pf_kv_elems(a->block_tokens, a->dim);
	pf_bf16 *block = s->blocks[(s->pos + row) / a->block_tokens];
	const pf_bf16 *first = a->qkv + (size_t)(s->row + row) * a->qkv_stride + (size_t)a->q_heads * a->dim;
	for (int h = 0; h < a->kv_heads; h++, first += a->dim, block += 2 * elements) {
		const pf_bf16 *key = first, *value = first + (size_t)a->kv_heads * a->dim;
		for (int r = 0; r < rows; r++, key += a->qkv_stride) {
			angles at = angles_of(a, s->pos + row + r);
			store_key(layout, block, slot + r, padded_to(room, turned(room, key, a, a->k_norm, at.cosines, at.sines), a->dim, padded), padded);
		}
		for (int r = 0; r < rows;) {
			const pf_bf16 *from = value + r * a->qkv_stride;
			if (layout == PF_KV_TILES && a->dim == padded && (slot + r) % 8 == 0 && r + 8 <= rows) {
				store_values(block + elements, slot + r, from, a->qkv_stride, padded, a->block_tokens);
				r += 8;
				continue;
			}
			store_value(layout, block + elements, slot + r, padded_to(room, from, a->dim, padded), padded, a->block_tokens);
			r++;
		}
	}
}

// store_rows stores rows of a segment, block by block.
static void store_rows(pf_kv_layout layout, const pf_store_kv_args *a, const pf_segment *s, int row, int rows)
{
	pf_store_kv_args plain = *a;
	if (a->whole_norms) {
		for (int r = row; r < row + rows; r++) {
			pf_bf16 *heads = a->qkv + (size_t)(s->row + r) * a->qkv_stride;
			if (a->q_norm && a->q_heads > 0)
				normalise_heads(heads, a->q_heads, a->dim, a->q_norm, a->eps);
			if (a->k_norm && a->kv_heads > 0)
				normalise_heads(heads + (size_t)a->q_heads * a->dim, a->kv_heads, a->dim, a->k_norm, a->eps);
		}
		plain.q_norm = plain.k_norm = NULL;
		a = &plain;
	}
	turn_queries(a, s, row, rows);
	for (int n; rows > 0; row += n, rows -= n) {
		n = pf_min(rows, a->block_tokens - (s->pos + row) % a->block_tokens);
		store_run(layout, a, s, row, n);
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
		int first = (int)(from > before ? from - before : 0), end = (int)(to - before < s->rows ? to - before : s->rows);
		store_rows(st->layout, st->args, s, first, end - first);
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
