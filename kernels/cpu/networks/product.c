//go:build cgo && linux && amd64

// Matrix products. A right operand is packed into panels, which tiles of the left one's rows are multiplied with. Where those do not lie
// in rows, or are very long, as in products of activations and gradients over all places, ranges of the inner dimension are tasks:
// blocks of both operands are copied to a thread's scratch, and sums of ranges are added in their order.

#include "internal.h"

#include <xmmintrin.h>

typedef struct multiplication {
	const pn_device *d;
	const pn_product *p;
	int dims;
	const int64_t *shape;
	const pn_tensor *t;
	float *packed; // panels of b of the batch [k][width], or sums of ranges [range][m][n]
	int panels, rows, blocks; // rows of a task, and tasks of all rows
	int ranges, columns, column_blocks; // of a product by ranges
	float *at[3]; // of the batch
} multiplication;

enum { RANGE = 1024, LONG = 4096 }; // of the inner dimension: what a task sums, and from what on it is parted
enum { RANGE_ROWS = 96, RANGE_COLUMNS = 512, CHUNK = 128 }; // of a task, and of what is copied at a time
enum { CHUNK_STRIDE = CHUNK + 16 }; // rows a multiple of 4 KiB apart would fall on the same cache lines
enum { MOST_ROWS = RANGE_ROWS + 16 }; // of a task, in whole tiles
enum { FEW = 4 }; // tiles for which a panel is read where it lies
enum { SUMS_BYTES = 16 << 20 };

static int width_of(const multiplication *m, int col)
{
	int lanes = m->d->kernels->lanes;
	return (int)pn_min(2 * lanes, pn_ceil(m->p->n - col, lanes / 2) * (lanes / 2));
}

void pn_copy_matrix(const pn_kernels *k, float *d, ptrdiff_t to, const float *s, ptrdiff_t s0, ptrdiff_t s1, int rows, int cols)
{
	int i = 0;
	for (; s0 == 1 && i + 4 <= rows; i += 4) {
		int j = 0;
		for (; j + 4 <= cols; j += 4) {
			const float *from = s + i + j * s1;
			__m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + s1), c = _mm_loadu_ps(from + 2 * s1), e = _mm_loadu_ps(from + 3 * s1);
			_MM_TRANSPOSE4_PS(a, b, c, e);
			float *into = d + i * to + j;
			_mm_storeu_ps(into, a);
			_mm_storeu_ps(into + to, b);
			_mm_storeu_ps(into + 2 * to, c);
			_mm_storeu_ps(into + 3 * to, e);
		}
		for (; j < cols; j++)
			for (int r = 0; r < 4; r++)
				d[(i + r) * to + j] = s[i + r + j * s1];
	}
	for (; i < rows; i++) {
		if (s1 == 1) {
			k->copy(d + i * to, s + i * s0, (size_t)cols);
			continue;
		}
		for (int j = 0; j < cols; j++)
			d[i * to + j] = s[i * s0 + j * s1];
	}
}

// pack_panel copies rows [from, to) of columns of b to d.
static void pack_panel(const multiplication *m, int col, int from, int to, float *d)
{
	const pn_product *p = m->p;
	int width = width_of(m, col), cols = (int)pn_min(width, p->n - col);
	pn_copy_matrix(m->d->kernels, d, width, m->at[2] + from * p->b[0] + col * p->b[1], p->b[0], p->b[1], to - from, cols);
	for (int i = 0; cols < width && i < to - from; i++)
		m->d->kernels->fill(d + i * width + cols, 0, (size_t)(width - cols));
}

