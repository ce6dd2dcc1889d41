//go:build cgo && linux && amd64

// Matrix products: activations are packed in tiles, weights lie in panels, and a task multiplies a run
// of tiles with a few panels and ends each product (bias, residual, gated activation) while it is in
// the first-level cache.
//
// Rates of all products of a layer of Qwen2.5-0.5B with AVX-512 BF16, weights coming from memory, on one
// core of a Zen 5 server (CPU time; oneDNN 2.6.3's bare products beside), in GFLOP/s:
//   rows      1    4    8   14   16   32   64  150  512 2048
//   here     39  137  252  470  455  490  495  495  490  480
//   oneDNN   39  144  224  298  322  385  453  479  490  495
// The two units' 2 vdpbf16ps a cycle are about 500 at the clock of that run; up to 8 rows memory is the
// limit (35 GB/s). In FP8 a core reaches 0.84 of the bfloat16 rate with 1 row, 0.88 with 16, 0.92 with 64 and
// 0.95 with 150 (CPU time, MLP at Llama-3.1-8B's shape).

#include "internal.h"

#include <string.h>

// Panels of one task together stay in the second-level cache while tiles pass by.
enum { GROUP_BYTES = 256 << 10 };
// Tasks that each thread should find, so that all end together.
enum { TASKS_PER_THREAD = 12 };
// How far ahead of itself a lone tile fetches weights.
enum { NEAR_BYTES = 16 << 10 };
// Tiles that a task should have at the least, for a panel to be worth its way to the cache.
enum { RUN_TILES = 8 };
enum { PAIR_BYTES = PF_PANEL * 2 * sizeof(pf_bf16) };

typedef struct product product;

// A finish ends the product of a tile with a panel.
typedef void (*finish)(const product *g, const float *c, int tile, int panel);

struct product {
	const pf_ops *ops;
	pf_plan plan;
	const void *a; // packed tiles
	const pf_linear *l;
	finish end;

	// where the results go, for the finish
	void *dst;
	size_t stride;

	int group, groups; // panels of a task, tasks along the panels
	int run;           // tiles of a task
	pf_pool *pool;
	int threads;
};

static const void *tile_at(const pf_ops *ops, const void *tiles, int pairs, int tile)
{
	return (const char *)tiles + pf_tile_bytes(ops, pairs) * (size_t)tile;
}

// scale multiplies rows of a panel's product by what the codes of its columns are worth.
static void scale(float *c, const float *worth, int rows)
{
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < PF_PANEL; j++)
			c[PF_PANEL * i + j] *= worth[j];
}

// task is a run of tiles and a group of panels.
typedef struct task {
	int panel0, panel1, tile0, tile1;
} task;

// A run of so few tiles in FP8 takes a panel in pieces that stay in the first-level cache: expanding
// all of it first would cost as much as the product, and leave memory idle meanwhile.
enum { FEW_TILES = 4, PIECE_PAIRS = 64 };

static void multiply_few(const product *g, task k)
{
	const pf_linear *l = g->l;
	enum { CODE_BYTES = PAIR_BYTES / 2 };
	_Alignas(64) pf_bf16 piece[PIECE_PAIRS * PF_PANEL * 2];
	_Alignas(64) float c[FEW_TILES][PF_TILE_ROWS * PF_PANEL];
	int step = CODE_BYTES / (k.tile1 - k.tile0);
	for (int p = k.panel0; p < k.panel1; p++) {
		memset(c, 0, (size_t)(k.tile1 - k.tile0) * sizeof *c);
		for (int pair = 0; pair < l->pairs; pair += PIECE_PAIRS) {
			int pairs = pf_min(PIECE_PAIRS, l->pairs - pair);
			const uint8_t *codes = l->codes + ((size_t)p * l->pairs + pair) * CODE_BYTES;
			g->ops->expand(piece, codes, (size_t)pairs * CODE_BYTES);
			for (int t = k.tile0; t < k.tile1; t++) {
				const char *a = (const char *)tile_at(g->ops, g->a, l->pairs, t) + (size_t)pair * g->ops->pair_bytes;
				const char *ahead = (const char *)codes + NEAR_BYTES + (t - k.tile0) * step * pairs;
				g->ops->tile(pf_tile_height(g->plan, t), pairs, a, piece, c[t - k.tile0], ahead, step);
			}
		}
		for (int t = k.tile0; t < k.tile1; t++) {
			scale(c[t - k.tile0], l->scale + p * PF_PANEL, pf_tile_height(g->plan, t));
			g->end(g, c[t - k.tile0], t, p);
		}
	}
}

