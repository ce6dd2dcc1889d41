// Products of int8 matrices with activations quantised row by row, compiled once for each instruction set. A source
// that includes this states PF_LANES and its target first, and defines
//
//   ROWS, SLOTS  of a tile, and of its words side by side
//   code         what an activation's code is stored as: int16_t, or uint8_t for code + 128; a word of 4 bytes is a
//                GROUP of columns
//   CODE_OFFSET  what is added to a code
//   WEIGHT_BYTES that make a vector of PF_LANES words
//   load_codes   loads a vector of weights
//   dot          adds to each lane the products of two words
//
// Sums are exact in 32 bits: any order gives the same.

#include "int8_rows.h"
#include "norm.h"
#include "tile_ends.h"

enum {
	GROUP = 4 / sizeof(code),
	STEP_BYTES = PF_PANEL * GROUP,     // of a panel, for each word
	VECTORS = PF_PANEL / PF_LANES / 2, // passes over a panel, two vectors wide
	CHUNK = 256,                       // columns that are quantised before they are packed
};

static float *scales_of(const void *tile, int pairs) { return (float *)((char *)tile + (size_t)pairs * 2 / GROUP * SLOTS * 4); }

static void pack(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs)
{
	(void)pair; // 0
	float *scales = scales_of(tile, pairs);
	code codes[SLOTS][CHUNK];
	const pf_bf16 *addresses[SLOTS];
	for (int i = 0; i < SLOTS; i++) {
		addresses[i] = (const pf_bf16 *)codes[pf_min(i, rows - 1)];
		scales[i] = i < rows ? row_scale(src + i * stride, k) : 0;
	}
	for (int from = 0; from < 2 * pairs; from += CHUNK) {
		int n = pf_max(0, pf_min(CHUNK, k - from)), words = pf_min(CHUNK, 2 * pairs - from) / GROUP;
		if (n < CHUNK)
			memset(codes, 0, sizeof codes);
		for (int i = 0; i < rows; i++)
			quantise(codes[i], src + i * stride + from, scales[i], n);
		pf_transpose((uint32_t *)tile + (size_t)(from / GROUP) * SLOTS, SLOTS, addresses, SLOTS / 8, 2 * words, words, 0);
	}
}

// part_of_tile sets two vectors of each row of c.
static inline __attribute__((always_inline)) void part_of_tile(const int rows, int words, const int32_t *a, const uint8_t *b, const int32_t *start,
                                                               float *c, const float *scale, const float *row_scales, const char *ahead, int step)
{
	vi acc[ROWS][2];
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++) {
		memcpy(&acc[i][0], start, sizeof(vi));
		memcpy(&acc[i][1], start + PF_LANES, sizeof(vi));
	}
	for (int w = 0; w < words; w++, a += SLOTS, b += STEP_BYTES, ahead += step) {
		pf_prefetch(ahead, step);
		vi b0 = load_codes(b), b1 = load_codes(b + WEIGHT_BYTES);
#pragma GCC unroll 14
		for (int i = 0; i < rows; i++) {
			vi x = (vi){} + a[i];
			acc[i][0] = dot(acc[i][0], x, b0);
			acc[i][1] = dot(acc[i][1], x, b1);
		}
	}
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < 2; j++)
			vf_store(c + PF_PANEL * i + j * PF_LANES, __builtin_convertvector(acc[i][j], vf) * vf_load(scale + j * PF_LANES) * row_scales[i]);
}

#define TILE(n) \
	case n: \
		for (int v = 0; v < VECTORS; v++) \
			part_of_tile(n, words, a, b + 2 * WEIGHT_BYTES * v, start + 2 * PF_LANES * v, c + 2 * PF_LANES * v, scale + 2 * PF_LANES * v, row_scales, \
			             ahead, v ? 0 : step); \
		break;

// tile sets c [rows][PF_PANEL] to a packed tile's product with a panel.
static void tile(int rows, int words, const int32_t *a, const uint8_t *b, const int32_t *start, float *c, const float *scale, const float *row_scales,
                 const char *ahead, int step);

static void cut(pf_product *g, int threads) { cut_panels(g, threads, (size_t)g->l->pairs * 2 * PF_PANEL); }

static void multiply(const pf_product *g, pf_part k, void *scratch)
{
	(void)scratch;
	const pf_linear *l = g->l;
	int words = l->pairs * 2 / GROUP, tiles = k.tile1 - k.tile0;
	size_t panel_bytes = (size_t)words * STEP_BYTES;
	// What is fetched meanwhile is as in gemm_tiles.h.
	ptrdiff_t distance = tiles > 1 ? (k.next - k.panel0) * (ptrdiff_t)panel_bytes : NEAR_BYTES;
	int step = tiles > 1 && k.next < 0 ? 0 : STEP_BYTES / tiles;
	_Alignas(64) float c[PF_TILE_ROWS * PF_PANEL];
	for (int t = k.tile0; t < k.tile1; t++) {
		const void *a = pf_tile_at(g->ops, g->a, l->pairs, t);
		const float *row_scales = scales_of(a, l->pairs);
		size_t share = (size_t)(t - k.tile0) * step * words;
		for (int p = k.panel0; p < k.panel1; p++) {
			const uint8_t *b = l->codes + p * panel_bytes;
			const char *ahead = (const char *)b + (step ? distance + (ptrdiff_t)share : 0);
			tile(pf_tile_height(g->plan, t), words, a, b, l->starts + p * PF_PANEL, c, l->scale + p * PF_PANEL, row_scales, ahead, step);
			end_tile(g, c, t, p);
		}
	}
}

#define INT8_OPS { \
	.rows = ROWS, .pair_bytes = SLOTS * 8 / GROUP, .more_bytes = SLOTS * 4, .group = GROUP, .offset = CODE_OFFSET, .pack = pack, .norm = norm, .layer_norm = layer_norm, .add_norm = add_norm, .activate = activate, \
	.cut = cut, .multiply = multiply, \
}
