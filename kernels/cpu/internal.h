// What the sources of the matrix operations share: the functions of one instruction set, and packed
// activations.
#ifndef PREFILLONLY_INTERNAL_H
#define PREFILLONLY_INTERNAL_H

#include "prefillonly_kernels.h"

// pf_plan spreads rows over tiles: tile i begins at row `step`*i, or one further for each of the
// `taller` tiles before it, which have one row more; the last ends with the rows.
typedef struct pf_plan {
	int rows, tiles, step, taller;
} pf_plan;

// pf_end is what becomes of a product.
typedef enum pf_end {
	PF_STORE_BF16, // bf16 dst [rows][stride] = product + bias
	PF_STORE_F32,  // float dst [rows][stride] = product
	PF_ADD_F32,    // float dst [rows][stride] += product + bias
	PF_SWIGLU,     // packed tiles of `stride` pairs = silu(gate) * up, then zeros; or rows, see as_rows
	PF_GEGLU,      // the same with gelu
	PF_GELU,       // the same of gelu(product + bias)
} pf_end;

// pf_product is packed tiles times a packed matrix.
typedef struct pf_product {
	const struct pf_ops *ops;
	pf_plan plan;
	const void *a; // packed tiles
	const pf_linear *l;
	pf_end end;
	void *dst;
	size_t stride;
	int as_rows; // of the last three: they go to bf16 dst [rows][stride], which has room for whole panels
	const struct pf_gelu *gelu; // of PF_GEGLU and PF_GELU
	pf_pool *pool;

	// Tasks, set by cut: runs of tiles by groups of panels.
	int runs, groups;
	int tiles_stay; // whether consecutive tasks have the tiles in common, rather than the panels
} pf_product;

// pf_part is the tiles and panels of a task, of which there are some. The thread's next task begins
// with panel `next`, if that is not negative.
typedef struct pf_part {
	int tile0, tile1, panel0, panel1, next;
} pf_part;

// Activations are packed in tiles of a few rows, in the layout that the instruction set multiplies:
//   for AVX-512 BF16, the rows' pairs side by side, as [pairs][16 rows] pairs of bf16;
//   for AVX2 and AVX-512, so too but as floats, [2*pairs][8 or 16 rows];
//   for AMX, as [pairs/16][32 rows][16 pairs].
// For int8 they are quantised row by row: codes lie in words of 2 (16 bits each, for AVX2) or 4 (bytes of code + 128,
// for VNNI), as [words][8 or 16 rows], for AMX as [words/16][32 rows][16 words] of 4 bytes; after them are the rows' scales.
//
// Every element of a product is one chain of sums over rising columns, whatever the number of rows of
// the tile, and however the columns are divided among passes.
typedef struct pf_ops {
	int rows;       // of the tallest tile
	int whole;      // whether all tiles but the last are of that height, rather than all about as tall
	int pair_bytes; // of a packed tile, for each pair of columns
	int more_bytes; // of a packed tile, beside
	int group;      // columns of an int8 matrix that lie together; 0 of instruction sets for bf16
	int offset;     // what is added to activations' codes

	// pack writes columns [2*pair, 2*(pair+pairs)) of a packed tile from rows of k elements; beyond k
	// there are zeros. pair is a multiple of 8. For int8 it has to be all columns.
	void (*pack)(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs);

	// norm sets dst to row x of rows, normalised as they say. room is for a row of floats.
	void (*norm)(pf_bf16 *dst, const float *x, const pf_rows *rows, float *room);

	// add_norm adds row x of rows, whose norm is PF_RMS_NORM, to dst.
	void (*add_norm)(float *dst, const float *x, const pf_rows *rows);

	// layer_norm sets dst to row x of rows, whose norm is PF_LAYER_NORM. It may be x.
	void (*layer_norm)(float *dst, const float *x, const pf_rows *rows);

	// activate writes the activation of one row of whole panels, 16 columns of each of a gated matrix and 32 of others. Biases are in it.
	void (*activate)(const struct pf_product *g, pf_bf16 *dst, const float *c);

	// cut sets the product's tasks, for so many threads.
	void (*cut)(pf_product *g, int threads);

	// multiply runs a task. scratch is aligned to a page: PF_MULTIPLY_BYTES, or for codes all of a thread's.
	void (*multiply)(const pf_product *g, pf_part part, void *scratch);
} pf_ops;