static void pack_task(void *arg, int task, int thread)
{
	(void)thread;
	const multiplication *m = arg;
	int col = task * 2 * m->d->kernels->lanes;
	pack_panel(m, col, 0, m->p->k, m->packed + (size_t)col * m->p->k);
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

// row_task multiplies rows with all panels.
static void row_task(void *arg, int task, int thread)
{
	const multiplication *m = arg;
	for (int i = 0; i < m->panels; i++)
		multiply_task(arg, task + i * m->blocks, thread);
}

// batch_task multiplies a whole product by itself, with its panels in the thread's scratch.
static void batch_task(void *arg, int task, int thread)
{
	multiplication m = *(const multiplication *)arg;
	float *scratch = m.d->threads.scratch(m.d->threads.pool, thread);
	m.packed = scratch + 1024;
	pn_locate(task, m.dims, m.shape, m.t, 3, m.at);
	for (int i = 0; i < m.panels; i++) {
		pack_task(&m, i, thread);
		multiply_block(&m, 0, m.p->m, i, scratch);
	}
}

// range_task sums a range of the inner dimension for a block of rows and columns.
static void range_task(void *arg, int task, int thread)
{
	const multiplication *m = arg;
	const pn_product *p = m->p;
	const pn_kernels *k = m->d->kernels;
	int range = task / (m->blocks * m->column_blocks), row = task % m->blocks * m->rows, rows = (int)pn_min(m->rows, p->m - row);
	int first = task / m->blocks % m->column_blocks * m->columns, last = (int)pn_min(p->n, first + m->columns);
	float *a = m->d->threads.scratch(m->d->threads.pool, thread), *b = a + MOST_ROWS * CHUNK_STRIDE;
	float *sums = m->packed + ((size_t)range * p->m + row) * p->n;
	for (int from = range * RANGE, end = (int)pn_min(p->k, from + RANGE), to; from < end; from = to) {
		to = (int)pn_min(end, from + CHUNK);
		pn_copy_matrix(k, a, CHUNK_STRIDE, m->at[1] + row * p->a[0] + from * p->a[1], p->a[0], p->a[1], rows, to - from);
		for (int col = first; col < last; col += 2 * k->lanes) {
			int width = width_of(m, col), cols = (int)pn_min(width, p->n - col), lies = p->b[1] == 1 && cols == width && rows <= FEW * k->rows;
			const float *panel = lies ? m->at[2] + from * p->b[0] + col : b;
			if (!lies)
				pack_panel(m, col, from, to, b);
			for (int i = 0; i < rows; i += k->rows) {
				const float *at = a + i * CHUNK_STRIDE;
				float *c = sums + (size_t)i * p->n + col;
				k->tile((int)pn_min(k->rows, rows - i), cols, 1, (size_t)(to - from), &at, CHUNK_STRIDE, panel, lies ? p->b[0] : width, c, p->n, from == range * RANGE ? NULL : c, NULL);
			}
		}
	}
}

// add_task adds the sums of ranges for a row.
static void add_task(void *arg, int row, int thread)
{
	(void)thread;
	const multiplication *m = arg;
	const pn_product *p = m->p;
	float *sum = m->packed + (size_t)row * p->n, *dst = m->at[0] + row * p->dst[0];
	for (int i = 1; i < m->ranges; i++)
		m->d->kernels->fold[0](sum, sum + (size_t)i * p->m * p->n, (size_t)p->n);
	for (int j = 0; j < p->n; j++)
		dst[j * p->dst[1]] = sum[j];
}

// multiply_ranges computes a product by ranges, of so many rows at a time that their sums have room.
static int multiply_ranges(multiplication *m, const pn_product *given, double work)
{
	pn_product p = *given;
	m->p = &p;
	m->ranges = (int)pn_ceil(p.k, RANGE);
	m->columns = RANGE_COLUMNS;
	m->column_blocks = (int)pn_ceil(p.n, m->columns);
	int64_t row_bytes = (int64_t)m->ranges * p.n * (int64_t)sizeof(float), most = pn_max(1, SUMS_BYTES / row_bytes);
	m->packed = m->d->threads.shared(m->d->threads.pool, (size_t)(pn_min(most, p.m) * row_bytes));
	if (!m->packed)
		return -1;
	for (int64_t row = 0; row < given->m; row += most) {
		p.m = (int)pn_min(most, given->m - row);
		m->rows = (int)pn_ceil(pn_ceil(p.m, pn_ceil(p.m, RANGE_ROWS)), m->d->kernels->rows) * m->d->kernels->rows;
		m->blocks = (int)pn_ceil(p.m, m->rows);
		pn_run_flushing(m->d, range_task, m, m->ranges * m->blocks * m->column_blocks, work);
		pn_run(m->d, add_task, m, p.m, 0.3 * p.m * p.n * m->ranges);
		m->at[0] += most * p.dst[0];
		m->at[1] += most * p.a[0];
	}
	return 0;
}

int pn_multiply(const pn_device *d, const pn_product *p, int dims, const int64_t *shape, const pn_tensor *t)
{
	multiplication m = {.d = d, .p = p, .dims = dims, .shape = shape, .t = t};
	int64_t batches = pn_product_of(dims, shape);
	int lanes = d->kernels->lanes;
	size_t floats = (size_t)p->k * (size_t)pn_ceil(p->n, lanes) * lanes;
	if (batches == 0 || p->m == 0 || p->n == 0)
		return 0;
	m.panels = (int)pn_ceil(p->n, 2 * lanes);
	double work = 0.03 * p->m * p->n * p->k;
	// Which way does not depend on how many rows there are.
	int ranges = (p->a[1] != 1 && p->k > 1) || p->k >= LONG;
	if (batches > 1 && !ranges && floats < PN_SCRATCH_BYTES / sizeof(float) - 2048) {
		pn_run_flushing(d, batch_task, &m, (int)batches, work * (double)batches);
		return 0;
	}
	for (int64_t i = 0; i < batches; i++) {
		pn_locate(i, dims, shape, t, 3, m.at);
		if (ranges) {
			if (multiply_ranges(&m, p, work))
				return -1;
			continue;
		}
		m.packed = d->threads.shared(d->threads.pool, (floats + 1) * sizeof(float));
		if (!m.packed)
			return -1;
		m.rows = (int)pn_min(p->m, 8 * d->kernels->rows);
		m.blocks = (int)pn_ceil(p->m, m.rows);
		pn_run(d, pack_task, &m, m.panels, 0.3 * p->n * p->k);
		if (m.blocks < 4 * d->threads.count)
			pn_run_flushing(d, multiply_task, &m, m.panels * m.blocks, work);
		else
			pn_run_flushing(d, row_task, &m, m.blocks, work);
	}
	return 0;
}
