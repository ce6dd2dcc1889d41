// What the sources of the matrix operations share: the functions of one instruction set, and packed
// activations.
#ifndef PREFILLONLY_INTERNAL_H
#define PREFILLONLY_INTERNAL_H

#include "prefillonly_kernels.h"

// Activations are packed in tiles of a few rows: for every pair of columns the rows' pairs lie side
// by side, as [pairs][slots] pairs of bf16, or as [2*pairs][slots] floats where the instruction set
// multiplies floats (wide).
//
// A tile's product with a panel is float c[rows][PF_PANEL], aligned to 64 bytes. Every element is one
// chain of sums over rising columns, whatever the number of rows of the tile.
typedef struct pf_ops {
	int rows;  // of the tallest tile
	int slots; // multiple of 8
	int wide;

	void (*tile)(int rows, int pairs, const void *a, const pf_bf16 *b, float *c);

	// norm sets dst = RMSNorm(x; weight, eps).
	void (*norm)(pf_bf16 *dst, const float *x, const float *weight, float eps, int n);

	// Ends of a product. bias has PF_PANEL elements or is NULL; cols <= PF_PANEL are stored.
	void (*store_bf16)(pf_bf16 *dst, size_t stride, const float *c, const float *bias, int rows, int cols);
	void (*store_f32)(float *dst, size_t stride, const float *c, int rows, int cols);
	void (*add_f32)(float *x, size_t stride, const float *c, const float *bias, int rows, int cols);
	// swiglu sets dst [rows][16] = silu(c[..][0:16]) * c[..][16:32].
	void (*swiglu)(pf_bf16 *dst, const float *c, int rows);
} pf_ops;

extern const pf_ops pf_ops_avx2, pf_ops_avx512, pf_ops_avx512_bf16;

static inline const pf_ops *pf_ops_of(pf_isa isa)
{
	switch (isa) {
	case PF_AMX:
	case PF_AVX512_BF16:
		return &pf_ops_avx512_bf16;
	case PF_AVX512:
		return &pf_ops_avx512;
	default:
		return &pf_ops_avx2;
	}
}

static inline int pf_min(int a, int b) { return a < b ? a : b; }
static inline int pf_max(int a, int b) { return a > b ? a : b; }
static inline int pf_ceil(int a, int b) { return (a + b - 1) / b; }

// pf_tile_bytes is the size of a packed tile.
static inline size_t pf_tile_bytes(const pf_ops *ops, int pairs)
{
	return (size_t)pairs * ops->slots * (ops->wide ? 8 : 4);
}

// pf_plan spreads rows over the fewest tiles, evenly: the first `taller` have one row more.
typedef struct pf_plan {
	int tiles, height, taller;
} pf_plan;

static inline pf_plan pf_plan_rows(const pf_ops *ops, int rows)
{
	int tiles = pf_ceil(rows, ops->rows);
	return (pf_plan){tiles, rows / tiles, rows % tiles};
}

static inline int pf_tile_height(pf_plan p, int tile) { return p.height + (tile < p.taller); }
static inline int pf_tile_row(pf_plan p, int tile) { return p.height * tile + pf_min(tile, p.taller); }

// pf_transpose sets dst[j][i] = pair j of rows[i], for 8*groups rows of k elements; dst rows are
// stride pairs apart, and zeros follow up to `pairs`. pf_transpose_wide does so for floats: dst[j][i] =
// element j.
void pf_transpose(uint32_t *dst, size_t stride, const pf_bf16 *const *rows, int groups, int k, int pairs);
void pf_transpose_wide(float *dst, size_t stride, const pf_bf16 *const *rows, int groups, int k, int pairs);

#endif
