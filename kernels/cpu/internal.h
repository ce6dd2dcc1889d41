// What the sources of the matrix operations share: the functions of one instruction set, and packed
// activations.
#ifndef PREFILLONLY_INTERNAL_H
#define PREFILLONLY_INTERNAL_H

#include "prefillonly_kernels.h"

// Activations are packed in tiles of a few rows, in the layout that the instruction set multiplies:
//   for AVX-512 BF16, the rows' pairs side by side, as [pairs][16 rows] pairs of bf16;
//   for AVX2 and AVX-512, so too but as floats, [2*pairs][8 or 16 rows];
//   for AMX, as [pairs/16][32 rows][16 pairs].
//
// A tile's product with a panel is added to float c[rows][PF_PANEL], aligned to 64 bytes. Every element
// is one chain of sums over rising columns, whatever the number of rows of the tile, and however the
// columns are divided among calls.
typedef struct pf_ops {
	int rows;       // of the tallest tile
	int pair_bytes; // of a packed tile, for each pair of columns

	// pack writes columns [2*pair, 2*(pair+pairs)) of a packed tile from rows of k elements; beyond k
	// there are zeros. pair is a multiple of 8.
	void (*pack)(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs);

	// A thread calls begin before its first and end after its last tile of a task.
	void (*begin)(void);
	void (*end)(void);

	// With every pair, step bytes (at most two lines) at ahead, which moves on, are fetched into the
	// second-level cache: weights of a coming product.
	void (*tile)(int rows, int pairs, const void *a, const pf_bf16 *b, float *c, const char *ahead, int step);

	// expand sets dst to the values of n codes of FP8 E4M3; n is a multiple of 32.
	void (*expand)(pf_bf16 *dst, const uint8_t *codes, size_t n);

	// norm sets dst = RMSNorm(x; weight, eps).
	void (*norm)(pf_bf16 *dst, const float *x, const float *weight, float eps, int n);

	// Ends of a product. bias has PF_PANEL elements or is NULL; cols <= PF_PANEL are stored.
	void (*store_bf16)(pf_bf16 *dst, size_t stride, const float *c, const float *bias, int rows, int cols);
	void (*store_f32)(float *dst, size_t stride, const float *c, int rows, int cols);
	void (*add_f32)(float *x, size_t stride, const float *c, const float *bias, int rows, int cols);
	// swiglu sets dst [rows][16] = silu(c[..][0:16]) * c[..][16:32].
	void (*swiglu)(pf_bf16 *dst, const float *c, int rows);
} pf_ops;

static inline __attribute__((always_inline)) void pf_prefetch(const char *p, int step)
{
	__builtin_prefetch(p, 0, 2);
	if (step > 64)
		__builtin_prefetch(p + 64, 0, 2);
}

extern const pf_ops pf_ops_avx2, pf_ops_avx512, pf_ops_avx512_bf16, pf_ops_amx;

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

static inline int pf_min(int a, int b) { return a < b ? a : b; }
static inline int pf_max(int a, int b) { return a > b ? a : b; }
static inline int pf_ceil(int a, int b) { return (a + b - 1) / b; }

// pf_tile_bytes is the size of a packed tile.
static inline size_t pf_tile_bytes(const pf_ops *ops, int pairs)
{
	return (size_t)pairs * ops->pair_bytes;
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
// stride pairs apart, and zeros follow up to `pairs`. What lies `ahead` elements
// behind each row is fetched meanwhile, unless that is 0.
void pf_transpose(uint32_t *dst, size_t stride, const pf_bf16 *const *rows, int groups, int k, int pairs, size_t ahead);

// pf_pack_pairs and pf_pack_floats pack tiles of pairs with 16 slots, and of floats with `slots`.
void pf_pack_pairs(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs);
void pf_pack_floats(int slots, void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs);

#endif
