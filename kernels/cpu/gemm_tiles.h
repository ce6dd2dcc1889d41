// Products of instruction sets whose tiles are in vector registers, compiled once for each of them: a
// source that includes this states PF_LANES and its target first, and defines
//
//   tile  adds a packed tile's product with a panel to c [rows][PF_PANEL], aligned to 64 bytes. For every
//         pair it fetches `step` bytes at `ahead`, which moves on: weights of a coming product.
//   pack  as in pf_ops
//
// Rates of all products of a layer of Qwen2.5-0.5B with AVX-512 BF16, weights coming from memory, on one
// core of a Zen 5 server (CPU time; oneDNN 2.6.3's bare products beside), in GFLOP/s:
//   rows      1    4    8   14   16   32   64  150  512 2048
//   here     39  137  252  470  455  490  495  495  490  480
//   oneDNN   39  144  224  298  322  385  453  479  490  495
// The two units' 2 vdpbf16ps a cycle are about 500 at the clock of that run; up to 8 rows memory is the
// limit (35 GB/s). In FP8 a core reaches 0.84 of the bfloat16 rate with 1 row, 0.88 with 16, 0.92 with 64 and
// 0.95 with 150 (CPU time, MLP at Llama-3.1-8B's shape).

#include "epilogues.h"
#include "expand.h"
#include "norm.h"

#include <string.h>

static void tile(int rows, int pairs, const void *a, const pf_bf16 *b, float *c, const char *ahead, int step);
static void pack(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs);

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
enum { PAIR_BYTES = PF_PANEL * 2 * sizeof(pf_bf16) };
// A run of so few tiles in FP8 takes a panel in pieces that stay in the first-level cache: expanding
// all of it first would cost as much as the product, and leave memory idle meanwhile.
enum { FEW_TILES = 4, PIECE_PAIRS = 64 };

static void cut(pf_product *g, int threads)
{
	int panels = g->l->panels, wanted = threads * TASKS_PER_THREAD;
	int most_runs = pf_max(1, g->plan.tiles / RUN_TILES);
	int group = pf_max(1, pf_min((int)(GROUP_BYTES / ((size_t)g->l->pairs * PAIR_BYTES)), panels * most_runs / wanted));
	g->groups = pf_ceil(panels, group);
	g->runs = pf_min(pf_ceil(wanted, g->groups), most_runs);
}

// end_activation writes the activation, 16 columns of gated matrices and 32 of others, into the packed tiles of the next
// product; after the last come zeros to the end of the tile.
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
	int pair = panel * width / 2, pairs = panel == g->l->panels - 1 ? (int)g->stride - pair : width / 2;
	pack((void *)pf_tile_at(g->ops, g->dst, (int)g->stride, tile), pair, part, (size_t)width, rows, width, pairs);
}

// finish ends the product of a tile with a panel.
static void finish(const pf_product *g, float *c, int tile, int panel)
{
	const pf_linear *l = g->l;
	int rows = pf_tile_height(g->plan, tile), cols = pf_panel_cols(l, panel);
	size_t at = pf_tile_row(g->plan, tile) * g->stride + (size_t)panel * PF_PANEL;
	for (int i = 0; l->scale && i < rows; i++)
		for (int j = 0; j < PF_PANEL; j++)
			c[PF_PANEL * i + j] *= l->scale[panel * PF_PANEL + j];
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

static void multiply_few(const pf_product *g, pf_part k)
{
	const pf_linear *l = g->l;
	enum { CODE_BYTES = PAIR_BYTES / 2 };
	_Alignas(64) pf_bf16 piece[PIECE_PAIRS * PF_PANEL * 2];
	_Alignas(64) float c[FEW_TILES][PF_TILE_ROWS * PF_PANEL];
	int step = CODE_BYTES / (k.tile1 - k.tile0);
	for (int p = k.panel0; p < k.panel1; p++) {
		memset(c, 0, (size_t)(k.tile1 - k.tile0) * sizeof *c);
		for (int pair = 0; pair < l->pairs; pair += PIECE_PAIRS) {
			int pairs = pf_min(PIECE_PAIRS, l->pairs - pair);
			const uint8_t *codes = l->codes + ((size_t)p * l->pairs + pair) * CODE_BYTES;
			expand(piece, codes, (size_t)pairs * CODE_BYTES);
			for (int t = k.tile0; t < k.tile1; t++) {
				const char *a = (const char *)pf_tile_at(g->ops, g->a, l->pairs, t) + (size_t)pair * g->ops->pair_bytes;
				const char *ahead = (const char *)codes + NEAR_BYTES + (t - k.tile0) * step * pairs;
				tile(pf_tile_height(g->plan, t), pairs, a, piece, c[t - k.tile0], ahead, step);
			}
		}
		for (int t = k.tile0; t < k.tile1; t++)
			finish(g, c[t - k.tile0], t, p);
	}
}

static void multiply_run(const pf_product *g, pf_part k, void *scratch)
{
	const pf_linear *l = g->l;
	int pairs = l->pairs, pair_bytes = l->codes ? PAIR_BYTES / 2 : PAIR_BYTES, tiles = k.tile1 - k.tile0;
	size_t panel_bytes = (size_t)pairs * pair_bytes, panel_size = (size_t)pairs * PF_PANEL * 2;
	const char *weights = l->codes ? (const char *)l->codes : (const char *)l->weights;
	pf_bf16 *room = scratch; // for FP8: the group's panels
	// While a tile passes over the group, its share of this thread's next group is fetched.
	// A tile alone has nothing to overlap with but its own coming lines.
	ptrdiff_t distance = tiles > 1 ? (k.next - k.panel0) * (ptrdiff_t)panel_bytes : NEAR_BYTES;
	int step = tiles > 1 && k.next < 0 ? 0 : pair_bytes / tiles;
	_Alignas(64) float c[PF_TILE_ROWS * PF_PANEL];
	for (int t = k.tile0; t < k.tile1; t++) {
		const void *a = pf_tile_at(g->ops, g->a, pairs, t);
		int rows = pf_tile_height(g->plan, t);
		size_t share = (size_t)(t - k.tile0) * step * pairs;
		for (int p = k.panel0; p < k.panel1; p++) {
			const char *stored = weights + p * panel_bytes;
			const pf_bf16 *b = (const pf_bf16 *)stored;
			if (l->codes) {
				b = room + (p - k.panel0) * panel_size;
				if (t == k.tile0)
					expand((pf_bf16 *)b, (const uint8_t *)stored, panel_size);
			}
			memset(c, 0, (size_t)rows * PF_PANEL * sizeof *c);
			tile(rows, pairs, a, b, c, step ? stored + distance + share : (const char *)b, step);
			finish(g, c, t, p);
		}
	}
}

static void multiply(const pf_product *g, pf_part k, void *scratch)
{
	if (g->l->codes && k.tile1 - k.tile0 <= FEW_TILES)
		multiply_few(g, k);
	else
		multiply_run(g, k, scratch);
}
