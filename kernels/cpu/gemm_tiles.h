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

#include "expand.h"
#include "norm.h"
#include "tile_ends.h"

#include <string.h>

static void tile(int rows, int pairs, const void *a, const pf_bf16 *b, float *c, const char *ahead, int step);
static void pack(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs);

enum { PAIR_BYTES = PF_PANEL * 2 * sizeof(pf_bf16) };
// A run of so few tiles with codes takes a panel in pieces that stay in the first-level cache: expanding
// all of it first would cost as much as the product, and leave memory idle meanwhile.
enum { FEW_TILES = 4, PIECE_PAIRS = 64 };

static void cut(pf_product *g, int threads) { cut_panels(g, threads, (size_t)g->l->pairs * PAIR_BYTES); }

// finish ends the product of a tile with a panel.
static void finish(const pf_product *g, float *c, int tile, int panel)
{
	const float *scale = g->l->scale;
	int rows = pf_tile_height(g->plan, tile);
	for (int i = 0; scale && i < rows; i++)
		for (int j = 0; j < PF_PANEL; j++)
			c[PF_PANEL * i + j] *= scale[panel * PF_PANEL + j];
	end_tile(g, c, tile, panel);
}

static void multiply_few(const pf_product *g, pf_part k)
{
	const pf_linear *l = g->l;
	const int code_bytes = (int)pf_code_bytes(l);
	_Alignas(64) pf_bf16 piece[PIECE_PAIRS * PF_PANEL * 2];
	_Alignas(64) float c[FEW_TILES][PF_TILE_ROWS * PF_PANEL];
	int step = code_bytes / (k.tile1 - k.tile0);
	for (int p = k.panel0; p < k.panel1; p++) {
		memset(c, 0, (size_t)(k.tile1 - k.tile0) * sizeof *c);
		for (int pair = 0; pair < l->pairs; pair += PIECE_PAIRS) {
			int pairs = pf_min(PIECE_PAIRS, l->pairs - pair);
			const uint8_t *codes = l->codes + ((size_t)p * l->pairs + pair) * code_bytes;
			expand(piece, l, p, pair, pairs);
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
	int pairs = l->pairs, pair_bytes = l->codes ? (int)pf_code_bytes(l) : PAIR_BYTES, tiles = k.tile1 - k.tile0;
	size_t panel_bytes = (size_t)pairs * pair_bytes, panel_size = (size_t)pairs * PF_PANEL * 2;
	const char *weights = l->codes ? (const char *)l->codes : (const char *)l->weights;
	pf_bf16 *room = scratch; // for codes: the group's panels
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
					expand((pf_bf16 *)b, l, p, 0, pairs);
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
