//go:build cgo && linux && amd64

// Interpolations, matrix products and reductions: operations on tensors of any strides.

#include "internal.h"

// each is an odometer over dimensions: offset is where its place is, in each of some tensors.
static void locate(int64_t index, int dims, const int64_t *shape, const pn_tensor *t, int tensors, float **at)
{
	for (int i = 0; i < tensors; i++)
		at[i] = t[i].at;
	for (int k = dims - 1; k >= 0; index /= shape[k--])
		for (int i = 0; i < tensors; i++)
			at[i] += index % shape[k] * t[i].stride[k];
}

static int64_t product_of(int dims, const int64_t *shape)
{
	int64_t n = 1;
	for (int i = 0; i < dims; i++)
		n *= shape[i];
	return n;
}

typedef struct interpolation {
	const pn_device *d;
	int outputs;
	ptrdiff_t dst, src;
	pn_weights taps;
	int dims; // beside the last one
	const int64_t *shape;
	const pn_tensor *t;
	int64_t lines, length;        // of places beside the last dimension; the last dimension
	int64_t block, parts;  // lines of a task, and parts of one line's outputs
} interpolation;

static void interpolate_line(const interpolation *p, float *dst, const float *src, int first, int last)
{
	ptrdiff_t to = p->t[0].stride[p->dims], from = p->t[1].stride[p->dims];
	if (to == 1 && from == 1) {
		p->d->kernels->weigh(dst, p->dst, src, p->src, &p->taps, first, last, (size_t)p->length);
		return;
	}
	for (int64_t i = 0; i < p->length; i++)
		for (int o = first; o < last; o++) {
			float sum = 0;
			for (int j = p->taps.start[o]; j < p->taps.start[o + 1]; j++)
				sum = __builtin_fmaf(p->taps.weight[j], src[p->taps.index[j] * p->src + i * from], sum);
			dst[o * p->dst + i * to] = sum;
		}
}

static void interpolate_task(void *arg, int task, int thread)
{
	(void)thread;
	const interpolation *p = arg;
	int64_t first = task / p->parts * p->block, last = pn_min(p->lines, first + p->block);
	int part = task % (int)p->parts, outputs = p->outputs;
	for (int64_t i = first; i < last; i++) {
		float *at[2];
		locate(i, p->dims, p->shape, p->t, 2, at);
		interpolate_line(p, at[0], at[1], (int)((int64_t)outputs * part / p->parts), (int)((int64_t)outputs * (part + 1) / p->parts));
	}
}

void pn_interpolate(const pn_device *d, int outputs, ptrdiff_t dst, ptrdiff_t src, const int32_t *start,
                    const int32_t *index, const float *weight, int dims, const int64_t *shape, const pn_tensor *t)
{
	enum { TASK_ELEMENTS = 16 << 10 };
	interpolation p = {d, outputs, dst, src, {start, index, weight}, dims - 1, shape, t, product_of(dims - 1, shape), shape[dims - 1], 1, 1};
	int64_t line = outputs * p.length;
	p.block = pn_max(1, TASK_ELEMENTS / pn_max(1, line));
	p.parts = p.block > 1 ? 1 : pn_min(outputs, pn_ceil(line, TASK_ELEMENTS));
	pn_run(d, interpolate_task, &p, (int)(pn_ceil(p.lines, p.block) * p.parts), 0.5 * (double)p.lines * (double)line);
}

typedef struct multiplication {
	const pn_device *d;
	const pn_product *p;
	int dims;
	const int64_t *shape;
	const pn_tensor *t;
	float *packed; // panels of b of the batch [k][width]
	const float *b;
	int panels, rows, blocks, batch; // rows of a task, and tasks of all rows
	float *at[3];                    // of the batch
} multiplication;

static int width_of(const multiplication *m, int col)
{
	int lanes = m->d->kernels->lanes;
	return (int)pn_min(2 * lanes, pn_ceil(m->p->n - col, lanes / 2) * (lanes / 2));
}

