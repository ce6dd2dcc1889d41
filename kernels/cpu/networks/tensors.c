//go:build cgo && linux && amd64

// Interpolations and reductions: operations on tensors of any strides.

#include "internal.h"

void pn_locate(int64_t index, int dims, const int64_t *shape, const pn_tensor *t, int tensors, float **at)
{
	for (int i = 0; i < tensors; i++)
		at[i] = t[i].at;
	for (int k = dims - 1; k >= 0; index /= shape[k--])
		for (int i = 0; i < tensors; i++)
			at[i] += index % shape[k] * t[i].stride[k];
}

int64_t pn_product_of(int dims, const int64_t *shape)
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
		pn_locate(i, p->dims, p->shape, p->t, 2, at);
		interpolate_line(p, at[0], at[1], (int)((int64_t)outputs * part / p->parts), (int)((int64_t)outputs * (part + 1) / p->parts));
	}
}

void pn_interpolate(const pn_device *d, int outputs, ptrdiff_t dst, ptrdiff_t src, const int32_t *start,
                    const int32_t *index, const float *weight, int dims, const int64_t *shape, const pn_tensor *t)
{
	enum { TASK_ELEMENTS = 16 << 10 };
	interpolation p = {d, outputs, dst, src, {start, index, weight}, dims - 1, shape, t, pn_product_of(dims - 1, shape), shape[dims - 1], 1, 1};
	int64_t line = outputs * p.length;
	p.block = pn_max(1, TASK_ELEMENTS / pn_max(1, line));
	p.parts = p.block > 1 ? 1 : pn_min(outputs, pn_ceil(line, TASK_ELEMENTS));
	pn_run(d, interpolate_task, &p, (int)(pn_ceil(p.lines, p.block) * p.parts), 0.5 * (double)p.lines * (double)line);
}

typedef struct reduction {
	const pn_device *d;
	int how, kept, reduced;
	const int64_t *shape;
	const pn_tensor *t;
	int64_t results, count, width, parts; // places kept and reduced (but for those within a vector), and a task's
	int64_t lines, chunks;                // tasks of all results, and chunks of the places reduced, each a task
	float *sums;                          // of chunks [chunk][line][width]
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
		pn_locate(i, r->reduced, r->shape + r->kept, &t, 1, &at);
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
	int64_t length = lines ? shape[dims - 1] : 1, pieces = pn_ceil(length, PIECE), count = pn_product_of(dims - lines, shape) * pieces;
	pn_tensor t = {.at = src};
	for (int i = 0; i < dims; i++)
		t.stride[i] = r->t[1].stride[r->kept + i];
	float sum[LEVELS];
	for (int i = 0; i < LEVELS; i++)
		sum[i] = neutral[r->how];
	for (int64_t i = 0; i < count; i++) {
		float *at;
		pn_locate(i / pieces, dims - lines, shape, &t, 1, &at);
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
		pn_locate(i, r->kept, r->shape, r->t, 2, at);
		*at[0] = r->how == PRODUCT ? product_of_one(r, at[1]) : reduce_one(r, at[1]);
	}
}

// line is results along the last kept dimension that a task makes.
typedef struct line {
	size_t n;
	float *dst, *src;
	ptrdiff_t to, step; // between results, and between what they are made of
} line;

static line line_of(const reduction *r, int64_t number)
{
	int64_t from = number % r->parts * r->width;
	float *at[2];
	line l = {.n = 1, .to = 1, .step = 1};
	if (r->kept) {
		l.n = (size_t)pn_min(r->width, r->shape[r->kept - 1] - from);
		l.to = r->t[0].stride[r->kept - 1];
		l.step = r->t[1].stride[r->kept - 1];
	}
	pn_locate(number / r->parts, r->kept ? r->kept - 1 : 0, r->shape, r->t, 2, at);
	l.dst = at[0] + from * l.to;
	l.src = at[1] + from * l.step;
	return l;
}

