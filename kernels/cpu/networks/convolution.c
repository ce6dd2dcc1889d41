//go:build cgo && linux && amd64

// Convolutions: products of tiles of outputs with panels of weights, whose rows are taken where they lie or, where
// a kernel covers more than one place, are gathered beside each other first; depthwise ones by strips.

#include "internal.h"

#include <string.h>

enum { GATHERED = 1152 };      // taps times channels that are gathered at a time
enum { BLOCK_BYTES = 192 << 10 }; // of inputs of a block, which stay in the second-level cache
enum { TASKS_PER_THREAD = 4 };

// Floats of a panel, of which there are `left` columns.
static int panel_width(const pn_kernels *k, int left) { return left > k->lanes ? 2 * k->lanes : k->lanes; }

static size_t taps_of(const pn_filter *f) { return (size_t)f->kernel[0] * f->kernel[1] * f->kernel[2]; }

static int padded(int n, int to) { return (int)pn_ceil(n, to) * to; }

size_t pn_filter_floats(const pn_device *d, const pn_filter *f)
{
	int lanes = d->kernels->lanes;
	if (f->depthwise)
		return taps_of(f) * (size_t)padded(f->groups, lanes);
	return (size_t)f->groups * taps_of(f) * (size_t)f->in * (size_t)padded(f->out, lanes);
}

// packed is where the weight of a tap, an input and an output of a group is.
static float *packed(const pn_kernels *k, const pn_filter *f, int group, size_t tap, int in, int out)
{
	size_t depth = taps_of(f) * (size_t)f->in, group_floats = depth * (size_t)padded(f->out, k->lanes);
	int panel = out / (2 * k->lanes) * 2 * k->lanes;
	return f->weights + group * group_floats + panel * depth + (tap * f->in + in) * panel_width(k, f->out - panel) + out - panel;
}

void pn_filter_pack(const pn_device *d, const pn_filter *f, const float *weights)
{
	size_t taps = taps_of(f);
	memset(f->weights, 0, pn_filter_floats(d, f) * sizeof *weights);
	if (f->depthwise) {
		size_t stride = padded(f->groups, d->kernels->lanes);
		for (int c = 0; c < f->groups; c++)
			for (size_t t = 0; t < taps; t++)
				f->weights[t * stride + c] = weights[c * taps + t];
		return;
	}
	for (int g = 0; g < f->groups; g++)
		for (int o = 0; o < f->out; o++)
			for (int i = 0; i < f->in; i++)
				for (size_t t = 0; t < taps; t++)
					*packed(d->kernels, f, g, t, i, o) = weights[(((size_t)g * f->out + o) * f->in + i) * taps + t];
}

int64_t pn_inside(const pn_axis *a, int64_t i, int *from, int *to)
{
	int64_t place = a->base + i * a->step, dilation = a->dilation, first, end;
	if (dilation > 0) {
		first = place < 0 ? (dilation == 1 ? -place : pn_ceil(-place, dilation)) : 0;
		end = place < a->in ? (dilation == 1 ? a->in - place : pn_ceil(a->in - place, dilation)) : 0;
	} else {
		first = place >= a->in ? (place - a->in) / -dilation + 1 : 0;
		end = place >= 0 ? place / -dilation + 1 : 0;
	}
	*from = (int)pn_min(first, a->taps);
	*to = (int)pn_max(*from, pn_min(end, a->taps));
	return place;
}

void pn_run(const pn_device *d, pn_task task, void *arg, int tasks, double work)
{
	enum { WAKE_NANOSECONDS = 4000 };
	if (work >= WAKE_NANOSECONDS) {
		d->threads.parallel(d->threads.pool, task, arg, tasks);
		return;
	}
	for (int i = 0; i < tasks; i++)
		task(arg, i, 0);
}

