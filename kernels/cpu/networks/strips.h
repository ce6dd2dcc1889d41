// Strips of outputs of depthwise convolutions and of pools: vectors of channels, several outputs at a time.

#include "depthwise.h"

enum { ACROSS = 8 };    // outputs at a time

// window is the taps that outputs of a strip have in common, for some channels.
typedef struct window {
	const pn_strip *s;
	int x, from, to; // the first output, and its taps of the last axis
	int channel;
	vm mask; // of the last channels, where there are fewer than a vector
	const float *weights;
	const int *kernel;
	size_t stride;
} window;

INLINE vf get(const window *w, const int part, const float *p) { return part ? load_first(p, w->mask) : load(p); }

// EACH_TAP does START for each tap (z, y, j), and then TAP for each output i, whose input there is v.
#define EACH_TAP(w, outputs, START, TAP) \
	do { \
		const pn_strip *s = (w)->s; \
		const pn_axis *ax = s->axis; \
		ptrdiff_t across = (ptrdiff_t)ax[2].step * ax[2].src; \
		for (int z = s->from[0]; z < s->to[0]; z++) \
			for (int y = s->from[1]; y < s->to[1]; y++) { \
				const float *p = s->src + (s->place[0] + (int64_t)z * ax[0].dilation) * ax[0].src + \
				                 (s->place[1] + (int64_t)y * ax[1].dilation) * ax[1].src + \
				                 (ax[2].base + (int64_t)(w)->x * ax[2].step + (int64_t)(w)->from * ax[2].dilation) * ax[2].src + (w)->channel; \
				for (int j = (w)->from; j < (w)->to; j++, p += ax[2].dilation * ax[2].src) { \
					START \
					_Pragma("GCC unroll 8") for (int i = 0; i < outputs; i++) \
					{ \
						vf v = get(w, part, p + i * across); \
						TAP \
					} \
				} \
			} \
	} while (0)

INLINE const float *tap_weight(const window *w, int z, int y, int j)
{
	const pn_axis *ax = w->s->axis;
	size_t number = ((size_t)(ax[0].weight + z * ax[0].weight_step) * w->kernel[1] + (ax[1].weight + y * ax[1].weight_step)) * w->kernel[2] +
	                (ax[2].weight + j * ax[2].weight_step);
	return w->weights + number * w->stride + w->channel;
}

INLINE void put(const window *w, const int outputs, const int part, const vf *acc)
{
	float *d = w->s->dst + w->x * w->s->axis[2].dst + w->channel;
#pragma GCC unroll 8
	for (int i = 0; i < outputs; i++, d += w->s->axis[2].dst)
		if (part)
			store_first(d, acc[i], w->mask);
		else
			store(d, acc[i]);
}

INLINE void depthwise_of(const window *w, const int outputs, const int part, const float *init, const pn_ending *ending)
{
	vf acc[ACROSS];
#pragma GCC unroll 8
	for (int i = 0; i < outputs; i++)
		acc[i] = init ? get(w, part, init + w->channel) : set(0);
	EACH_TAP(w, outputs, vf weight = load(tap_weight(w, z, y, j));, acc[i] = muladd(v, weight, acc[i]););
	if (ending && ending->shift) {
		vf by = ending->scale ? get(w, part, ending->scale + w->channel) : set(1), more = get(w, part, ending->shift + w->channel);
#pragma GCC unroll 8
		for (int i = 0; i < outputs; i++)
			acc[i] = muladd(acc[i], by, more);
	}
	if (ending && ending->holds)
#pragma GCC unroll 8
		for (int i = 0; i < outputs; i++)
			acc[i] = smaller(set(ending->high), larger(set(ending->low), acc[i]));
	put(w, outputs, part, acc);
}

INLINE void maxima_of(const window *w, const int outputs, const int part)
{
	vf acc[ACROSS];
#pragma GCC unroll 8
	for (int i = 0; i < outputs; i++)
		acc[i] = set(-__builtin_inff());
	EACH_TAP(w, outputs, , acc[i] = any_larger(acc[i], v););
	put(w, outputs, part, acc);
}

INLINE void means_of(const window *w, const int outputs, const int part, const float *scale)
{
	vf acc[ACROSS];
#pragma GCC unroll 8
	for (int i = 0; i < outputs; i++)
		acc[i] = set(0);
	EACH_TAP(w, outputs, , acc[i] = acc[i] + v;);
#pragma GCC unroll 8
	for (int i = 0; i < outputs; i++)
		acc[i] = acc[i] * set(scale[w->x + i]);
	put(w, outputs, part, acc);
}

