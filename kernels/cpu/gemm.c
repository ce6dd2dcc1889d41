//go:build cgo && linux && amd64

// Matrix products: activations are packed in tiles, weights lie in panels, and a task multiplies a run
// of tiles with a group of panels, as the instruction set does that.

#include "internal.h"

#include <string.h>

// part_of is the task of a number; next stays unset.
static pf_part part_of(const pf_product *g, int number)
{
	int run = g->tiles_stay ? number / g->groups : number % g->runs;
	int group = g->tiles_stay ? number % g->groups : number / g->runs;
	return (pf_part){
		.tile0 = (int)((int64_t)g->plan.tiles * run / g->runs),
		.tile1 = (int)((int64_t)g->plan.tiles * (run + 1) / g->runs),
		.panel0 = (int)((int64_t)g->l->panels * group / g->groups),
		.panel1 = (int)((int64_t)g->l->panels * (group + 1) / g->groups),
	};
}

static void product_task(void *arg, int number, int thread)
{
	const pf_product *g = arg;
	pf_part part = part_of(g, number);
	int next = number + pf_pool_threads(g->pool);
	part.next = next < g->runs * g->groups ? part_of(g, next).panel0 : -1;
	g->ops->multiply(g, part, pf_pool_scratch(g->pool, thread));
}

static void multiply(pf_pool *pool, pf_product *g)
{
	g->pool = pool;
	g->ops->cut(g, pf_pool_threads(pool));
	pf_parallel(pool, product_task, g, g->runs * g->groups);
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
	void *dst = (void *)pf_tile_at(p->ops, p->dst, p->pairs, tile);
	if (!p->x) {
		p->ops->pack(dst, 0, p->src + row * p->stride, p->stride, rows, p->k, p->pairs);
		return;
	}
	pf_bf16 *normal = pf_pool_scratch(p->pool, thread);
	float *room = (float *)(normal + (size_t)PF_TILE_ROWS * p->pairs * 2);
	for (int i = 0; i < rows; i++)
		p->ops->norm(normal + (size_t)i * p->k, p->x->x + (row + i) * p->x->stride, p->x, room);
	p->ops->pack(dst, 0, normal, (size_t)p->k, rows, p->k, p->pairs);
}

// pack packs rows of x, normalised, or of src.
static void pack(pf_pool *pool, packing *p)
{
	p->pool = pool;
	pf_parallel(pool, pack_task, p, p->plan.tiles);
}

// rows_of is rows [row, row+rows) of x, or those there are.
static pf_rows rows_of(const pf_rows *x, int row, int rows)
{
	pf_rows part = *x;
	part.x += row * x->stride;
	part.rows = pf_min(rows, x->rows - row);
	return part;
}

// Rows that an operation takes at a time: what it packs stays in the outer cache. Chunks are about even.
enum { CHUNK_ROWS = 512 };

static int chunk_of(int rows) { return pf_ceil(rows, pf_ceil(rows, CHUNK_ROWS)); }

static size_t packed_bytes(const pf_ops *ops, int rows, int pairs)
{
	return pf_plan_rows(ops, pf_min(rows, CHUNK_ROWS)).tiles * pf_tile_bytes(ops, pairs);
}

// normalised_product stores the products of normalised rows: elements of so many bytes.
static int normalised_product(pf_pool *pool, pf_isa isa, pf_end end, void *dst, size_t size, size_t dst_stride, const pf_rows *x, const pf_linear *l)
{
	const pf_ops *ops = pf_ops_for(isa, l);
	void *a = pf_pool_shared(pool, packed_bytes(ops, x->rows, l->pairs));
	if (!a)
		return -1;
	for (int row = 0, rows = chunk_of(x->rows); row < x->rows; row += rows) {
		pf_rows part = rows_of(x, row, rows);
		pf_plan plan = pf_plan_rows(ops, part.rows);
		pack(pool, &(packing){.ops = ops, .plan = plan, .dst = a, .pairs = l->pairs, .k = x->cols, .x = &part});
		multiply(pool, &(pf_product){.ops = ops, .plan = plan, .a = a, .l = l, .end = end, .dst = (char *)dst + row * dst_stride * size, .stride = dst_stride});
	}
	return 0;
}

