// The softmax of attention and its place between the products. A source that includes this includes
// vectors.h, states its target, and defines
//
//   operand                              an element of a query or probability
//   exp2_below(vf)                       2^x for x <= 0 to 3 units in the last place; 2^0 = 1
//   larger(vf, vf), largest(vf)          of two vectors, of the lanes of one
//   store_operands(operand *, vf, vf)    twice PF_LANES probabilities, rounded to bf16
//   score_all(rows, keys)                sets the scores of the groups that are looked at
//   load_row(operand *, query, dim, padded)  sets an operand row, padded with zeros
//   sum_all(rows, keys, factor)          sets out = out * factor + probabilities * values

#include "attention.h"

// hide replaces the scores that row i may not see.
static void hide(const pf_attention_rows *r, int i, int from, int to)
{
	float *s = r->scores + i * PF_KEY_TILE;
	for (int j = from; j < to; j++)
		if (j < r->first[i] || j >= r->last[i])
			s[j] = PF_HIDDEN_SCORE;
}

// hide_all fills scores that belong to no key in reach.
static inline void hide_all(const pf_attention_rows *r, int i, int from, int to)
{
	for (int j = from; j < to; j += PF_LANES)
		vf_store(r->scores + i * PF_KEY_TILE + j, vf_set(PF_HIDDEN_SCORE));
}

// softmax turns row i's scores [from, to), a multiple of two vectors, into probabilities relative to
// its largest score so far, and returns what earlier sums shrink by.
static inline float softmax(const pf_attention_rows *r, int i, int from, int to)
{
	const float *s = r->scores + i * PF_KEY_TILE;
	operand *probability = (operand *)s; // in place: an operand is no wider than a score
	float before = r->top[i];
	vf top = vf_set(before), top2 = top;
	for (int j = from; j < to; j += 2 * PF_LANES) {
		top = larger(top, vf_load(s + j));
		top2 = larger(top2, vf_load(s + j + PF_LANES));
	}
	float now = largest(larger(top, top2));
	top = vf_set(now);
	vf scale = vf_set(r->scale), total = {}, total2 = {};
	for (int j = from; j < to; j += 2 * PF_LANES) {
		vf p = exp2_below((vf_load(s + j) - top) * scale);
		vf p2 = exp2_below((vf_load(s + j + PF_LANES) - top) * scale);
		total += p;
		total2 += p2;
		store_operands(probability + j, p, p2);
	}
	r->top[i] = now;
	float factor = exp2_below(vf_set((before - now) * r->scale))[0];
	float *sums = r->total + i * PF_MAX_LANES;
	vf_store(sums, vf_load(sums) * factor + (total + total2));
	return factor;
}

static void attend(const pf_attention_rows *r, const pf_attention_keys *k)
{
	float factor[PF_ROW_BLOCK];
	int from = k->group * PF_KV_GROUP, to = pf_ceil(k->end, PF_KV_GROUP) * PF_KV_GROUP;
	score_all(r, k);
	int even_from = from & -2 * PF_KV_GROUP, even_to = (to + PF_KV_GROUP) & -2 * PF_KV_GROUP;
	for (int i = 0; i < r->count; i++) {
		for (int j = from; r->cap > 0 && j < to; j += PF_LANES)
			vf_store(r->scores + i * PF_KEY_TILE + j, vf_cap(vf_load(r->scores + i * PF_KEY_TILE + j), r->inner, r->cap));
		if (r->masked)
			hide(r, i, from, to);
		hide_all(r, i, even_from, from);
		hide_all(r, i, to, even_to);
		factor[i] = softmax(r, i, even_from, even_to);
	}
	sum_all(r, k, factor);
}

static void load(const pf_attention_rows *r, const pf_bf16 *const *queries, int dim)
{
	for (int i = 0; i < r->count; i++)
		load_row((operand *)r->queries + (size_t)i * r->padded, queries[i], dim, r->padded);
}

static void finish_row(pf_bf16 *dst, const float *out, const float *total, int dim)
{
	float sum = 0;
	for (int i = 0; i < PF_LANES; i++)
		sum += total[i];
	float part[PF_LANES];
	pf_bf16 narrow[PF_LANES];
	for (int i = 0; i < dim; i += PF_LANES) {
		vf_store(part, vf_load(out + i) / sum);
		vf_narrow(narrow, vf_load(part));
		memcpy(dst + i, narrow, (size_t)pf_min(PF_LANES, dim - i) * sizeof *narrow);
	}
}

static void finish(pf_bf16 *const *dst, const pf_attention_rows *r, int dim)
{
	for (int i = 0; i < r->count; i++)
		finish_row(dst[i], r->out + (size_t)i * r->padded, r->total + i * PF_MAX_LANES, dim);
}