// pf_gelu approximates the share of the normal distribution below x, or what tanh makes of it, by
// 0.5 + c * sum of terms[i] c^2i, where c is x clamped to +-limit, at which the sum is +-0.5: minimax for x times it, which
// is off by 8e-5, a fortieth of what bf16 tells apart at 1.
typedef struct pf_gelu {
	float limit, terms[8];
} pf_gelu;

extern const pf_gelu pf_gelu_erf, pf_gelu_tanh;

#define PF_MULTIPLY_BYTES ((size_t)3 << 19)

extern const pf_ops pf_ops_avx2, pf_ops_avx512, pf_ops_avx512_bf16, pf_ops_amx;
extern const pf_ops pf_ops_int8_avx2, pf_ops_int8_avx_vnni, pf_ops_int8_avx512_vnni, pf_ops_int8_amx;

enum { PF_TILE_ROWS = 32 }; // of the tallest tile of any instruction set

static inline const pf_ops *pf_ops_of(pf_isa isa)
{
	switch (isa) {
	case PF_AMX:
		return &pf_ops_amx;
	case PF_AVX512_BF16:
		return &pf_ops_avx512_bf16;
	case PF_AVX512:
		return &pf_ops_avx512;
	default:
		return &pf_ops_avx2;
	}
}

// pf_ops_int8 are those of PF_INT8 for an instruction set, with what more this processor has.
const pf_ops *pf_ops_int8(pf_isa isa);

static inline const pf_ops *pf_ops_for(pf_isa isa, const pf_linear *l) { return l->kind == PF_INT8 ? pf_ops_int8(isa) : pf_ops_of(isa); }

static inline int pf_min(int a, int b) { return a < b ? a : b; }
static inline int pf_max(int a, int b) { return a > b ? a : b; }
static inline int pf_ceil(int a, int b) { return (a + b - 1) / b; }

// pf_tile_bytes is the size of a packed tile.
static inline size_t pf_tile_bytes(const pf_ops *ops, int pairs)
{
	return (size_t)pairs * ops->pair_bytes + (size_t)ops->more_bytes;
}

static inline const void *pf_tile_at(const pf_ops *ops, const void *tiles, int pairs, int tile)
{
	return (const char *)tiles + pf_tile_bytes(ops, pairs) * (size_t)tile;
}

// pf_plan_rows takes the fewest tiles.
static inline pf_plan pf_plan_rows(const pf_ops *ops, int rows)
{
	int tiles = pf_ceil(rows, ops->rows);
	if (ops->whole)
		return (pf_plan){rows, tiles, ops->rows, 0};
	return (pf_plan){rows, tiles, rows / tiles, rows % tiles};
}

static inline int pf_tile_row(pf_plan p, int tile) { return pf_min(p.rows, p.step * tile + pf_min(tile, p.taller)); }
static inline int pf_tile_height(pf_plan p, int tile) { return pf_tile_row(p, tile + 1) - pf_tile_row(p, tile); }

// pf_panel_bias is NULL where there is none.
static inline const float *pf_panel_bias(const pf_linear *l, int panel) { return l->bias ? l->bias + panel * PF_PANEL : NULL; }

static inline int pf_panel_cols(const pf_linear *l, int panel) { return pf_min(PF_PANEL, l->out - panel * PF_PANEL); }

// pf_transpose sets dst[j][i] = pair j of rows[i], for 8*groups rows of k elements; dst rows are
// stride pairs apart, and zeros follow up to `pairs`. What lies `ahead` elements
// behind each row is fetched meanwhile, unless that is 0.
void pf_transpose(uint32_t *dst, size_t stride, const pf_bf16 *const *rows, int groups, int k, int pairs, size_t ahead);

// pf_pack_pairs and pf_pack_floats pack tiles of pairs with 16 slots, and of floats with `slots`.
void pf_pack_pairs(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs);
void pf_pack_floats(int slots, void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs);

#endif