int pf_norm_linear(pf_pool *pool, pf_isa isa, pf_bf16 *dst, size_t dst_stride, const pf_rows *x, const pf_linear *l)
{
	return normalised_product(pool, isa, PF_STORE_BF16, dst, sizeof *dst, dst_stride, x, l);
}

int pf_norm_wide(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, const pf_linear *l)
{
	pf_linear wide = pf_wide(l);
	return normalised_product(pool, isa, PF_ADD_F32, dst, sizeof *dst, dst_stride, x, &wide);
}

// plain_product ends the products of rows of src: elements of so many bytes.
static int plain_product(pf_pool *pool, pf_isa isa, pf_end end, void *dst, size_t size, size_t dst_stride, const pf_bf16 *src, size_t src_stride, int all,
                         const pf_linear *l)
{
	const pf_ops *ops = pf_ops_for(isa, l);
	void *a = pf_pool_shared(pool, packed_bytes(ops, all, l->pairs));
	if (!a)
		return -1;
	for (int row = 0, rows = chunk_of(all); row < all; row += rows) {
		pf_plan plan = pf_plan_rows(ops, pf_min(rows, all - row));
		pack(pool, &(packing){.ops = ops, .plan = plan, .dst = a, .pairs = l->pairs, .k = l->in, .src = src + row * src_stride, .stride = src_stride});
		multiply(pool, &(pf_product){.ops = ops, .plan = plan, .a = a, .l = l, .end = end, .dst = (char *)dst + row * dst_stride * size, .stride = dst_stride});
	}
	return 0;
}

int pf_add_linear(pf_pool *pool, pf_isa isa, const pf_rows *x, const pf_bf16 *src, size_t src_stride, const pf_linear *l)
{
	return plain_product(pool, isa, PF_ADD_F32, x->x, sizeof *x->x, x->stride, src, src_stride, x->rows, l);
}

int pf_linear_bf16(pf_pool *pool, pf_isa isa, pf_bf16 *dst, size_t dst_stride, const pf_bf16 *src, size_t src_stride, int rows, const pf_linear *l)
{
	return plain_product(pool, isa, PF_STORE_BF16, dst, sizeof *dst, dst_stride, src, src_stride, rows, l);
}

const pf_gelu pf_gelu_erf = {4.2f, {
	0.398465872f, -0.0655281991f, 0.00929822866f, -0.000950657355f, 6.68906796e-05f, -3.03793058e-06f, 7.94133612e-08f, -9.01752728e-10f,
}};

const pf_gelu pf_gelu_tanh = {4.1f, {
	0.398494244f, -0.0658792928f, 0.00952436216f, -0.00100728706f, 7.41418407e-05f, -3.54417807e-06f, 9.77671846e-08f, -1.17234322e-09f,
}};

static pf_end end_of(const pf_linear *up, pf_activation act)
{
	if (!up->gated)
		return PF_GELU;
	return act == PF_SILU ? PF_SWIGLU : PF_GEGLU;
}

// mlp is the two products of an MLP, with their instruction sets.
typedef struct mlp {
	const pf_ops *up_ops, *down_ops;
	const pf_linear *up, *down;
	pf_activation act;
} mlp;

// inner_packed tells whether what is between the products is packed as it comes out of the first: rows that are to
// be quantised have to be whole before.
static int inner_packed(const mlp *m) { return m->up_ops == m->down_ops && !m->down_ops->group; }

static size_t inner_bytes(const mlp *m, int rows)
{
	if (inner_packed(m))
		return packed_bytes(m->down_ops, rows, m->down->pairs);
	return (size_t)pf_min(rows, CHUNK_ROWS) * m->down->pairs * 2 * sizeof(pf_bf16);
}

