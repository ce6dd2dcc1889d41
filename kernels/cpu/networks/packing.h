// How weights of a convolution are packed: in panels of outputs, or of a depthwise one in rows of channels.

#include "internal.h"

#include <string.h>

static int padded(int n, int to) { return (int)pn_ceil(n, to) * to; }

// panel_width is the floats of a row of a panel from which on there are `left` columns.
static int panel_width(const pn_kernels *k, int left) { return (int)pn_min(2 * k->lanes, padded(left, k->lanes / 2)); }

static size_t taps_of(const pn_filter *f) { return (size_t)f->kernel[0] * f->kernel[1] * f->kernel[2]; }

size_t pn_filter_floats(const pn_device *d, const pn_filter *f)
{
	int lanes = d->kernels->lanes;
	if (f->depthwise)
		return taps_of(f) * (size_t)padded(f->groups, lanes);
	return (size_t)f->groups * taps_of(f) * (size_t)f->in * (size_t)padded(f->out, lanes / 2);
}

// packed is where the weight of a tap, an input and an output of a group is.
static float *packed(const pn_kernels *k, const pn_filter *f, int group, size_t tap, int in, int out)
{
	size_t depth = taps_of(f) * (size_t)f->in, group_floats = depth * (size_t)padded(f->out, k->lanes / 2);
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
