//go:build cgo && linux && amd64

// Conversion of element types, packing of weights, and the embedding look-up.

#include "internal.h"

#include <immintrin.h>
#include <string.h>

#pragma GCC target("avx2,fma,f16c")

#define PF_LANES 8
#include "vectors.h"

static vf load_half(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }

// load converts the elements [i, i+8) of src, or those below n, to floats.
static vf load(const void *src, pf_type type, size_t i, size_t n)
{
	char tail[4 * PF_LANES] = {0};
	size_t size = type == PF_F32 ? 4 : 2;
	const char *p = (const char *)src + i * size;
	if (n - i < PF_LANES) {
		memcpy(tail, p, (n - i) * size);
		p = tail;
	}
	switch (type) {
	case PF_F32:
		return vf_load((const float *)p);
	case PF_F16:
		return load_half((const uint16_t *)p);
	default:
		return vf_widen((const pf_bf16 *)p);
	}
}

void pf_to_f32(float *dst, const void *src, pf_type type, size_t n)
{
	for (size_t i = 0; i < n; i += PF_LANES) {
		vf v = load(src, type, i, n);
		memcpy(dst + i, &v, (n - i < PF_LANES ? n - i : PF_LANES) * sizeof *dst);
	}
}

void pf_to_bf16(pf_bf16 *dst, const void *src, pf_type type, size_t n)
{
	if (type == PF_BF16) {
		memcpy(dst, src, n * sizeof *dst);
		return;
	}
	for (size_t i = 0; i < n; i += PF_LANES) {
		pf_bf16 part[PF_LANES];
		vf_narrow(part, load(src, type, i, n));
		memcpy(dst + i, part, (n - i < PF_LANES ? n - i : PF_LANES) * sizeof *dst);
	}
}

typedef struct packing {
	pf_pool *pool;
	int group, offset; // as pf_ops has them
	const pf_linear *l;
	const pf_source *sources;
	int count;
} packing;

// source_row is row n of the stacked sources as bf16, converted into room if need be; NULL past the
// last.
static const pf_bf16 *source_row(const packing *p, int source, int n, pf_bf16 *room)
{
	for (; source < p->count; source++) {
		const pf_source *s = &p->sources[source];
		if (n >= s->rows) {
			if (p->l->gated)
				return NULL;
			n -= s->rows;
			continue;
		}
		size_t k = (size_t)p->l->in;
		if (s->type == PF_BF16)
			return (const pf_bf16 *)s->data + n * k;
		pf_to_bf16(room, (const char *)s->data + n * k * (s->type == PF_F32 ? 4 : 2), s->type, k);
		return room;
	}
	return NULL;
}

// pack_panel packs groups of 8 rows; the rows that are missing stay zero.
static void pack_panel(void *arg, int panel, int thread)
{
	const packing *p = arg;
	const pf_linear *l = p->l;
	size_t padded = 2 * (size_t)l->pairs;
	pf_bf16 *room = pf_pool_scratch(p->pool, thread);
	pf_bf16 *zero = room + 8 * padded;
	memset(zero, 0, padded * sizeof *zero);
	for (int group = 0; group < PF_PANEL / 8; group++) {
		const pf_bf16 *rows[8];
		for (int i = 0; i < 8; i++) {
			int lane = 8 * group + i, half = PF_PANEL / 2;
			int source = l->gated ? lane / half : 0;
			int n = l->gated ? panel * half + lane % half : panel * PF_PANEL + lane;
			rows[i] = source_row(p, source, n, room + i * padded);
			if (!rows[i])
				rows[i] = zero;
		}
		uint32_t *dst = (uint32_t *)(l->weights + panel * padded * PF_PANEL) + 8 * group;
		pf_transpose(dst, PF_PANEL, rows, 1, l->in, l->pairs, 0);
	}
}

// code_row is row n of the stacked sources of codes, NULL past the last.
static const uint8_t *code_row(const packing *p, int source, int n)
{
	for (; source < p->count; n -= p->sources[source++].rows) {
		if (n < p->sources[source].rows)
			return (const uint8_t *)p->sources[source].data + (size_t)n * p->l->in;
		if (p->l->gated)
			return NULL;
	}
	return NULL;
}

static int32_t sum_of(const int8_t *codes, int n)
{
	int32_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += codes[i];
	return sum;
}