// job is a convolution for all threads. Outputs of an image are lines of positions that lie evenly: all of them, or
// those along the last axis. A task is a block of a line and some of the panels of a group.
typedef struct job {
	const pn_device *d;
	const pn_convolution *c;
	const pn_filter *f; // of the direction: from in to out
	const pn_program *then; // NULL for none
	const pn_image *operands;

	int direct;              // whether a position's input lies where it is, as one place
	int64_t lines, length;   // lines of an image and positions of a line
	int64_t block, blocks;   // positions of a block and blocks of a line
	int panels, group_panels; // of a group of channels, and those of them that are a task
	size_t depth;            // taps times channels
	int chunk;               // taps that are gathered at a time
	ptrdiff_t lda;           // between gathered rows
} job;

// even tells whether positions of an image lie evenly, with these strides of the axes.
static int even(const pn_axis *a, ptrdiff_t outer, ptrdiff_t middle, ptrdiff_t inner)
{
	return (a[1].out == 1 || middle == inner * a[2].out) &&
	       (a[0].out == 1 || outer == (a[1].out == 1 ? inner * a[2].out : middle * a[1].out));
}

static int all_even(const job *j)
{
	const pn_axis *a = j->c->axis;
	int is = even(a, a[0].dst, a[1].dst, a[2].dst);
	for (int i = 0; j->then && i < j->then->operands - 1; i++) {
		const ptrdiff_t *s = j->operands[i].axis;
		is &= even(a, s[0], s[1], s[2]);
	}
	if (j->direct)
		is &= even(a, a[0].step * a[0].src, a[1].step * a[1].src, a[2].step * a[2].src);
	return is;
}

// all_inside tells whether the only tap lies in the input for all outputs.
static int all_inside(const pn_axis *a)
{
	for (int i = 0; i < 3; i++)
		if (a[i].taps != 1 || a[i].base < 0 || a[i].base + (int64_t)(a[i].out - 1) * a[i].step >= a[i].in)
			return 0;
	return 1;
}

// position is where a line's position p is along the axes.
static void position(const job *j, int64_t line, int64_t p, int64_t at[3])
{
	const pn_axis *a = j->c->axis;
	int64_t i = line * j->length + p;
	at[2] = i % a[2].out;
	at[1] = i / a[2].out % a[1].out;
	at[0] = i / a[2].out / a[1].out;
}

// gather_row copies inputs of the taps [from, to) of an output, row-major, to d; those outside are 0.
static void gather_row(const job *j, float *d, const float *src, const int64_t at[3], int from, int to)
{
	const pn_axis *a = j->c->axis;
	const pn_kernels *k = j->d->kernels;
	size_t in = (size_t)j->f->in;
	int inside[3][2];
	int64_t place[3];
	for (int i = 0; i < 3; i++)
		place[i] = pn_inside(&a[i], at[i], &inside[i][0], &inside[i][1]);
	int adjacent = a[2].dilation * a[2].src == (ptrdiff_t)in;
	for (int t = from, next; t < to; d += in * (size_t)(next - t), t = next) {
		int x = t % a[2].taps, y = t / a[2].taps % a[1].taps, z = t / a[2].taps / a[1].taps;
		next = (int)pn_min(to, t - x + a[2].taps);
		int low = (int)pn_max(x, inside[2][0]), high = (int)pn_min(x + next - t, inside[2][1]);
		if (z < inside[0][0] || z >= inside[0][1] || y < inside[1][0] || y >= inside[1][1] || low >= high) {
			k->fill(d, 0, in * (size_t)(next - t));
			continue;
		}
		const float *s = src + (place[0] + (int64_t)z * a[0].dilation) * a[0].src + (place[1] + (int64_t)y * a[1].dilation) * a[1].src +
		                 (place[2] + (int64_t)low * a[2].dilation) * a[2].src;
		float *e = d + in * (size_t)(low - x);
		k->fill(d, 0, in * (size_t)(low - x));
		if (adjacent)
			k->copy(e, s, in * (size_t)(high - low));
		else
			for (int i = 0; i < high - low; i++)
				k->copy(e + in * (size_t)i, s + i * a[2].dilation * a[2].src, in);
		k->fill(d + in * (size_t)(high - x), 0, in * (size_t)(x + next - t - high));
	}
}