static void pack_task(void *arg, int task, int thread)
{
	(void)thread;
	const multiplication *m = arg;
	const pn_product *p = m->p;
	int col = task * 2 * m->d->kernels->lanes, width = width_of(m, col), cols = (int)pn_min(width, p->n - col);
	float *d = m->packed + (size_t)col * p->k;
	for (int i = 0; i < p->k; i++, d += width) {
		const float *s = m->at[2] + i * p->b[0] + col * p->b[1];
		if (p->b[1] == 1)
			m->d->kernels->copy(d, s, (size_t)cols);
		else
			for (int j = 0; j < cols; j++)
				d[j] = s[j * p->b[1]];
		m->d->kernels->fill(d + cols, 0, (size_t)(width - cols));
	}
}

// multiply_block sets `rows` rows of a panel. Where the result's columns do not lie side by side they are computed
// elsewhere first.
static void multiply_block(const multiplication *m, int row, int rows, int panel, float *scratch)
{
	const pn_product *p = m->p;
	const pn_kernels *k = m->d->kernels;
	int col = panel * 2 * k->lanes, width = width_of(m, col), cols = (int)pn_min(width, p->n - col);
	const float *b = m->packed + (size_t)col * p->k, *a = m->at[1] + row * p->a[0];
	float *c = m->at[0] + row * p->dst[0] + col * p->dst[1];
	for (int i = 0; i < rows; i += k->rows) {
		int height = (int)pn_min(k->rows, rows - i);
		const float *from = a + i * p->a[0];
		if (p->dst[1] == 1) {
			k->tile(height, cols, 1, (size_t)p->k, &from, p->a[0], b, width, c + i * p->dst[0], p->dst[0], NULL, NULL);
			continue;
		}
		k->tile(height, cols, 1, (size_t)p->k, &from, p->a[0], b, width, scratch, width, NULL, NULL);
		for (int r = 0; r < height; r++)
			for (int j = 0; j < cols; j++)
				c[(i + r) * p->dst[0] + j * p->dst[1]] = scratch[r * width + j];
	}
}

static void multiply_task(void *arg, int task, int thread)
{
	const multiplication *m = arg;
	int row = task % m->blocks * m->rows, rows = (int)pn_min(m->rows, m->p->m - row);
	multiply_block(m, row, rows, task / m->blocks, m->d->threads.scratch(m->d->threads.pool, thread));
}

// batch_task multiplies a whole product by itself, with its panels in the thread's scratch.
static void batch_task(void *arg, int task, int thread)
{
	multiplication m = *(const multiplication *)arg;
	float *scratch = m.d->threads.scratch(m.d->threads.pool, thread);
	m.packed = scratch + 1024;
	locate(task, m.dims, m.shape, m.t, 3, m.at);
	for (int i = 0; i < m.panels; i++) {
		pack_task(&m, i, thread);
		multiply_block(&m, 0, m.p->m, i, scratch);
	}
}

// packed_columns copies a whose columns do not lie side by side to rows of k.
static void side_by_side(float *to, const pn_product *p, const float *a)
{
	for (int i = 0; i < p->m; i++)
		for (int j = 0; j < p->k; j++)
			to[(size_t)i * p->k + j] = a[i * p->a[0] + j * p->a[1]];
}