static void multiply_run(const product *g, task k, int thread)
{
	const pf_linear *l = g->l;
	int pairs = l->pairs, pair_bytes = l->codes ? PAIR_BYTES / 2 : PAIR_BYTES;
	size_t panel_bytes = (size_t)pairs * pair_bytes, panel_size = (size_t)pairs * PF_PANEL * 2;
	const char *weights = l->codes ? (const char *)l->codes : (const char *)l->weights;
	pf_bf16 *room = pf_pool_scratch(g->pool, thread); // for FP8: the group's panels
	// While a tile passes over the group, its share of this thread's next group is fetched.
	// A tile alone has nothing to overlap with but its own coming lines.
	size_t distance = k.tile1 - k.tile0 > 1 ? g->threads * g->group * panel_bytes : NEAR_BYTES;
	int step = pair_bytes / (k.tile1 - k.tile0);
	_Alignas(64) float c[PF_TILE_ROWS * PF_PANEL];
	for (int t = k.tile0; t < k.tile1; t++) {
		const void *a = tile_at(g->ops, g->a, pairs, t);
		int rows = pf_tile_height(g->plan, t);
		size_t share = (size_t)(t - k.tile0) * step * pairs;
		for (int p = k.panel0; p < k.panel1; p++) {
			const char *stored = weights + p * panel_bytes;
			const pf_bf16 *b = (const pf_bf16 *)stored;
			if (l->codes) {
				b = room + (p - k.panel0) * panel_size;
				if (t == k.tile0)
					g->ops->expand((pf_bf16 *)b, (const uint8_t *)stored, panel_size);
			}
			memset(c, 0, (size_t)rows * PF_PANEL * sizeof *c);
			g->ops->tile(rows, pairs, a, b, c, stored + distance + share, step);
			if (l->scale)
				scale(c, l->scale + p * PF_PANEL, rows);
			g->end(g, c, t, p);
		}
	}
}

static void product_task(void *arg, int number, int thread)
{
	const product *g = arg;
	int runs = pf_ceil(g->plan.tiles, g->run);
	task k = {.panel0 = number / runs * g->group, .tile0 = number % runs * g->run};
	k.panel1 = pf_min(k.panel0 + g->group, g->l->panels);
	k.tile1 = pf_min(k.tile0 + g->run, g->plan.tiles);
	g->ops->begin();
	if (g->l->codes && k.tile1 - k.tile0 <= FEW_TILES)
		multiply_few(g, k);
	else
		multiply_run(g, k, thread);
	g->ops->end();
}

static void multiply(pf_pool *pool, product *g)
{
	size_t panel_bytes = (size_t)g->l->pairs * PF_PANEL * 4;
	g->pool = pool;
	g->threads = pf_pool_threads(pool);
	int wanted = g->threads * TASKS_PER_THREAD;
	int most_runs = pf_max(1, g->plan.tiles / RUN_TILES);
	g->group = pf_max(1, pf_min((int)(GROUP_BYTES / panel_bytes), g->l->panels * most_runs / wanted));
	g->groups = pf_ceil(g->l->panels, g->group);
	int runs = pf_min(pf_ceil(wanted, g->groups), most_runs);
	g->run = pf_ceil(g->plan.tiles, runs);
	pf_parallel(pool, product_task, g, g->groups * pf_ceil(g->plan.tiles, g->run));
}

static const float *panel_bias(const pf_linear *l, int panel) { return l->bias ? l->bias + panel * PF_PANEL : NULL; }

static int panel_cols(const pf_linear *l, int panel) { return pf_min(PF_PANEL, l->out - panel * PF_PANEL); }

static void end_store(const product *g, const float *c, int tile, int panel)
{
	pf_bf16 *dst = (pf_bf16 *)g->dst + pf_tile_row(g->plan, tile) * g->stride + panel * PF_PANEL;
	g->ops->store_bf16(dst, g->stride, c, panel_bias(g->l, panel), pf_tile_height(g->plan, tile), panel_cols(g->l, panel));
}