// multiply computes `positions` rows of the panels [first, last) of a group from a [positions][taps*in], which are
// taps [from, to) of all.
static void multiply(const job *j, int group, int first, int last, const float *a, ptrdiff_t lda, int64_t positions,
                     int from, int to, float *dst)
{
	const pn_kernels *k = j->d->kernels;
	const pn_filter *f = j->f;
	ptrdiff_t ldc = j->c->axis[2].dst;
	int64_t tiles = pn_ceil(positions, k->rows);
	for (int p = first; p < last; p++) {
		int col = p * 2 * k->lanes, width = panel_width(k, f->out - col), cols = (int)pn_min(width, f->out - col);
		const float *b = f->weights + ((size_t)group * padded(f->out, k->lanes) + col) * j->depth + (size_t)from * f->in * width;
		const float *bias = f->bias ? f->bias + group * f->out + col : NULL;
		for (int64_t t = 0; t < tiles; t++) {
			int64_t row = positions * t / tiles, end = positions * (t + 1) / tiles;
			float *c = dst + row * ldc + col;
			k->tile((int)(end - row), cols, (size_t)(to - from) * f->in, a + row * lda, lda, b, width, c, ldc, from ? c : bias);
		}
	}
}

// finish runs the program on computed outputs of a line.
static void finish(const job *j, int image, int64_t line, int64_t p, int64_t positions, int channel, int channels, float *dst, float *room)
{
	if (!j->then)
		return;
	pn_matrix v[PN_MAX_OPERANDS];
	int64_t at[3];
	position(j, line, p, at);
	v[0] = (pn_matrix){dst, j->c->axis[2].dst, 1};
	for (int i = 1; i < j->then->operands; i++) {
		const pn_image *o = &j->operands[i - 1];
		v[i] = (pn_matrix){o->at + image * o->image + at[0] * o->axis[0] + at[1] * o->axis[1] + at[2] * o->axis[2] + channel * o->channel, o->axis[2], o->channel};
	}
	pn_execute(j->d->kernels, j->then, v[0], v, positions, channels, room);
}

static void dense_task(void *arg, int task, int thread)
{
	const job *j = arg;
	const pn_filter *f = j->f;
	const pn_axis *a = j->c->axis;
	int groups = (int)pn_ceil(j->panels, j->group_panels), first = task % groups * j->group_panels;
	int last = (int)pn_min(j->panels, first + j->group_panels);
	int64_t rest = task / groups, block = rest % j->blocks, line = rest / j->blocks % j->lines;
	int group = (int)(rest / j->blocks / j->lines % f->groups), image = (int)(rest / j->blocks / j->lines / f->groups);
	int64_t p = block * j->block, positions = pn_min(j->block, j->length - p), at[3];
	float *scratch = j->d->threads.scratch(j->d->threads.pool, thread);
	const float *src = j->c->src + image * j->c->src_image + group * f->in;
	position(j, line, p, at);
	float *dst = j->c->dst + image * j->c->dst_image + group * f->out + at[0] * a[0].dst + at[1] * a[1].dst + at[2] * a[2].dst;
	if (j->direct) {
		for (int i = 0; i < 3; i++)
			src += (a[i].base + at[i] * a[i].step) * a[i].src;
		multiply(j, group, first, last, src, a[2].step * a[2].src, positions, 0, 1, dst);
	}
	int taps = (int)taps_of(f);
	for (int from = 0, to; !j->direct && (from < taps || from == 0); from = to) {
		to = (int)pn_min(taps, from + j->chunk);
		for (int64_t i = 0; i < positions; i++) {
			position(j, line, p + i, at);
			gather_row(j, scratch + i * j->lda, src, at, from, to);
		}
		multiply(j, group, first, last, scratch, j->lda, positions, from, to, dst);
		if (taps == 0)
			break;
	}
	int channel = first * 2 * j->d->kernels->lanes, channels = (int)pn_min(f->out, last * 2 * j->d->kernels->lanes) - channel;
	finish(j, image, line, p, positions, group * f->out + channel, channels, dst + channel, scratch + (PN_SCRATCH_BYTES - PN_PROGRAM_BYTES) / sizeof *scratch);
}