int pn_multiply(const pn_device *d, const pn_product *given, int dims, const int64_t *shape, const pn_tensor *t)
{
	pn_product p = *given;
	multiplication m = {.d = d, .p = &p, .dims = dims, .shape = shape, .t = t};
	int64_t batches = product_of(dims, shape);
	int lanes = d->kernels->lanes;
	size_t floats = (size_t)p.k * (size_t)pn_ceil(p.n, lanes) * lanes;
	if (batches == 0 || p.m == 0 || p.n == 0)
		return 0;
	m.panels = (int)pn_ceil(p.n, 2 * lanes);
	double work = 0.03 * p.m * p.n * p.k;
	int aside = p.a[1] != 1 && p.k > 1;
	if (batches > 1 && !aside && floats < PN_SCRATCH_BYTES / sizeof(float) - 2048) {
		pn_run_flushing(d, batch_task, &m, (int)batches, work * (double)batches);
		return 0;
	}
	float *room = d->threads.shared(d->threads.pool, (floats + (aside ? (size_t)p.m * p.k : 0) + 1) * sizeof(float));
	if (!room)
		return -1;
	m.packed = room;
	m.rows = (int)pn_min(p.m, 8 * d->kernels->rows);
	m.blocks = (int)pn_ceil(p.m, m.rows);
	for (int64_t i = 0; i < batches; i++) {
		locate(i, dims, shape, t, 3, m.at);
		pn_run(d, pack_task, &m, m.panels, 0.3 * p.n * p.k);
		if (aside) {
			side_by_side(room + floats, given, m.at[1]);
			m.at[1] = room + floats;
			p.a[0] = p.k;
		}
		pn_run_flushing(d, multiply_task, &m, m.panels * m.blocks, work);
	}
	return 0;
}

typedef struct reduction {
	const pn_device *d;
	int how, kept, reduced;
	const int64_t *shape;
	const pn_tensor *t;
	int64_t results, count, width, parts; // places kept and reduced (but for those within a vector), and a task's
} reduction;

enum { SUM, LARGEST, SMALLEST, PRODUCT };

static const float neutral[] = {0, -__builtin_inff(), __builtin_inff()};

static float join(int how, float a, float b)
{
	switch (how) {
	case SUM:
		return a + b;
	case LARGEST:
		return a != a || a > b ? a : b;
	default:
		return a != a || a < b ? a : b;
	}
}

// product_of_one is a product of reduced elements, which are rarely many.
static float product_of_one(const reduction *r, float *src)
{
	double product = 1;
	pn_tensor t = {.at = src};
	for (int i = 0; i < r->reduced; i++)
		t.stride[i] = r->t[1].stride[r->kept + i];
	for (int64_t i = 0; i < r->count; i++) {
		float *at;
		locate(i, r->reduced, r->shape + r->kept, &t, 1, &at);
		product *= *at;
	}
	return (float)product;
}

// Reductions of many parts keep sums of 16 parts, of 16 such sums, and so on, so that errors grow with their logarithm.
enum { RADIX = 16, LEVELS = 16 };

// carry tells whether, after part number `part`, the sum of a level is to be added to the next one's.
static int carry(int64_t part, int level) { return (part + 1) % ((int64_t)1 << 4 * (level + 1)) == 0; }

// reduce_one makes elements of the reduced dimensions one: pieces along the last of them first, if they lie side by
// side.
static float reduce_one(const reduction *r, float *src)
{
	enum { PIECE = 1024 };
	int dims = r->reduced, last = r->kept + dims - 1, lines = dims > 0 && r->t[1].stride[last] == 1;
	const int64_t *shape = r->shape + r->kept;
	int64_t length = lines ? shape[dims - 1] : 1, pieces = pn_ceil(length, PIECE), count = product_of(dims - lines, shape) * pieces;
	pn_tensor t = {.at = src};
	for (int i = 0; i < dims; i++)
		t.stride[i] = r->t[1].stride[r->kept + i];
	float sum[LEVELS];
	for (int i = 0; i < LEVELS; i++)
		sum[i] = neutral[r->how];
	for (int64_t i = 0; i < count; i++) {
		float *at;
		locate(i / pieces, dims - lines, shape, &t, 1, &at);
		int64_t from = i % pieces * PIECE;
		sum[0] = join(r->how, sum[0], lines ? r->d->kernels->reduce[r->how](at + from, (size_t)pn_min(PIECE, length - from)) : *at);
		for (int level = 0; carry(i, level); level++) {
			sum[level + 1] = join(r->how, sum[level + 1], sum[level]);
			sum[level] = neutral[r->how];
		}
	}
	for (int i = 1; i < LEVELS; i++)
		sum[0] = join(r->how, sum[0], sum[i]);
	return sum[0];
}

