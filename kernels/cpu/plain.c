//go:build cgo && linux && amd64

// Plain versions of StoreKV and attention, one element at a time; weak, so that faster ones replace
// them at link time.

#include "internal.h"

#include <math.h>
#include <string.h>

static float widen(pf_bf16 h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static pf_bf16 narrow(float f)
{
	pf_bf16 h;
	pf_to_bf16(&h, &f, PF_F32, 1);
	return h;
}

static void rotate(pf_bf16 *v, const float *norm, const pf_store_kv_args *a, int pos)
{
	float square = 0, scale = 1;
	for (int i = 0; norm && i < a->dim; i++)
		square += widen(v[i]) * widen(v[i]);
	if (norm)
		scale = 1 / sqrtf(square / a->dim + a->eps);
	int half = a->rope_dim / 2;
	float r[1024];
	for (int i = 0; i < a->dim; i++)
		r[i] = widen(v[i]) * scale * (norm ? norm[i] : 1);
	for (int i = 0; i < half; i++) {
		float c = a->cosines[(size_t)pos * half + i], s = a->sines[(size_t)pos * half + i];
		float x = r[i], y = r[i + half];
		r[i] = x * c - y * s;
		r[i + half] = y * c + x * s;
	}
	for (int i = 0; i < a->dim; i++)
		v[i] = narrow(r[i]);
}

__attribute__((weak)) void pf_store_kv(pf_pool *pool, pf_isa isa, const pf_store_kv_args *a)
{
	(void)pool, (void)isa;
	int padded = pf_kv_padded(a->dim);
	for (int s = 0; s < a->segment_count; s++) {
		const pf_segment *g = &a->segments[s];
		for (int i = 0; i < g->rows; i++) {
			int pos = g->pos + i, t = pos % a->block_tokens;
			pf_bf16 *q = a->qkv + (g->row + i) * a->qkv_stride;
			pf_bf16 *k = q + a->q_heads * a->dim, *v = k + a->kv_heads * a->dim;
			for (int h = 0; h < a->q_heads; h++)
				rotate(q + h * a->dim, a->q_norm, a, pos);
			for (int h = 0; h < a->kv_heads; h++) {
				pf_bf16 *keys = (pf_bf16 *)g->blocks[pos / a->block_tokens] + 2 * h * pf_kv_elems(a->block_tokens, a->dim);
				pf_bf16 *values = keys + pf_kv_elems(a->block_tokens, a->dim), key[1024];
				memcpy(key, k + h * a->dim, (size_t)a->dim * 2);
				rotate(key, a->k_norm, a, pos);
				for (int d = 0; d < padded; d++) {
					keys[pf_k_index(t, d, padded)] = d < a->dim ? key[d] : 0;
					values[pf_v_index(t, d, padded)] = d < a->dim ? v[h * a->dim + d] : 0;
				}
			}
		}
	}
}

static float score(const pf_attention_args *a, const pf_segment *g, const pf_bf16 *q, int kv, int pos)
{
	int padded = pf_kv_padded(a->dim), t = pos % a->block_tokens;
	const pf_bf16 *keys = (const pf_bf16 *)g->blocks[pos / a->block_tokens] + 2 * kv * pf_kv_elems(a->block_tokens, a->dim);
	float sum = 0;
	for (int d = 0; d < a->dim; d++)
		sum += widen(q[d]) * widen(keys[pf_k_index(t, d, padded)]);
	return sum * a->scale;
}

static void attend(const pf_attention_args *a, const pf_segment *g, int i, int head)
{
	int pos = g->pos + i, kv = head / (a->q_heads / a->kv_heads), padded = pf_kv_padded(a->dim);
	int from = a->window ? pf_max(0, pos - a->window + 1) : 0;
	const pf_bf16 *q = a->qkv + (g->row + i) * a->qkv_stride + head * a->dim;
	float best = -INFINITY, total = 0, sum[1024] = {0};
	for (int p = from; p <= pos; p++)
		best = fmaxf(best, score(a, g, q, kv, p));
	for (int p = from; p <= pos; p++) {
		const pf_bf16 *values = (const pf_bf16 *)g->blocks[p / a->block_tokens] + (2 * kv + 1) * pf_kv_elems(a->block_tokens, a->dim);
		float e = expf(score(a, g, q, kv, p) - best);
		total += e;
		for (int d = 0; d < a->dim; d++)
			sum[d] += e * widen(values[pf_v_index(p % a->block_tokens, d, padded)]);
	}
	for (int d = 0; d < a->dim; d++)
		a->dst[(g->row + i) * a->dst_stride + head * a->dim + d] = narrow(sum[d] / total);
}

__attribute__((weak)) void pf_attention(pf_pool *pool, pf_isa isa, const pf_attention_args *a)
{
	(void)pool, (void)isa;
	for (int s = 0; s < a->segment_count; s++)
		for (int i = 0; i < a->segments[s].rows; i++)
			for (int h = 0; h < a->q_heads; h++)
				attend(a, &a->segments[s], i, h);
}