// cut sets the tasks of a dense convolution, and returns how many there are.
static int cut(job *j)
{
	const pn_kernels *k = j->d->kernels;
	const pn_axis *a = j->c->axis;
	int threads = j->d->threads.count;
	int64_t images = (int64_t)j->c->images * j->f->groups;
	j->depth = taps_of(j->f) * (size_t)j->f->in;
	j->direct = all_inside(a);
	// Rows a multiple of 4 KiB apart would fall on the same lines of the first-level cache.
	ptrdiff_t lda = a[2].step * a[2].src;
	if (lda % 1024 == 0 || (!all_even(j) && a[2].out < k->rows / 2))
		j->direct = 0;
	int one = all_even(j);
	j->length = one ? (int64_t)a[0].out * a[1].out * a[2].out : a[2].out;
	j->lines = one ? 1 : (int64_t)a[0].out * a[1].out;
	j->chunk = (int)pn_max(1, GATHERED / j->f->in);
	j->lda = (ptrdiff_t)pn_min(j->chunk, (int64_t)taps_of(j->f)) * j->f->in;
	j->lda += 16 - j->lda % 16 + (j->lda / 16 % 4 == 3 ? 16 : 0);
	j->panels = (int)pn_ceil(j->f->out, 2 * k->lanes);
	int64_t row_bytes = (j->direct ? j->f->in : j->lda) * (int64_t)sizeof(float);
	int64_t most = pn_max(1, BLOCK_BYTES / row_bytes / k->rows), tiles = pn_ceil(j->length, k->rows);
	int64_t wanted = pn_ceil((int64_t)threads * TASKS_PER_THREAD, images * j->lines);
	int64_t blocks = pn_max(pn_ceil(tiles, most), pn_min(wanted, pn_ceil(tiles, 2)));
	j->block = pn_ceil(pn_ceil(j->length, blocks), k->rows) * k->rows;
	j->blocks = pn_ceil(j->length, j->block);
	int64_t found = images * j->lines * j->blocks;
	int64_t groups = threads == 1 ? 1 : pn_min(j->panels, pn_ceil((int64_t)threads * 2, found));
	j->group_panels = (int)pn_ceil(j->panels, groups);
	return (int)(found * pn_ceil(j->panels, j->group_panels));
}

static void depthwise_task(void *arg, int task, int thread)
{
	const job *j = arg;
	const pn_axis *a = j->c->axis;
	const pn_kernels *k = j->d->kernels;
	int64_t block = task % j->blocks, image = task / j->blocks;
	int64_t rows = (int64_t)a[0].out * a[1].out;
	for (int64_t r = block * j->block; r < pn_min(rows, (block + 1) * j->block); r++) {
		int64_t z = r / a[1].out, y = r % a[1].out;
		pn_strip s = {.axis = a, .x1 = a[2].out, .channels = j->f->groups, .src = j->c->src + image * j->c->src_image};
		s.place[0] = pn_inside(&a[0], z, &s.from[0], &s.to[0]);
		s.place[1] = pn_inside(&a[1], y, &s.from[1], &s.to[1]);
		s.dst = j->c->dst + image * j->c->dst_image + z * a[0].dst + y * a[1].dst;
		k->depthwise(&s, j->f->weights, j->f->kernel, (size_t)padded(j->f->groups, k->lanes), j->f->bias);
		finish(j, (int)image, r, 0, a[2].out, 0, j->f->groups, s.dst, j->d->threads.scratch(j->d->threads.pool, thread));
	}
}