static void store_line(const line *l, const float *sum)
{
	for (size_t j = 0; j < l->n; j++)
		l->dst[(ptrdiff_t)j * l->to] = sum[j];
}

// vector_task makes results of a chunk along the last kept dimension, all at a time.
static void vector_task(void *arg, int task, int thread)
{
	const reduction *r = arg;
	const pn_kernels *k = r->d->kernels;
	line l = line_of(r, task % r->lines);
	int64_t chunk = task / r->lines, first = chunk * r->count / r->chunks, last = (chunk + 1) * r->count / r->chunks;
	size_t n = l.n;
	float *sum = r->d->threads.scratch(r->d->threads.pool, thread), *own = sum + n * LEVELS, *part;
	k->fill(sum, neutral[r->how], n * (last - first >= RADIX ? LEVELS : 1));
	pn_tensor t = {.at = l.src};
	for (int i = 0; i < r->reduced; i++)
		t.stride[i] = r->t[1].stride[r->kept + i];
	for (int64_t i = first; i < last; i++) {
		part = l.src + i * t.stride[0];
		if (r->reduced != 1)
			pn_locate(i, r->reduced, r->shape + r->kept, &t, 1, &part);
		if (l.step != 1) {
			for (size_t j = 0; j < n; j++)
				own[j] = part[(ptrdiff_t)j * l.step];
			part = own;
		}
		k->fold[r->how](sum, part, n);
		for (int level = 0; carry(i - first, level); level++) {
			k->fold[r->how](sum + (level + 1) * n, sum + level * n, n);
			k->fill(sum + level * n, neutral[r->how], n);
		}
	}
	for (int i = 1; i < LEVELS && last - first >= RADIX; i++)
		k->fold[r->how](sum, sum + i * n, n);
	if (r->chunks > 1)
		k->copy(r->sums + (chunk * r->lines + task % r->lines) * r->width, sum, n);
	else
		store_line(&l, sum);
}

// join_task makes one of the chunks of results.
static void join_task(void *arg, int task, int thread)
{
	(void)thread;
	const reduction *r = arg;
	line l = line_of(r, task);
	float *sum = r->sums + task * r->width;
	for (int64_t i = 1; i < r->chunks; i++)
		r->d->kernels->fold[r->how](sum, sum + i * r->lines * r->width, l.n);
	store_line(&l, sum);
}

void pn_reduce(const pn_device *d, int how, int kept, int reduced, const int64_t *shape, const pn_tensor *t)
{
	enum { TASK_ELEMENTS = 16 << 10, FEW = 64, CHUNK = 2048 };
	reduction r = {.d = d, .how = how, .kept = kept, .reduced = reduced, .shape = shape, .t = t};
	r.results = pn_product_of(kept, shape);
	r.count = pn_product_of(reduced, shape + kept);
	double work = 0.3 * (double)r.results * (double)r.count;
	// Which way depends on nothing that images or rows beside could change.
	if (how != PRODUCT && (r.count <= FEW || (kept > 0 && t[1].stride[kept - 1] == 1))) {
		int64_t length = kept ? shape[kept - 1] : 1;
		r.width = pn_min(4096, pn_max(64, TASK_ELEMENTS / pn_max(1, r.count)));
		r.parts = pn_ceil(length, r.width);
		r.lines = r.results / length * r.parts;
		r.chunks = pn_max(1, r.count / CHUNK);
		if (r.chunks > 1)
			r.sums = d->threads.shared(d->threads.pool, (size_t)(r.chunks * r.lines * r.width) * sizeof(float));
		if (!r.sums)
			r.chunks = 1;
		pn_run(d, vector_task, &r, (int)(r.lines * r.chunks), work);
		if (r.chunks > 1)
			pn_run(d, join_task, &r, (int)r.lines, 0.3 * (double)(r.lines * r.chunks * r.width));
		return;
	}
	r.width = pn_max(1, TASK_ELEMENTS / pn_max(1, r.count));
	pn_run(d, scalar_task, &r, (int)pn_ceil(r.results, r.width), work);
}