static void end_add(const product *g, const float *c, int tile, int panel)
{
	float *x = (float *)g->dst + pf_tile_row(g->plan, tile) * g->stride + panel * PF_PANEL;
	g->ops->add_f32(x, g->stride, c, panel_bias(g->l, panel), pf_tile_height(g->plan, tile), panel_cols(g->l, panel));
}

// end_swiglu writes 16 columns of the activation into the packed tiles of the next product; after the
// last come zeros to the end of the tile.
static void end_swiglu(const product *g, const float *c, int tile, int panel)
{
	enum { HALF = PF_PANEL / 2 };
	pf_bf16 part[PF_TILE_ROWS * HALF];
	int rows = pf_tile_height(g->plan, tile);
	g->ops->swiglu(part, c, rows);
	int pair = panel * HALF / 2, pairs = panel == g->l->panels - 1 ? (int)g->stride - pair : HALF / 2;
	g->ops->pack((void *)tile_at(g->ops, g->dst, (int)g->stride, tile), pair, part, HALF, rows, HALF, pairs);
}

typedef struct packing {
	const pf_ops *ops;
	pf_pool *pool;
	pf_plan plan;
	void *dst;
	int pairs, k;
	const pf_rows *x; // to be normalised, or NULL
	const pf_bf16 *src;
	size_t stride;
} packing;

static void pack_task(void *arg, int tile, int thread)
{
	const packing *p = arg;
	int row = pf_tile_row(p->plan, tile), rows = pf_tile_height(p->plan, tile);
	void *dst = (void *)tile_at(p->ops, p->dst, p->pairs, tile);
	if (!p->x) {
		p->ops->pack(dst, 0, p->src + row * p->stride, p->stride, rows, p->k, p->pairs);
		return;
	}
	pf_bf16 *normal = pf_pool_scratch(p->pool, thread);
	for (int i = 0; i < rows; i++)
		p->ops->norm(normal + (size_t)i * p->k, p->x->x + (row + i) * p->x->stride, p->x->weight, p->x->eps, p->k);
	p->ops->pack(dst, 0, normal, (size_t)p->k, rows, p->k, p->pairs);
}

// pack packs rows of x, normalised, or of src.
static void pack(pf_pool *pool, packing *p)
{
	p->pool = pool;
	p->pairs = pf_pairs(p->k);
	pf_parallel(pool, pack_task, p, p->plan.tiles);
}

int pf_norm_linear(pf_pool *pool, pf_isa isa, pf_bf16 *dst, size_t dst_stride, const pf_rows *x, const pf_linear *l)
{
	const pf_ops *ops = pf_ops_of(isa);
	pf_plan plan = pf_plan_rows(ops, x->rows);
	void *a = pf_pool_shared(pool, plan.tiles * pf_tile_bytes(ops, l->pairs));
	if (!a)
		return -1;
	pack(pool, &(packing){.ops = ops, .plan = plan, .dst = a, .k = x->cols, .x = x});
	multiply(pool, &(product){.ops = ops, .plan = plan, .a = a, .l = l, .end = end_store, .dst = dst, .stride = dst_stride});
	return 0;
}

int pf_add_linear(pf_pool *pool, pf_isa isa, const pf_rows *x, const pf_bf16 *src, size_t src_stride, const pf_linear *l)
{
	const pf_ops *ops = pf_ops_of(isa);
	pf_plan plan = pf_plan_rows(ops, x->rows);
	void *a = pf_pool_shared(pool, plan.tiles * pf_tile_bytes(ops, l->pairs));
	if (!a)
		return -1;
	pack(pool, &(packing){.ops = ops, .plan = plan, .dst = a, .k = l->in, .src = src, .stride = src_stride});
	multiply(pool, &(product){.ops = ops, .plan = plan, .a = a, .l = l, .end = end_add, .dst = x->x, .stride = x->stride});
	return 0;
}

// Rows that MLP takes at a time: the activation between its products then stays in the cache.
enum { MLP_ROWS = 512 };

static void mlp_chunk(pf_pool *pool, const pf_ops *ops, float *dst, size_t dst_stride, const pf_rows *x, const pf_linear *gated,
                      const pf_linear *down, void *memory)
{
	pf_plan plan = pf_plan_rows(ops, x->rows);
	void *inner = (char *)memory + plan.tiles * pf_tile_bytes(ops, gated->pairs);
	pack(pool, &(packing){.ops = ops, .plan = plan, .dst = memory, .k = x->cols, .x = x});
	multiply(pool, &(product){.ops = ops, .plan = plan, .a = memory, .l = gated, .end = end_swiglu, .dst = inner, .stride = (size_t)down->pairs});
	multiply(pool, &(product){.ops = ops, .plan = plan, .a = inner, .l = down, .end = end_add, .dst = dst, .stride = dst_stride});
}