// pack_codes packs a panel of codes, a few groups of all its rows at a time; what is missing stays zero.
static void pack_codes(void *arg, int panel, int thread)
{
	(void)thread;
	enum { COLUMNS = 64, HALF = PF_PANEL / 2 };
	const packing *p = arg;
	const pf_linear *l = p->l;
	int n = p->group;
	uint8_t *dst = l->codes + (size_t)panel * l->pairs * PF_PANEL * 2;
	for (int from = 0; from < l->in; from += COLUMNS) {
		for (int lane = 0; lane < PF_PANEL; lane++) {
			const uint8_t *row = l->gated ? code_row(p, lane / HALF, panel * HALF + lane % HALF) : code_row(p, 0, panel * PF_PANEL + lane);
			for (int j = from; row && j < pf_min(from + COLUMNS, l->in); j += n)
				memcpy(dst + (size_t)j * PF_PANEL + lane * n, row + j, (size_t)pf_min(n, l->in - j));
			if (row && p->offset)
				l->starts[panel * PF_PANEL + lane] -= p->offset * sum_of((const int8_t *)row + from, pf_min(COLUMNS, l->in - from));
		}
	}
}

// pack_int4 packs a panel of codes of four bits, which come a byte each.
static void pack_int4(void *arg, int panel, int thread)
{
	(void)thread;
	enum { HALF = PF_PANEL / 2 };
	const packing *p = arg;
	const pf_linear *l = p->l;
	uint8_t *dst = l->codes + (size_t)panel * l->pairs * PF_PANEL;
	for (int lane = 0; lane < PF_PANEL; lane++) {
		const uint8_t *row = l->gated ? code_row(p, lane / HALF, panel * HALF + lane % HALF) : code_row(p, 0, panel * PF_PANEL + lane);
		int at = lane / 16 * 16 + lane % 8 * 2, shift = lane % 16 / 8 * 4;
		for (int j = 0; row && j < l->in; j++)
			dst[j / 2 * PF_PANEL + at + j % 2] |= (uint8_t)(row[j] << shift);
	}
}

void pf_linear_pack(pf_pool *pool, pf_isa isa, const pf_linear *l, const pf_source *sources, int count)
{
	const pf_ops *int8 = pf_ops_int8(isa);
	packing p = {pool, 2, 0, l, sources, count};
	if (l->kind == PF_INT8) {
		p.group = int8->group;
		p.offset = int8->offset;
	}
	pf_parallel(pool, l->kind == PF_INT4 ? pack_int4 : l->codes ? pack_codes : pack_panel, &p, l->panels);
}

typedef struct embedding {
	const pf_rows *x;
	const pf_bf16 *table;
	const uint32_t *ids;
	float scale;
} embedding;

enum { EMBED_ROWS = 64 }; // of one task

static void embed_task(void *arg, int task, int thread)
{
	(void)thread;
	const embedding *e = arg;
	int end = pf_min((task + 1) * EMBED_ROWS, e->x->rows);
	for (int i = task * EMBED_ROWS; i < end; i++) {
		float *x = e->x->x + i * e->x->stride;
		pf_to_f32(x, e->table + (size_t)e->ids[i] * e->x->cols, PF_BF16, (size_t)e->x->cols);
		for (int j = 0; e->scale != 1 && j < e->x->cols; j++)
			x[j] *= e->scale;
	}
}

void pf_embed(pf_pool *pool, const pf_rows *x, const pf_bf16 *table, const uint32_t *ids, float scale)
{
	embedding e = {x, table, ids, scale};
	pf_parallel(pool, embed_task, &e, pf_ceil(x->rows, EMBED_ROWS));
}

static void add_embed_task(void *arg, int task, int thread)
{
	(void)thread;
	const embedding *e = arg;
	int end = pf_min((task + 1) * EMBED_ROWS, e->x->rows), cols = e->x->cols, whole = cols / PF_LANES * PF_LANES;
	for (int i = task * EMBED_ROWS; i < end; i++) {
		float *x = e->x->x + i * e->x->stride;
		const pf_bf16 *row = e->table + (size_t)e->ids[i] * cols;
		for (int j = 0; j < whole; j += PF_LANES)
			vf_store(x + j, vf_load(x + j) + vf_widen(row + j));
		for (int j = whole; j < cols; j++) {
			uint32_t bits = (uint32_t)row[j] << 16;
			float add;
			memcpy(&add, &bits, sizeof add);
			x[j] += add;
		}
	}
}

void pf_add_embed(pf_pool *pool, const pf_rows *x, const pf_bf16 *table, const uint32_t *ids)
{
	embedding e = {x, table, ids, 1};
	pf_parallel(pool, add_embed_task, &e, pf_ceil(x->rows, EMBED_ROWS));
}
