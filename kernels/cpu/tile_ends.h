// Tasks and ends of products whose tiles are in vector registers, compiled once per instruction set: a source that
// includes this states PF_LANES (8 or 16) and its target first.

#include "epilogues.h"

#include <string.h>

// pf_prefetch fetches step bytes, at most two lines, into the second-level cache.
static inline __attribute__((always_inline)) void pf_prefetch(const char *p, int step)
{
	__builtin_prefetch(p, 0, 2);
	if (step > 64)
		__builtin_prefetch(p + 64, 0, 2);
}

// Panels of one task together stay in the second-level cache while tiles pass by.
enum { GROUP_BYTES = 256 << 10 };
// Tasks that each thread should find, so that all end together.
enum { TASKS_PER_THREAD = 12 };
// How far ahead of itself a lone tile fetches weights.
enum { NEAR_BYTES = 16 << 10 };
// Tiles that a task should have at the least, for a panel to be worth its way to the cache.
enum { RUN_TILES = 8 };
// cut_panels sets the tasks of a product with panels of so many bytes.
static void cut_panels(pf_product *g, int threads, size_t panel_bytes)
{
	int panels = g->l->panels, wanted = threads * TASKS_PER_THREAD;
	int most_runs = pf_max(1, g->plan.tiles / RUN_TILES);
	int group = pf_max(1, pf_min((int)(GROUP_BYTES / panel_bytes), panels * most_runs / wanted));
	g->groups = pf_ceil(panels, group);
	g->runs = pf_min(pf_ceil(wanted, g->groups), most_runs);
}

// end_activation writes the activation, 16 columns of gated matrices and 32 of others, to rows, or into the packed tiles
// of the next product, where zeros come after the last, to the end of the tile.
static void end_activation(const pf_product *g, const float *c, int tile, int panel)
{
	pf_bf16 part[PF_TILE_ROWS * PF_PANEL];
	int rows = pf_tile_height(g->plan, tile), width = g->l->gated ? PF_PANEL / 2 : PF_PANEL;
	if (g->end == PF_SWIGLU)
		swiglu(part, c, rows);
	else if (g->end == PF_GEGLU)
		geglu(part, c, g->gelu, rows);
	else
		gelu(part, c, pf_panel_bias(g->l, panel), g->gelu, rows);
	if (g->as_rows) {
		pf_bf16 *dst = (pf_bf16 *)g->dst + pf_tile_row(g->plan, tile) * g->stride + (size_t)panel * width;
		for (int i = 0; i < rows; i++)
			memcpy(dst + i * g->stride, part + i * width, (size_t)width * sizeof *part);
		return;
	}
	int pair = panel * width / 2, pairs = panel == g->l->panels - 1 ? (int)g->stride - pair : width / 2;
	g->ops->pack((void *)pf_tile_at(g->ops, g->dst, (int)g->stride, tile), pair, part, (size_t)width, rows, width, pairs);
}

static void activate(const pf_product *g, pf_bf16 *dst, const float *c)
{
	int width = g->l->gated ? PF_PANEL / 2 : PF_PANEL;
	for (int p = 0; p < g->l->panels; p++, dst += width, c += PF_PANEL) {
		if (g->end == PF_SWIGLU)
			swiglu(dst, c, 1);
		else if (g->end == PF_GEGLU)
			geglu(dst, c, g->gelu, 1);
		else
			gelu(dst, c, NULL, g->gelu, 1);
	}
}

// end_tile ends the product of a tile with a panel, c [rows][PF_PANEL].
static void end_tile(const pf_product *g, const float *c, int tile, int panel)
{
	const pf_linear *l = g->l;
	int rows = pf_tile_height(g->plan, tile), cols = pf_panel_cols(l, panel);
	size_t at = pf_tile_row(g->plan, tile) * g->stride + (size_t)panel * PF_PANEL;
	switch (g->end) {
	case PF_STORE_BF16:
		store_bf16((pf_bf16 *)g->dst + at, g->stride, c, pf_panel_bias(l, panel), rows, cols);
		break;
	case PF_STORE_F32:
		store_f32((float *)g->dst + at, g->stride, c, rows, cols);
		break;
	case PF_ADD_F32:
		add_f32((float *)g->dst + at, g->stride, c, pf_panel_bias(l, panel), rows, cols);
		break;
	case PF_SWIGLU:
	case PF_GEGLU:
	case PF_GELU:
		end_activation(g, c, tile, panel);
	}
}