// EACH_WINDOW calls CALL(outputs) for all outputs and channels of a strip: where the taps of neighbours all lie in
// the input for many outputs at a time, elsewhere one by one.
#define EACH_WINDOW(s, w, CALL) \
	for (int x = (s)->x0, outputs; x < (s)->x1; x += outputs) { \
		int last_from, last_to; \
		(w).x = x; \
		pn_inside(&(s)->axis[2], x, &(w).from, &(w).to); \
		outputs = 1; \
		for (int wide = ACROSS; wide > 1; wide /= 2) { \
			if (x + wide > (s)->x1) \
				continue; \
			pn_inside(&(s)->axis[2], x + wide - 1, &last_from, &last_to); \
			if (last_from == (w).from && last_to == (w).to) { \
				outputs = wide; \
				break; \
			} \
		} \
		for (int c = 0; c < (s)->channels; c += PN_LANES) { \
			(w).channel = c; \
			int left = (s)->channels - c; \
			(w).mask = first(left < PN_LANES ? left : PN_LANES - 1); \
			switch (left < PN_LANES ? -outputs : outputs) { \
			case 8: CALL(8, 0); break; \
			case 4: CALL(4, 0); break; \
			case 2: CALL(2, 0); break; \
			case 1: CALL(1, 0); break; \
			case -8: CALL(8, 1); break; \
			case -4: CALL(4, 1); break; \
			case -2: CALL(2, 1); break; \
			default: CALL(1, 1); \
			} \
		} \
	}

static void depthwise(const pn_strip *s, const float *weights, const int *kernel, size_t stride, const float *init, const pn_ending *ending)
{
	if (depthwise_rows(s, weights, kernel, stride, init, ending))
		return;
	window w = {.s = s, .weights = weights, .kernel = kernel, .stride = stride};
#define CALL(n, part) depthwise_of(&w, n, part, init, ending)
	EACH_WINDOW(s, w, CALL)
#undef CALL
}

static void maxima(const pn_strip *s)
{
	window w = {.s = s};
#define CALL(n, part) maxima_of(&w, n, part)
	EACH_WINDOW(s, w, CALL)
#undef CALL
}

static void means(const pn_strip *s, const float *scale)
{
	window w = {.s = s};
#define CALL(n, part) means_of(&w, n, part, scale)
	EACH_WINDOW(s, w, CALL)
#undef CALL
}

// largest is the first of the largest inputs of an output, or of those that are NaN, and the bits of how far behind the
// output's first tap it lies.
typedef struct largest {
	vf value, offset;
	int begun;
} largest;

INLINE void take(largest *l, vf v, int32_t offset)
{
	vf o = set(((union { int32_t i; float f; }){.i = offset}).f);
	if (!l->begun) {
		*l = (largest){v, o, 1};
		return;
	}
	vf larger_offset = choose(is_less(l->value, v), o, l->offset);
	vf nan_offset = choose(is_not(l->value, l->value), l->offset, o);
	l->offset = choose(is_not(v, v), nan_offset, larger_offset);
	l->value = any_larger(l->value, v);
}

// route_of finds the place of each channel's largest input in the input's gradient, which lies as g says.
INLINE void route_of(const window *w, const int part, const pn_axis *g, int32_t *offset)
{
	largest l = {.begun = 0};
	EACH_TAP(w, 1, , (void)i; take(&l, v, (int32_t)(z * g[0].dilation * g[0].src + y * g[1].dilation * g[1].src + j * g[2].dilation * g[2].src)););
	store((float *)offset, l.offset);
}

static void route(const pn_strip *s, const pn_axis *g, const float *grad, float *at)
{
	window w = {.s = s};
	for (int x = s->x0; x < s->x1; x++) {
		int64_t place = pn_inside(&s->axis[2], x, &w.from, &w.to);
		w.x = x;
		if (w.from >= w.to || s->from[0] >= s->to[0] || s->from[1] >= s->to[1])
			continue;
		for (int c = 0; c < s->channels; c += PN_LANES) {
			int n = s->channels - c < PN_LANES ? s->channels - c : PN_LANES;
			int32_t offset[PN_LANES];
			w.channel = c;
			w.mask = first(n < PN_LANES ? n : PN_LANES - 1);
			if (n < PN_LANES)
				route_of(&w, 1, g, offset);
			else
				route_of(&w, 0, g, offset);
			float *d = at + place * g[2].src + c;
			for (int i = 0; i < n; i++)
				d[offset[i] + i] += grad[x * g[2].dst + c + i];
		}
	}
}
