// Products of a few rows with a panel of two vectors of columns, in registers.

#include "lanes.h"

#include <string.h>

// Pointers to every third row are enough to reach all of them: row i lies (i%3) strides behind one.
enum { POINTERS = (ROWS + 2) / 3 };

INLINE void tile_of(const int rows, const int vectors, size_t k, const float *a, ptrdiff_t lda, const float *b,
                    ptrdiff_t ldb, vf acc[ROWS][2])
{
	const char *p[POINTERS];
	const ptrdiff_t stride = lda * (ptrdiff_t)sizeof *a, next = ldb * (ptrdiff_t)sizeof *b;
	const char *q = (const char *)b;
#pragma GCC unroll 5
	for (int i = 0; i < (rows + 2) / 3; i++)
		p[i] = (const char *)a + 3 * i * stride;
	for (; k >= 4; k -= 4) {
#pragma GCC unroll 4
		for (int u = 0; u < 4; u++) {
			vf b0 = load((const float *)q), b1 = b0;
			if (vectors == 2)
				b1 = load((const float *)q + PN_LANES);
			q += next;
#pragma GCC unroll 14
			for (int i = 0; i < rows; i++) {
				vf x = set(((const float *)(p[i / 3] + i % 3 * stride))[u]);
				acc[i][0] = muladd(x, b0, acc[i][0]);
				if (vectors == 2)
					acc[i][1] = muladd(x, b1, acc[i][1]);
			}
		}
#pragma GCC unroll 5
		for (int i = 0; i < (rows + 2) / 3; i++) {
			p[i] += 4 * sizeof *a;
			__asm__("" : "+r"(p[i])); // else the compiler keeps a pointer for each row, and spills them
		}
	}
	for (; k > 0; k--, q += next) {
		vf b0 = load((const float *)q), b1 = b0;
		if (vectors == 2)
			b1 = load((const float *)q + PN_LANES);
#pragma GCC unroll 14
		for (int i = 0; i < rows; i++) {
			vf x = set(*(const float *)(p[i / 3] + i % 3 * stride));
			acc[i][0] = muladd(x, b0, acc[i][0]);
			if (vectors == 2)
				acc[i][1] = muladd(x, b1, acc[i][1]);
		}
#pragma GCC unroll 5
		for (int i = 0; i < (rows + 2) / 3; i++)
			p[i] += sizeof *a;
	}
}

INLINE void whole_tile(const int rows, const int vectors, int runs, size_t k, const float *const *a, ptrdiff_t lda,
                       const float *b, ptrdiff_t ldb, float *c, ptrdiff_t ldc, const float *init)
{
	vf acc[ROWS][2];
	ptrdiff_t step = init == c ? ldc : 0;
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int j = 0; j < vectors; j++)
			acc[i][j] = init ? load(init + i * step + j * PN_LANES) : set(0);
	for (int j = 0; j < runs; j++)
		tile_of(rows, vectors, k, a[j], lda, b + j * (ptrdiff_t)k * ldb, ldb, acc);
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int j = 0; j < vectors; j++)
			store(c + i * ldc + j * PN_LANES, acc[i][j]);
}

#define TILE(n) \
	case n: \
		if (vectors == 2) \
			whole_tile(n, 2, runs, k, a, lda, b, ldb, c, ldc, init); \
		else \
			whole_tile(n, 1, runs, k, a, lda, b, ldb, c, ldc, init); \
		break;

static void whole(int rows, int vectors, int runs, size_t k, const float *const *a, ptrdiff_t lda, const float *b,
                  ptrdiff_t ldb, float *c, ptrdiff_t ldc, const float *init);

static void tile(int rows, int cols, int runs, size_t k, const float *const *a, ptrdiff_t lda, const float *b,
                 ptrdiff_t ldb, float *c, ptrdiff_t ldc, const float *init)
{
	int vectors = cols > PN_LANES ? 2 : 1;
	if (cols == vectors * PN_LANES) {
		whole(rows, vectors, runs, k, a, lda, b, ldb, c, ldc, init);
		return;
	}
	// Columns that are not there are computed beside c.
	enum { WIDTH = 2 * PN_LANES };
	float part[ROWS * WIDTH] = {0};
	for (int i = 0; init && i < rows; i++)
		memcpy(part + i * WIDTH, init + (init == c ? i * ldc : 0), (size_t)cols * sizeof *c);
	whole(rows, vectors, runs, k, a, lda, b, ldb, part, WIDTH, part);
	for (int i = 0; i < rows; i++)
		memcpy(c + i * ldc, part + i * WIDTH, (size_t)cols * sizeof *c);
}
