// Strips of depthwise convolutions whose kernels are 3 or 5 wide: of each row of taps an input is read once for all outputs
// that have it. Inputs beside the image count as 0.

#include "internal.h"
#include "lanes.h"

enum { MOST_WIDE = 5, MOST_ROWS = 25, MOST_OUTPUTS = 8 };

// band is a strip's rows of taps that lie in the input, at place 0 of the last axis, with the weights of their first taps.
typedef struct band {
	int rows;
	const float *at[MOST_ROWS], *weight[MOST_ROWS];
	ptrdiff_t src, dst, next_weight; // from a place, an output and a tap to the next one
	int in;                          // places of a row
	const float *init;
	const pn_ending *ending;
} band;

// across computes neighbouring outputs of a vector of channels: d is the first one's, and x the place of its first tap.
// Of a part of a vector the mask tells which; edge says that places may lie outside.
INLINE void across(const band *b, const int taps, const int step, const int outputs, const int part, const int edge, vm mask, float *d, int64_t x, int channel)
{
	vf acc[MOST_OUTPUTS], weight[MOST_WIDE];
#pragma GCC unroll 8
	for (int i = 0; i < outputs; i++)
		acc[i] = !b->init ? set(0) : part ? load_first(b->init + channel, mask) : load(b->init + channel);
	for (int r = 0; r < b->rows; r++) {
		const float *p = b->at[r] + x * b->src + channel, *q = b->weight[r] + channel;
#pragma GCC unroll 5
		for (int j = 0; j < taps; j++)
			weight[j] = load(q + j * b->next_weight);
#pragma GCC unroll 24
		for (int i = 0; i < (outputs - 1) * step + taps; i++, p += b->src) {
			vf v = edge && (x + i < 0 || x + i >= b->in) ? set(0) : part ? load_first(p, mask) : load(p);
#pragma GCC unroll 5
			for (int j = 0; j < taps; j++)
				if (i >= j && (i - j) % step == 0 && (i - j) / step < outputs)
					acc[(i - j) / step] = muladd(v, weight[j], acc[(i - j) / step]);
		}
	}
	if (b->ending && b->ending->shift) {
		const float *scale = b->ending->scale, *shift = b->ending->shift + channel;
		vf by = !scale ? set(1) : part ? load_first(scale + channel, mask) : load(scale + channel), more = part ? load_first(shift, mask) : load(shift);
#pragma GCC unroll 8
		for (int i = 0; i < outputs; i++)
			acc[i] = muladd(acc[i], by, more);
	}
#pragma GCC unroll 8
	for (int i = 0; i < outputs; i++, d += b->dst) {
		vf v = b->ending && b->ending->holds ? smaller(set(b->ending->high), larger(set(b->ending->low), acc[i])) : acc[i];
		if (part)
			store_first(d + channel, v, mask);
		else
			store(d + channel, v);
	}
}

// channels computes neighbouring outputs.
INLINE void channels(const band *b, const int taps, const int step, const int outputs, const int edge, float *d, int64_t x, int count)
{
	int c = 0;
	for (; c + PN_LANES <= count; c += PN_LANES)
		across(b, taps, step, outputs, 0, edge, first(0), d, x, c);
	if (c < count)
		across(b, taps, step, outputs, 1, edge, first(count - c), d, x, c);
}

// line computes the outputs [from, to) of a strip.
INLINE void line(const band *b, const int taps, const int step, const pn_strip *s)
{
	for (int i = s->x0, n; i < s->x1; i += n) {
		float *d = s->dst + i * b->dst;
		int64_t x = s->axis[2].base + (int64_t)i * step;
		int left = s->x1 - i, inside = x >= 0 && x + (pn_min(left, MOST_OUTPUTS) - 1) * step + taps <= b->in;
		if (left >= MOST_OUTPUTS && inside)
			channels(b, taps, step, n = MOST_OUTPUTS, 0, d, x, s->channels);
		else if (left >= MOST_OUTPUTS)
			channels(b, taps, step, n = MOST_OUTPUTS, 1, d, x, s->channels);
		else if (left >= 4)
			channels(b, taps, step, n = 4, 1, d, x, s->channels);
		else if (left >= 2)
			channels(b, taps, step, n = 2, 1, d, x, s->channels);
		else
			channels(b, taps, step, n = 1, 1, d, x, s->channels);
	}
}

static __attribute__((noinline)) void line_3_1(const band *b, const pn_strip *s) { line(b, 3, 1, s); }
static __attribute__((noinline)) void line_3_2(const band *b, const pn_strip *s) { line(b, 3, 2, s); }
static __attribute__((noinline)) void line_5_1(const band *b, const pn_strip *s) { line(b, 5, 1, s); }
static __attribute__((noinline)) void line_5_2(const band *b, const pn_strip *s) { line(b, 5, 2, s); }

// depthwise_rows is the function depthwise of pn_kernels where it can be, and tells whether that was so.
static int depthwise_rows(const pn_strip *s, const float *weights, const int *kernel, size_t stride, const float *init, const pn_ending *ending)
{
	const pn_axis *a = s->axis;
	if (a[2].dilation != 1 || (a[2].taps != 3 && a[2].taps != 5) || a[2].step > 2 || a[0].taps * a[1].taps > MOST_ROWS)
		return 0;
	band b = {.src = a[2].src, .dst = a[2].dst, .next_weight = a[2].weight_step * (ptrdiff_t)stride, .in = a[2].in, .init = init, .ending = ending};
	for (int z = s->from[0]; z < s->to[0]; z++)
		for (int y = s->from[1]; y < s->to[1]; y++, b.rows++) {
			size_t row = (size_t)(a[0].weight + z * a[0].weight_step) * kernel[1] + (a[1].weight + y * a[1].weight_step);
			b.at[b.rows] = s->src + (s->place[0] + (int64_t)z * a[0].dilation) * a[0].src + (s->place[1] + (int64_t)y * a[1].dilation) * a[1].src;
			b.weight[b.rows] = weights + (row * kernel[2] + a[2].weight) * stride;
		}
	if (a[2].taps == 3)
		(a[2].step == 1 ? line_3_1 : line_3_2)(&b, s);
	else
		(a[2].step == 1 ? line_5_1 : line_5_2)(&b, s);
	return 1;
}