static size_t mlp_bytes(const mlp *m, int rows)
{
	size_t up = packed_bytes(m->up_ops, rows, m->up->pairs), down = inner_packed(m) ? 0 : packed_bytes(m->down_ops, rows, m->down->pairs);
	return inner_bytes(m, rows) + (up > down ? up : down);
}

static void mlp_chunk(pf_pool *pool, const mlp *m, float *dst, size_t dst_stride, const pf_rows *x, void *memory)
{
	const pf_linear *up = m->up, *down = m->down;
	int packed = inner_packed(m);
	void *inner = memory, *a = (char *)memory + inner_bytes(m, x->rows);
	pf_plan plan = pf_plan_rows(m->up_ops, x->rows);
	size_t stride = (size_t)down->pairs * (packed ? 1 : 2);
	pack(pool, &(packing){.ops = m->up_ops, .plan = plan, .dst = a, .pairs = up->pairs, .k = x->cols, .x = x});
	multiply(pool, &(pf_product){.ops = m->up_ops, .plan = plan, .a = a, .l = up, .end = end_of(up, m->act), .dst = inner, .stride = stride, .as_rows = !packed,
	                             .gelu = m->act == PF_GELU_TANH ? &pf_gelu_tanh : &pf_gelu_erf});
	if (!packed) {
		plan = pf_plan_rows(m->down_ops, x->rows);
		pack(pool, &(packing){.ops = m->down_ops, .plan = plan, .dst = a, .pairs = down->pairs, .k = down->in, .src = inner, .stride = stride});
	}
	multiply(pool, &(pf_product){.ops = m->down_ops, .plan = plan, .a = packed ? inner : a, .l = down, .end = PF_ADD_F32, .dst = dst, .stride = dst_stride});
}

int pf_mlp(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, pf_activation act, const pf_linear *up,
           const pf_linear *down)
{
	mlp m = {pf_ops_for(isa, up), pf_ops_for(isa, down), up, down, act};
	void *memory = pf_pool_shared(pool, mlp_bytes(&m, x->rows));
	if (!memory)
		return -1;
	for (int row = 0, rows = chunk_of(x->rows); row < x->rows; row += rows) {
		pf_rows part = rows_of(x, row, rows);
		mlp_chunk(pool, &m, dst + row * dst_stride, dst_stride, &part, memory);
	}
	return 0;
}

typedef struct activating {
	pf_product product; // end, l, gelu
	pf_bf16 *dst;
	const float *wide;
	size_t dst_stride, stride;
	int rows;
} activating;

enum { ACTIVATED_ROWS = 4 }; // of one task

static void activate_task(void *arg, int task, int thread)
{
	(void)thread;
	const activating *g = arg;
	for (int r = task * ACTIVATED_ROWS; r < pf_min(g->rows, (task + 1) * ACTIVATED_ROWS); r++)
		g->product.ops->activate(&g->product, g->dst + r * g->dst_stride, g->wide + r * g->stride);
}

void pf_activate(pf_pool *pool, pf_isa isa, pf_bf16 *dst, size_t dst_stride, const float *wide, size_t stride, int rows, pf_activation act, const pf_linear *up)
{
	activating g = {.dst = dst, .wide = wide, .dst_stride = dst_stride, .stride = stride, .rows = rows};
	g.product = (pf_product){.ops = pf_ops_for(isa, up), .l = up, .end = end_of(up, act), .gelu = act == PF_GELU_TANH ? &pf_gelu_tanh : &pf_gelu_erf};
	pf_parallel(pool, activate_task, &g, pf_ceil(rows, ACTIVATED_ROWS));
}

typedef struct normalising {
	const pf_ops *ops;
	pf_pool *pool;
	const pf_rows *x;
	void *dst;
	pf_type type;
	size_t stride;
} normalising;

enum { NORM_ROWS = 16 }; // of one task