int pf_mlp(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, const pf_linear *gated, const pf_linear *down)
{
	const pf_ops *ops = pf_ops_of(isa);
	int tiles = pf_plan_rows(ops, pf_min(x->rows, MLP_ROWS)).tiles;
	void *memory = pf_pool_shared(pool, tiles * (pf_tile_bytes(ops, gated->pairs) + pf_tile_bytes(ops, down->pairs)));
	if (!memory)
		return -1;
	int chunks = pf_ceil(x->rows, MLP_ROWS), height = pf_ceil(x->rows, chunks);
	for (int row = 0; row < x->rows; row += height) {
		pf_rows part = *x;
		part.x += row * x->stride;
		part.rows = pf_min(height, x->rows - row);
		mlp_chunk(pool, ops, dst + row * dst_stride, dst_stride, &part, gated, down, memory);
	}
	return 0;
}

typedef struct logits {
	const pf_ops *ops;
	pf_pool *pool;
	pf_plan plan;
	const void *a;
	int pairs, k;
	const pf_bf16 *table;
	const uint32_t *ids;
	int count;
	float *dst;
	size_t stride;
} logits;

// logits_task packs a panel of table rows, then multiplies every tile with it.
static void logits_task(void *arg, int panel, int thread)
{
	const logits *g = arg;
	const pf_bf16 *rows[PF_PANEL];
	int first = panel * PF_PANEL, cols = pf_min(PF_PANEL, g->count - first);
	for (int i = 0; i < PF_PANEL; i++) {
		int row = first + pf_min(i, cols - 1);
		rows[i] = g->table + (g->ids ? g->ids[row] : (size_t)row) * g->k;
	}
	uint32_t *b = pf_pool_scratch(g->pool, thread);
	// Of this thread's next panel. In the order of the rows it is 1.6 times as fast as one line after
	// another (18 and 11 GB/s a core).
	size_t ahead = g->ids ? 0 : (size_t)pf_pool_threads(g->pool) * PF_PANEL * g->k;
	pf_transpose(b, PF_PANEL, rows, PF_PANEL / 8, g->k, g->pairs, ahead);
	_Alignas(64) float c[PF_TILE_ROWS * PF_PANEL];
	g->ops->begin();
	for (int t = 0; t < g->plan.tiles; t++) {
		int height = pf_tile_height(g->plan, t);
		memset(c, 0, (size_t)height * PF_PANEL * sizeof *c);
		g->ops->tile(height, g->pairs, tile_at(g->ops, g->a, g->pairs, t), (const pf_bf16 *)b, c, (const char *)b, 0);
		g->ops->store_f32(g->dst + pf_tile_row(g->plan, t) * g->stride + first, g->stride, c, height, cols);
	}
	g->ops->end();
}

int pf_logits(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, const pf_bf16 *table,
              const uint32_t *ids, int count)
{
	const pf_ops *ops = pf_ops_of(isa);
	pf_plan plan = pf_plan_rows(ops, x->rows);
	int pairs = pf_pairs(x->cols);
	void *a = pf_pool_shared(pool, plan.tiles * pf_tile_bytes(ops, pairs));
	if (!a)
		return -1;
	pack(pool, &(packing){.ops = ops, .plan = plan, .dst = a, .k = x->cols, .x = x});
	logits g = {ops, pool, plan, a, pairs, x->cols, table, ids, count, dst, dst_stride};
	pf_parallel(pool, logits_task, &g, pf_ceil(count, PF_PANEL));
	return 0;
}

size_t pf_shared_bytes(pf_isa isa, int rows, int max_in, int max_out)
{
	const pf_ops *ops = pf_ops_of(isa);
	size_t widest = pf_tile_bytes(ops, pf_pairs(pf_max(max_in, max_out)));
	size_t whole = pf_plan_rows(ops, rows).tiles * widest;
	size_t mlp = pf_plan_rows(ops, pf_min(rows, MLP_ROWS)).tiles * widest * 2;
	return whole > mlp ? whole : mlp;
}
