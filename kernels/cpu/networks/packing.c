//go:build cgo && linux && amd64

#include "packing.h"

#include <string.h>

size_t pn_filter_floats(const pn_device *d, const pn_filter *f)
{
	int lanes = d->kernels->lanes;
	if (f->depthwise)
		return taps_of(f) * (size_t)padded(f->groups, lanes);
	return (size_t)f->groups * taps_of(f) * (size_t)f->in * (size_t)padded(f->out, lanes / 2);
}

// packing is the packing of a filter for all threads: a task is a panel of a group or, of a depthwise filter, a tap.
typedef struct packing {
	const pn_device *d;
	const pn_filter *f;
	const float *weights;
	const ptrdiff_t *stride;
	int panels;
} packing;

// tap_at is where the weights of a tap begin.
static const float *tap_at(const packing *p, int tap)
{
	const int *kernel = p->f->kernel;
	return p->weights + tap % kernel[2] * p->stride[5] + tap / kernel[2] % kernel[1] * p->stride[4] + tap / kernel[2] / kernel[1] * p->stride[3];
}

static void depthwise_task(void *arg, int tap, int thread)
{
	(void)thread;
	const packing *p = arg;
	int width = padded(p->f->groups, p->d->kernels->lanes);
	float *d = p->f->weights + (size_t)tap * width;
	pn_copy_matrix(p->d->kernels, d, width, tap_at(p, tap), 0, p->stride[0], 1, p->f->groups);
	memset(d + p->f->groups, 0, (size_t)(width - p->f->groups) * sizeof *d);
}

static void panel_task(void *arg, int task, int thread)
{
	(void)thread;
	const packing *p = arg;
	const pn_kernels *k = p->d->kernels;
	int group = task / p->panels, col = task % p->panels * 2 * k->lanes;
	int width = panel_width(k, p->f->out - col), cols = (int)pn_min(width, p->f->out - col), taps = (int)taps_of(p->f);
	for (int t = 0; t < taps; t++) {
		float *d = packed(k, p->f, group, (size_t)t, 0, col);
		pn_copy_matrix(k, d, width, tap_at(p, t) + group * p->stride[0] + col * p->stride[1], p->stride[2], p->stride[1], p->f->in, cols);
		for (int i = 0; cols < width && i < p->f->in; i++)
			memset(d + (size_t)i * width + cols, 0, (size_t)(width - cols) * sizeof *d);
	}
}

void pn_filter_pack(const pn_device *d, const pn_filter *f, const float *weights, const ptrdiff_t *stride)
{
	packing p = {d, f, weights, stride, (int)pn_ceil(f->out, 2 * d->kernels->lanes)};
	double work = (double)pn_filter_floats(d, f);
	if (f->depthwise)
		pn_run(d, depthwise_task, &p, (int)taps_of(f), work);
	else
		pn_run(d, panel_task, &p, f->groups * p.panels, work);
}
