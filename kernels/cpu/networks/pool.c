//go:build cgo && linux && amd64

// Pools and their gradients.

#include "internal.h"

typedef struct pooling {
	const pn_device *d;
	const pn_pool *p;
	float *dst;
	const float *src, *grad;
	const pn_image *x;
	int64_t rows, block, blocks; // rows of outputs of an image, and those of a task
	int width, parts;            // channels of a task, where they are divided
} pooling;

// counted is how many taps of output i a mean counts.
static int counted(const pn_pool *p, int axis, int64_t i)
{
	int from, to;
	pn_axis a = p->axis[axis];
	if (p->counted) {
		a.in = (int)pn_min(INT32_MAX, p->end[axis] - a.base);
		a.base = 0;
	}
	pn_inside(&a, i, &from, &to);
	return to - from;
}

// row_scales are what the sums of a row of outputs are multiplied by.
static void row_scales(const pn_pool *p, int64_t z, int64_t y, float *scale)
{
	double outer = (double)counted(p, 0, z) * counted(p, 1, y);
	for (int i = 0; i < p->axis[2].out; i++) {
		double n = outer * counted(p, 2, i);
		scale[i] = (float)(1 / (n > 1 ? n : 1));
	}
}

static pn_strip strip(const pn_axis *a, int64_t row, int channels)
{
	pn_strip s = {.axis = a, .x1 = a[2].out, .channels = channels};
	s.place[0] = pn_inside(&a[0], row / a[1].out, &s.from[0], &s.to[0]);
	s.place[1] = pn_inside(&a[1], row % a[1].out, &s.from[1], &s.to[1]);
	return s;
}

static ptrdiff_t row_offset(const pn_axis *a, int64_t row)
{
	return row / a[1].out * a[0].dst + row % a[1].out * a[1].dst;
}

static void forward_task(void *arg, int task, int thread)
{
	const pooling *t = arg;
	const pn_pool *p = t->p;
	const pn_kernels *k = t->d->kernels;
	int64_t image = task / t->blocks, first = task % t->blocks * t->block;
	float *scratch = t->d->threads.scratch(t->d->threads.pool, thread);
	for (int64_t r = first; r < pn_min(t->rows, first + t->block); r++) {
		pn_strip s = strip(p->axis, r, p->channels);
		s.dst = t->dst + image * p->dst_image + row_offset(p->axis, r);
		s.src = t->src + image * p->src_image;
		if (p->maximum) {
			k->maxima(&s);
			continue;
		}
		row_scales(p, r / p->axis[1].out, r % p->axis[1].out, scratch);
		k->means(&s, scratch);
	}
}

static double work_of(const pn_pool *p)
{
	const pn_axis *a = p->axis;
	return 0.1 * p->images * p->channels * a[0].out * a[1].out * a[2].out * a[0].taps * a[1].taps * a[2].taps;
}

void pn_pool_forward(const pn_device *d, const pn_pool *p, float *dst, const float *src)
{
	pooling t = {.d = d, .p = p, .dst = dst, .src = src, .rows = (int64_t)p->axis[0].out * p->axis[1].out};
	if (p->images == 0 || t.rows == 0)
		return;
	t.blocks = pn_min(t.rows, pn_ceil(d->threads.count * 4, p->images));
	t.block = pn_ceil(t.rows, t.blocks);
	t.blocks = pn_ceil(t.rows, t.block);
	pn_run(d, forward_task, &t, (int)(p->images * t.blocks), work_of(p));
}

// spread adds what a mean gives back to its taps.
static void spread(const pn_kernels *k, const pn_strip *s, const float *grad, float *dst, const float *scale, float *part)
{
	const pn_axis *a = s->axis;
	int from, to;
	for (int x = 0; x < a[2].out; x++) {
		int64_t place = pn_inside(&a[2], x, &from, &to);
		for (int c = 0; c < s->channels; c++)
			part[c] = grad[x * a[2].dst + c] * scale[x];
		for (int z = s->from[0]; z < s->to[0]; z++)
			for (int y = s->from[1]; y < s->to[1]; y++)
				for (int j = from; j < to; j++)
					k->fold[0](dst + (s->place[0] + (int64_t)z * a[0].dilation) * a[0].src + (s->place[1] + (int64_t)y * a[1].dilation) * a[1].src +
					               (place + (int64_t)j * a[2].dilation) * a[2].src,
					           part, (size_t)s->channels);
	}
}

// backward_task computes some channels of an image's gradient.
static void backward_task(void *arg, int task, int thread)
{
	const pooling *t = arg;
	const pn_pool *p = t->p;
	const pn_axis *a = p->axis;
	const pn_kernels *k = t->d->kernels;
	int64_t image = task / t->parts;
	int channel = task % t->parts * t->width, channels = (int)pn_min(t->width, p->channels - channel);
	float *dst = t->dst + image * p->src_image + channel, *scale = t->d->threads.scratch(t->d->threads.pool, thread);
	for (int z = 0; z < a[0].in; z++)
		for (int y = 0; y < a[1].in; y++)
			for (int x = 0; x < a[2].in; x++)
				k->fill(dst + z * a[0].src + y * a[1].src + x * a[2].src, 0, (size_t)channels);
	pn_axis taken[3] = {a[0], a[1], a[2]};
	for (int i = 0; p->maximum && i < 3; i++)
		taken[i].src = t->x->axis[i];
	for (int64_t r = 0; r < t->rows; r++) {
		pn_strip s = strip(p->maximum ? taken : a, r, channels);
		const float *grad = t->grad + image * p->dst_image + channel + row_offset(a, r);
		if (p->maximum) {
			s.src = t->x->at + image * t->x->image + channel;
			k->route(&s, a, grad, dst + s.place[0] * a[0].src + s.place[1] * a[1].src);
			continue;
		}
		row_scales(p, r / a[1].out, r % a[1].out, scale);
		spread(k, &s, grad, dst, scale, scale + a[2].out);
	}
}

void pn_pool_backward(const pn_device *d, const pn_pool *p, float *dst, const float *grad, const pn_image *x)
{
	pooling t = {.d = d, .p = p, .dst = dst, .grad = grad, .x = x, .rows = (int64_t)p->axis[0].out * p->axis[1].out};
	if (p->images == 0 || p->channels == 0)
		return;
	t.width = (int)pn_ceil(pn_ceil(p->channels, pn_ceil(d->threads.count * 2, p->images)), d->kernels->lanes) * d->kernels->lanes;
	t.parts = (int)pn_ceil(p->channels, t.width);
	pn_run(d, backward_task, &t, p->images * t.parts, 2 * work_of(p));
}
