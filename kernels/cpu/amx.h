// The tile registers of AMX: eight of 16 rows of 64 bytes. With PF_AMX_EMULATED they are emulated, so that
// the code that uses them is tested on any machine.

#include <stdint.h>
#include <string.h>

// pf_tile_shapes is the operand of ldtilecfg.
typedef struct pf_tile_shapes {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} pf_tile_shapes;

#ifndef PF_AMX_EMULATED

// pf_tiles_begin makes all tiles 16 rows of 64 bytes.
static inline void pf_tiles_begin(void)
{
	_Alignas(64) pf_tile_shapes shapes = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		shapes.row_bytes[i] = 64;
		shapes.rows[i] = 16;
	}
	__asm__ volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
}

static inline void pf_tiles_end(void) { __asm__ volatile("tilerelease" : : : "memory"); }

// Tiles are named by literal numbers; strides count bytes.
#define PF_TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t : : : "memory")
#define PF_TILE_LOAD(t, p, stride) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(p), "r"((size_t)(stride)) : "memory")
// PF_TILE_STREAM loads what is not soon used again: it leaves the first-level cache to other data.
#define PF_TILE_STREAM(t, p, stride) \
	__asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t : : "r"(p), "r"((size_t)(stride)) : "memory")
#define PF_TILE_STORE(t, p, stride) \
	__asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(p), "r"((size_t)(stride)) : "memory")
// PF_TILE_DP adds to c, floats, the products of a, [16][32] bf16, and b, [16][16] pairs of bf16.
#define PF_TILE_DP(c, a, b) \
	__asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : : "memory")
// PF_TILE_DP_INT8 adds to c, int32, the products of a, [16][64] int8, and b, [16][16] groups of four int8.
#define PF_TILE_DP_INT8(c, a, b) \
	__asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : : "memory")

#else

static __thread char pf_tiles[8][16][64];

static inline void pf_tiles_begin(void) { memset(pf_tiles, 0xff, sizeof pf_tiles); }
static inline void pf_tiles_end(void) {}

static inline void pf_tile_move(int t, char *p, size_t stride, int store)
{
	for (int i = 0; i < 16; i++) {
		if (store)
			memcpy(p + i * stride, pf_tiles[t][i], 64);
		else
			memcpy(pf_tiles[t][i], p + i * stride, 64);
	}
}

static inline float pf_tile_element(int t, int row, int i)
{
	uint16_t h;
	memcpy(&h, pf_tiles[t][row] + 2 * i, sizeof h);
	uint32_t u = (uint32_t)h << 16;
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static inline void pf_tile_dp(int c, int a, int b)
{
	for (int i = 0; i < 16; i++) {
		float sum[16];
		memcpy(sum, pf_tiles[c][i], sizeof sum);
		for (int k = 0; k < 32; k++)
			for (int j = 0; j < 16; j++)
				sum[j] += pf_tile_element(a, i, k) * pf_tile_element(b, k / 2, 2 * j + k % 2);
		memcpy(pf_tiles[c][i], sum, sizeof sum);
	}
}

static inline void pf_tile_dp_int8(int c, int a, int b)
{
	for (int i = 0; i < 16; i++) {
		int32_t sum[16];
		memcpy(sum, pf_tiles[c][i], sizeof sum);
		for (int k = 0; k < 64; k++)
			for (int j = 0; j < 16; j++)
				sum[j] += (int8_t)pf_tiles[a][i][k] * (int8_t)pf_tiles[b][k / 4][4 * j + k % 4];
		memcpy(pf_tiles[c][i], sum, sizeof sum);
	}
}

#define PF_TILE_ZERO(t) memset(pf_tiles[t], 0, sizeof pf_tiles[t])
#define PF_TILE_LOAD(t, p, stride) pf_tile_move(t, (char *)(p), stride, 0)
#define PF_TILE_STREAM PF_TILE_LOAD
#define PF_TILE_STORE(t, p, stride) pf_tile_move(t, (char *)(p), stride, 1)
#define PF_TILE_DP(c, a, b) pf_tile_dp(c, a, b)
#define PF_TILE_DP_INT8(c, a, b) pf_tile_dp_int8(c, a, b)

#endif
