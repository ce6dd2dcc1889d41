// Ends of products of AMX, a few rows at a time between tile operations. A source that includes this
// states PF_LANES and its target first, and defines SUMS_OF_CODES: whether sums are integers, to be scaled by row, too.

#include "internal.h"
#include "some_lanes.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

// Of one step in a packed tile: 32 rows of 64 bytes; in a panel: 16 words of 4 bytes of 32 columns.
enum { A_ROW = 64, A_STEP = 32 * A_ROW, B_ROW = PF_PANEL * 4, B_STEP = 16 * B_ROW };

// ending is a product in memory, of which some rows are ended.
typedef struct ending {
	const float *c; // of the next row
	char *dst;      // of the next row
	size_t stride;  // bytes
	const float *scale, *bias; // [PF_PANEL]
	const float *row_scale;    // of the next row, where sums are of codes
	const pf_gelu *gelu;
	uint32_t cols; // a bit for each
	int rows; // left
} ending;

// sums are 16 of the next row.
INLINE vf sums(const ending *e, int from)
{
	vf v = vf_load(e->c + from);
	return SUMS_OF_CODES ? __builtin_convertvector((vi)v, vf) : v;
}

// store_activation stores the activation of a row of a panel, where that is the end.
INLINE void store_activation(const pf_end end, void *dst, vf low, vf high, const pf_gelu *g)
{
	if (end == PF_SWIGLU)
		vf_narrow(dst, low / (1.0f + exp_of(-low)) * high);
	if (end == PF_GEGLU)
		vf_narrow(dst, vf_gelu(low, g) * high);
	if (end == PF_GELU)
		narrow_some(dst, ~0u, vf_gelu(low, g), vf_gelu(high, g));
}

static void activate(const pf_product *g, pf_bf16 *dst, const float *c)
{
	int width = g->l->gated ? PF_PANEL / 2 : PF_PANEL;
	for (int p = 0; p < g->l->panels; p++, dst += width, c += PF_PANEL)
		store_activation(g->end, dst, vf_load(c), vf_load(c + 16), g->gelu);
}

// end_row ends the next row.
INLINE void end_row(const pf_end end, ending *e)
{
	vf low = sums(e, 0) * vf_load(e->scale), high = sums(e, 16) * vf_load(e->scale + 16);
	if (SUMS_OF_CODES) {
		low *= *e->row_scale;
		high *= *e->row_scale++;
	}
	if (end == PF_STORE_BF16 || end == PF_ADD_F32 || end == PF_GELU) {
		low += vf_load(e->bias);
		high += vf_load(e->bias + 16);
	}
	if (end == PF_STORE_BF16)
		narrow_some(e->dst, e->cols, low, high);
	if (end == PF_STORE_F32 || end == PF_ADD_F32) {
		float *to = (float *)e->dst;
		if (end == PF_ADD_F32) {
			low += load_some(to, e->cols);
			high += load_some(to + 16, e->cols >> 16);
		}
		store_some(to, e->cols, low);
		store_some(to + 16, e->cols >> 16, high);
	}
	store_activation(end, e->dst, low, high, e->gelu);
	e->c += PF_PANEL;
	e->dst += e->stride;
	e->rows--;
}

// touch fetches two rows of where a product will go.
INLINE void touch(const pf_end end, const ending *e, int row)
{
	if (row >= e->rows)
		return;
	for (int i = 0; i < 2; i++) {
		const char *to = e->dst + (row + i) * e->stride;
		__builtin_prefetch(to, 0, 2);
		if (end == PF_ADD_F32 || end == PF_STORE_F32)
			__builtin_prefetch(to + 64, 0, 2);
	}
}

INLINE void end_rows(const pf_end end, ending *e, int most)
{
	for (; most > 0 && e->rows > 0; most--)
		end_row(end, e);
}

// ending_of is the whole ending of a tile's product with a panel in c.
static ending ending_of(const pf_product *g, const float *c, int tile, int panel)
{
	static const _Alignas(64) float zeros[PF_PANEL];
	static const _Alignas(64) float ones[PF_PANEL] = {[0 ... PF_PANEL - 1] = 1};
	const pf_linear *l = g->l;
	ending e = {.c = c, .rows = pf_tile_height(g->plan, tile)};
	e.scale = l->scale ? l->scale + panel * PF_PANEL : ones;
	e.row_scale = row_scales(g, tile);
	e.bias = l->bias ? l->bias + panel * PF_PANEL : zeros;
	e.cols = 0xffffffffu >> (PF_PANEL - pf_max(0, pf_panel_cols(l, panel)));
	e.gelu = g->gelu;
	int activation = g->end == PF_SWIGLU || g->end == PF_GEGLU || g->end == PF_GELU;
	if (activation && !g->as_rows) { // a panel is half a step, or one
		size_t at = l->gated ? (size_t)(panel / 2) * A_STEP + panel % 2 * (A_ROW / 2) : (size_t)panel * A_STEP;
		e.stride = A_ROW;
		e.dst = (char *)pf_tile_at(g->ops, g->dst, (int)g->stride, tile) + at;
		return e;
	}
	size_t size = g->end == PF_STORE_BF16 || activation ? sizeof(pf_bf16) : sizeof(float);
	int width = activation && l->gated ? PF_PANEL / 2 : PF_PANEL;
	e.stride = g->stride * size;
	e.dst = (char *)g->dst + (pf_tile_row(g->plan, tile) * g->stride + (size_t)panel * width) * size;
	return e;
}
