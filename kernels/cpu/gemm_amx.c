//go:build cgo && linux && amd64

// Matrix tiles with AMX: 32 rows by 32 columns in four tile registers, or 16 by 32 in two. One step
// multiplies 32 columns: up to 4 tile loads and 4 tdpbf16ps of 16 cycles each.

#include <immintrin.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")

#define PF_LANES 16
#include "amx.h"
#include "epilogues.h"
#include "expand.h"

// Of one step in a packed tile: 32 rows of 64 bytes; in a panel: 16 pairs of 32 columns.
enum { STEP_PAIRS = 16, A_ROW = 64, A_STEP = 32 * A_ROW, B_ROW = PF_PANEL * 4, B_STEP = STEP_PAIRS * B_ROW };

static inline void fetch_ahead(const char *ahead, int bytes)
{
	for (int i = 0; i < bytes; i += 64)
		__builtin_prefetch(ahead + i, 0, 2);
}

static void tile16(int steps, const char *a, const char *b, float *c, const char *ahead, int step)
{
	PF_TILE_LOAD(0, c, PF_PANEL * 4);
	PF_TILE_LOAD(1, c + 16, PF_PANEL * 4);
	for (int s = 0; s < steps; s++, a += A_STEP, b += B_STEP, ahead += step) {
		fetch_ahead(ahead, step);
		PF_TILE_LOAD(4, a, A_ROW);
		PF_TILE_LOAD(6, b, B_ROW);
		PF_TILE_LOAD(7, b + 64, B_ROW);
		PF_TILE_DP(0, 4, 6);
		PF_TILE_DP(1, 4, 7);
	}
	PF_TILE_STORE(0, c, PF_PANEL * 4);
	PF_TILE_STORE(1, c + 16, PF_PANEL * 4);
}

static void tile32(int steps, const char *a, const char *b, float *c, const char *ahead, int step)
{
	PF_TILE_LOAD(0, c, PF_PANEL * 4);
	PF_TILE_LOAD(1, c + 16, PF_PANEL * 4);
	PF_TILE_LOAD(2, c + 16 * PF_PANEL, PF_PANEL * 4);
	PF_TILE_LOAD(3, c + 16 * PF_PANEL + 16, PF_PANEL * 4);
	for (int s = 0; s < steps; s++, a += A_STEP, b += B_STEP, ahead += step) {
		fetch_ahead(ahead, step);
		PF_TILE_LOAD(4, a, A_ROW);
		PF_TILE_LOAD(6, b, B_ROW);
		PF_TILE_LOAD(7, b + 64, B_ROW);
		PF_TILE_LOAD(5, a + 16 * A_ROW, A_ROW);
		PF_TILE_DP(0, 4, 6);
		PF_TILE_DP(1, 4, 7);
		PF_TILE_DP(2, 5, 6);
		PF_TILE_DP(3, 5, 7);
	}
	PF_TILE_STORE(0, c, PF_PANEL * 4);
	PF_TILE_STORE(1, c + 16, PF_PANEL * 4);
	PF_TILE_STORE(2, c + 16 * PF_PANEL, PF_PANEL * 4);
	PF_TILE_STORE(3, c + 16 * PF_PANEL + 16, PF_PANEL * 4);
}

// Rows that are missing hold whatever the memory held: a row's sums never see another row.
static void tile(int rows, int pairs, const void *a, const pf_bf16 *b, float *c, const char *ahead, int step)
{
	(rows > 16 ? tile32 : tile16)(pairs / STEP_PAIRS, a, (const char *)b, c, ahead, step * STEP_PAIRS);
}

static void pack(void *tile, int pair, const pf_bf16 *src, size_t stride, int rows, int k, int pairs)
{
	for (int p = 0; p < pairs; p += 8) {
		char *dst = (char *)tile + (pair + p) / STEP_PAIRS * A_STEP + (pair + p) % STEP_PAIRS * 4;
		int left = pf_max(0, pf_min(16, k - 2 * p));
		for (int i = 0; i < rows; i++, dst += A_ROW) {
			if (left == 16) {
				memcpy(dst, src + i * stride + 2 * p, 32);
				continue;
			}
			memset(dst, 0, 32);
			memcpy(dst, src + i * stride + 2 * p, (size_t)left * sizeof *src);
		}
	}
}

const pf_ops pf_ops_amx = {
	.rows = 32, .pair_bytes = A_STEP / STEP_PAIRS, .pack = pack, .begin = pf_tiles_begin, .tile = tile, .end = pf_tiles_end,
	.expand = expand, .norm = norm, .store_bf16 = store_bf16, .store_f32 = store_f32, .add_f32 = add_f32, .swiglu = swiglu,
};