static void scalar_task(void *arg, int task, int thread)
{
	(void)thread;
	const reduction *r = arg;
	int64_t last = pn_min(r->results, (task + 1) * r->width);
	for (int64_t i = task * r->width; i < last; i++) {
		float *at[2];
		locate(i, r->kept, r->shape, r->t, 2, at);
		*at[0] = r->how == PRODUCT ? product_of_one(r, at[1]) : reduce_one(r, at[1]);
	}
}

// vector_task makes results along the last kept dimension, all at a time.
static void vector_task(void *arg, int task, int thread)
{
	const reduction *r = arg;
	const pn_kernels *k = r->d->kernels;
	int64_t from = task % r->parts * r->width;
	size_t n = r->kept ? (size_t)pn_min(r->width, r->shape[r->kept - 1] - from) : 1;
	float *at[2], *sum = r->d->threads.scratch(r->d->threads.pool, thread), *own = sum + n * LEVELS, *part;
	ptrdiff_t to = r->kept ? r->t[0].stride[r->kept - 1] : 1, step = r->kept ? r->t[1].stride[r->kept - 1] : 1;
	locate(task / r->parts, r->kept ? r->kept - 1 : 0, r->shape, r->t, 2, at);
	k->fill(sum, neutral[r->how], n * (r->count >= RADIX ? LEVELS : 1));
	pn_tensor t = {.at = at[1] + from * step};
	for (int i = 0; i < r->reduced; i++)
		t.stride[i] = r->t[1].stride[r->kept + i];
	for (int64_t i = 0; i < r->count; i++) {
		locate(i, r->reduced, r->shape + r->kept, &t, 1, &part);
		if (step != 1) {
			for (size_t j = 0; j < n; j++)
				own[j] = part[(ptrdiff_t)j * step];
			part = own;
		}
		k->fold[r->how](sum, part, n);
		for (int level = 0; carry(i, level); level++) {
			k->fold[r->how](sum + (level + 1) * n, sum + level * n, n);
			k->fill(sum + level * n, neutral[r->how], n);
		}
	}
	for (int i = 1; i < LEVELS && r->count >= RADIX; i++)
		k->fold[r->how](sum, sum + i * n, n);
	for (size_t j = 0; j < n; j++)
		at[0][(from + (ptrdiff_t)j) * to] = sum[j];
}

void pn_reduce(const pn_device *d, int how, int kept, int reduced, const int64_t *shape, const pn_tensor *t)
{
	enum { TASK_ELEMENTS = 16 << 10, FEW = 64 };
	reduction r = {.d = d, .how = how, .kept = kept, .reduced = reduced, .shape = shape, .t = t};
	r.results = product_of(kept, shape);
	r.count = product_of(reduced, shape + kept);
	double work = 0.3 * (double)r.results * (double)r.count;
	// Which way depends on nothing that images or rows beside could change.
	if (how != PRODUCT && (r.count <= FEW || (kept > 0 && t[1].stride[kept - 1] == 1))) {
		int64_t length = kept ? shape[kept - 1] : 1;
		r.width = pn_min(4096, pn_max(64, TASK_ELEMENTS / pn_max(1, r.count)));
		r.parts = pn_ceil(length, r.width);
		pn_run(d, vector_task, &r, (int)(r.results / length * r.parts), work);
		return;
	}
	r.width = pn_max(1, TASK_ELEMENTS / pn_max(1, r.count));
	pn_run(d, scalar_task, &r, (int)pn_ceil(r.results, r.width), work);
}