static void run(job *j)
{
	const pn_axis *a = j->c->axis;
	double outputs = (double)j->c->images * a[0].out * a[1].out * a[2].out * j->f->groups * j->f->out;
	if (outputs == 0)
		return;
	double work = outputs * (0.03 * (double)a[0].taps * a[1].taps * a[2].taps * j->f->in + (j->then ? j->then->work : 0));
	if (!j->f->depthwise) {
		pn_run(j->d, dense_task, j, cut(j), work);
		return;
	}
	j->lines = (int64_t)a[0].out * a[1].out;
	j->length = a[2].out;
	j->blocks = pn_min(j->lines, pn_ceil(j->d->threads.count * TASKS_PER_THREAD, j->c->images));
	j->block = pn_ceil(j->lines, j->blocks);
	j->blocks = pn_ceil(j->lines, j->block);
	pn_run(j->d, depthwise_task, j, (int)(j->c->images * j->blocks), work);
}

void pn_convolve(const pn_device *d, const pn_convolution *c, const pn_filter *f, const pn_instruction *code,
                 int instructions, const pn_image *operands, int count)
{
	job j = {.d = d, .c = c, .f = f, .then = code ? d->program : NULL, .operands = operands};
	if (code)
		pn_prepare(d->program, code, instructions, count + 1);
	run(&j);
}

// exchange is the packing of a filter's weights for the other direction, of the taps that c's axes name.
typedef struct exchange {
	const pn_kernels *k;
	const pn_convolution *c;
	const pn_filter *f, *to;
	int panels; // of a group of `to`
} exchange;

static void exchange_task(void *arg, int task, int thread)
{
	(void)thread;
	const exchange *e = arg;
	const pn_axis *a = e->c->axis;
	int group = task / e->panels, col = task % e->panels * 2 * e->k->lanes;
	int width = panel_width(e->k, e->to->out - col), cols = (int)pn_min(width, e->to->out - col);
	float *d = packed(e->k, e->to, group, 0, 0, col);
	for (int z = 0; z < a[0].taps; z++)
		for (int y = 0; y < a[1].taps; y++)
			for (int x = 0; x < a[2].taps; x++) {
				size_t tap = ((size_t)(a[0].weight + z * a[0].weight_step) * e->f->kernel[1] + a[1].weight + y * a[1].weight_step) * e->f->kernel[2] +
				             a[2].weight + x * a[2].weight_step;
				for (int i = 0; i < e->to->in; i++, d += width) {
					const float *s = packed(e->k, e->f, group, tap, col, i);
					int step = panel_width(e->k, e->f->out - i / (2 * e->k->lanes) * 2 * e->k->lanes);
					for (int o = 0; o < width; o++)
						d[o] = o < cols ? s[o * step] : 0;
				}
			}
}

int pn_convolve_backward(const pn_device *d, const pn_convolution *c, const pn_filter *f)
{
	const pn_axis *a = c->axis;
	pn_filter to = *f;
	to.bias = NULL;
	if (!f->depthwise) {
		to.in = f->out;
		to.out = f->in;
		for (int i = 0; i < 3; i++)
			to.kernel[i] = a[i].taps;
		size_t floats = pn_filter_floats(d, &to);
		to.weights = d->threads.shared(d->threads.pool, (floats + 1) * sizeof(float));
		if (!to.weights)
			return -1;
		exchange e = {d->kernels, c, f, &to, (int)pn_ceil(to.out, 2 * d->kernels->lanes)};
		pn_run(d, exchange_task, &e, f->groups * e.panels, (double)floats);
	}
	job j = {.d = d, .c = c, .f = &to};
	run(&j);
	return 0;
}