static void layer_norm_task(void *arg, int task, int thread)
{
	const normalising *n = arg;
	for (int r = task * NORM_ROWS; r < pf_min(n->x->rows, (task + 1) * NORM_ROWS); r++) {
		const float *x = n->x->x + r * n->x->stride;
		if (n->type == PF_BF16)
			n->ops->norm((pf_bf16 *)n->dst + r * n->stride, x, n->x, pf_pool_scratch(n->pool, thread));
		else if (n->x->norm == PF_LAYER_NORM)
			n->ops->layer_norm((float *)n->dst + r * n->stride, x, n->x);
		else
			memmove((float *)n->dst + r * n->stride, x, (size_t)n->x->cols * sizeof *x);
	}
}

void pf_layer_norm(pf_pool *pool, pf_isa isa, void *dst, pf_type type, size_t dst_stride, const pf_rows *x)
{
	normalising n = {pf_ops_of(isa), pool, x, dst, type, dst_stride};
	pf_parallel(pool, layer_norm_task, &n, pf_ceil(x->rows, NORM_ROWS));
}

typedef struct adding {
	const pf_ops *ops;
	const pf_rows *src;
	float *dst;
	size_t stride;
} adding;

static void add_norm_task(void *arg, int task, int thread)
{
	(void)thread;
	const adding *a = arg;
	for (int r = task * NORM_ROWS; r < pf_min(a->src->rows, (task + 1) * NORM_ROWS); r++)
		a->ops->add_norm(a->dst + r * a->stride, a->src->x + r * a->src->stride, a->src);
}

void pf_add_norm(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *src)
{
	pf_parallel(pool, add_norm_task, &(adding){pf_ops_of(isa), src, dst, dst_stride}, pf_ceil(src->rows, NORM_ROWS));
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
	char *scratch = pf_pool_scratch(g->pool, thread);
	uint32_t *b = (uint32_t *)(scratch + PF_MULTIPLY_BYTES);
	// Of this thread's next panel. In the order of the rows it is 1.6 times as fast as one line after
	// another (18 and 11 GB/s a core).
	size_t ahead = g->ids ? 0 : (size_t)pf_pool_threads(g->pool) * PF_PANEL * g->k;
	pf_transpose(b, PF_PANEL, rows, PF_PANEL / 8, g->k, g->pairs, ahead);
	pf_linear l = {.in = g->k, .out = cols, .pairs = g->pairs, .panels = 1, .weights = (pf_bf16 *)b};
	pf_product product = {.ops = g->ops, .plan = g->plan, .a = g->a, .l = &l, .end = PF_STORE_F32, .dst = g->dst + first, .stride = g->stride};
	g->ops->multiply(&product, (pf_part){0, g->plan.tiles, 0, 1, -1}, scratch);
}

int pf_logits(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, const pf_bf16 *table,
              const uint32_t *ids, int count)
{
	const pf_ops *ops = pf_ops_of(isa);
	pf_plan plan = pf_plan_rows(ops, x->rows);
	int pairs = pf_pairs(PF_DENSE, x->cols);
	void *a = pf_pool_shared(pool, plan.tiles * pf_tile_bytes(ops, pairs));
	if (!a)
		return -1;
	pack(pool, &(packing){.ops = ops, .plan = plan, .dst = a, .pairs = pairs, .k = x->cols, .x = x});
	logits g = {ops, pool, plan, a, pairs, x->cols, table, ids, count, dst, dst_stride};
	pf_parallel(pool, logits_task, &g, pf_ceil(count, PF_PANEL));
	return 0;
}

// A panel has 32 columns of which a few are listed, but reading these alone would fetch all of its cache lines.
typedef struct listing {
	const pf_ops *ops;
	pf_pool *pool;
	pf_plan plan;
	const void *a;
	const pf_linear *l;
	int first, count, task_count; // columns of a task
	const uint32_t *ids;
	float *dst;
	size_t stride;
} listing;

static int listed(const listing *g, int i) { return g->first + (g->ids ? (int)g->ids[i] : i); }

