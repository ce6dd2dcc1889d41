// How weights of a convolution are packed: in panels of outputs, or of a depthwise one in rows of channels.
#ifndef PREFILLONLY_NETWORKS_PACKING_H
#define PREFILLONLY_NETWORKS_PACKING_H

#include "internal.h"

static inline int padded(int n, int to) { return (int)pn_ceil(n, to) * to; }

// panel_width is the floats of a row of a panel from which on there are `left` columns.
static inline int panel_width(const pn_kernels *k, int left) { return (int)pn_min(2 * k->lanes, padded(left, k->lanes / 2)); }

static inline size_t taps_of(const pn_filter *f) { return (size_t)f->kernel[0] * f->kernel[1] * f->kernel[2]; }

// packed is where the weight of a tap, an input and an output of a group is.
static inline float *packed(const pn_kernels *k, const pn_filter *f, int group, size_t tap, int in, int out)
{
	size_t depth = taps_of(f) * (size_t)f->in, group_floats = depth * (size_t)padded(f->out, k->lanes / 2);
	int panel = out / (2 * k->lanes) * 2 * k->lanes;
	return f->weights + group * group_floats + panel * depth + (tap * f->in + in) * panel_width(k, f->out - panel) + out - panel;
}

#endif