// one_panel is a matrix of panel p of l.
static pf_linear one_panel(const pf_linear *l, int p)
{
	pf_linear one = *l;
	one.codes += (size_t)p * l->pairs * PF_PANEL * 2;
	one.scale += p * PF_PANEL;
	if (one.starts)
		one.starts += p * PF_PANEL;
	one.out = pf_panel_cols(l, p);
	one.panels = 1;
	return one;
}

// listed_task computes the panels of its columns whole, one for those that follow one another in it, and picks.
static void listed_task(void *arg, int task, int thread)
{
	const listing *g = arg;
	char *scratch = pf_pool_scratch(g->pool, thread);
	float *sums = (float *)(scratch + PF_SCRATCH_BYTES - PF_LISTED_BYTES);
	int end = pf_min(g->count, (task + 1) * g->task_count);
	for (int i = task * g->task_count; i < end;) {
		int panel = listed(g, i) / PF_PANEL;
		pf_linear one = one_panel(g->l, panel);
		pf_product product = {.ops = g->ops, .plan = g->plan, .a = g->a, .l = &one, .end = PF_STORE_F32, .dst = sums, .stride = PF_PANEL};
		g->ops->multiply(&product, (pf_part){0, g->plan.tiles, 0, 1, -1}, scratch);
		for (; i < end && listed(g, i) / PF_PANEL == panel; i++)
			for (int row = 0; row < g->plan.rows; row++)
				g->dst[row * g->stride + i] = sums[row * PF_PANEL + listed(g, i) % PF_PANEL];
	}
}

static int listed_logits(pf_pool *pool, pf_isa isa, listing *g, const pf_rows *x)
{
	enum { TASKS_PER_THREAD = 12, MOST = 512 };
	_Static_assert(CHUNK_ROWS * PF_PANEL * sizeof(float) <= PF_LISTED_BYTES, "a chunk's sums fit");
	g->ops = pf_ops_for(isa, g->l);
	g->pool = pool;
	g->a = pf_pool_shared(pool, packed_bytes(g->ops, x->rows, g->l->pairs));
	if (!g->a)
		return -1;
	g->task_count = pf_max(1, pf_min(MOST, g->count / (TASKS_PER_THREAD * pf_pool_threads(pool))));
	for (int row = 0, rows = chunk_of(x->rows); row < x->rows; row += rows) {
		pf_rows part = rows_of(x, row, rows);
		g->plan = pf_plan_rows(g->ops, part.rows);
		pack(pool, &(packing){.ops = g->ops, .plan = g->plan, .dst = (void *)g->a, .pairs = g->l->pairs, .k = x->cols, .x = &part});
		pf_parallel(pool, listed_task, g, pf_ceil(g->count, g->task_count));
		g->dst += rows * g->stride;
	}
	return 0;
}

int pf_coded_logits(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, const pf_linear *l, int first,
                    const uint32_t *ids, int count)
{
	if (!ids && first == 0 && count == l->out)
		return normalised_product(pool, isa, PF_STORE_F32, dst, sizeof *dst, dst_stride, x, l);
	return listed_logits(pool, isa, &(listing){.l = l, .first = first, .ids = ids, .count = count, .dst = dst, .stride = dst_stride}, x);
}

size_t pf_shared_bytes(pf_isa isa, int rows, int max_in, int max_out)
{
	const pf_ops *dense = pf_ops_of(isa), *int8 = pf_ops_int8(isa);
	int pairs = pf_pairs(PF_INT8, pf_max(max_in, max_out));
	size_t most = pf_plan_rows(dense, rows).tiles * pf_tile_bytes(dense, pairs);
	pf_linear any = {.pairs = pairs};
	for (int i = 0; i < 4; i++) {
		mlp m = {i & 1 ? int8 : dense, i & 2 ? int8 : dense, &any, &any, PF_SILU};
		size_t bytes = mlp_bytes(&m, rows);
		most = bytes > most ? bytes : most;
	}
	return most;
}
