// Products of a few rows with a panel of two vectors of columns, in registers.

#include "internal.h"
#include "lanes.h"

// Pointers to every third row are enough to reach all of them: row i lies (i%3) strides behind one.
enum { POINTERS = (ROWS + 2) / 3 };

// add_run adds the products of a run.
INLINE void add_run(const int rows, const int vectors, size_t k, const float *a, ptrdiff_t lda, const float *b,
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

// begin and end take the columns of a tile from memory and bring them there; of the last vector they are those of
// mask, if that is a part.
INLINE void begin(const int rows, const int vectors, vf acc[ROWS][2], const float *c, ptrdiff_t ldc, const int part, vm mask)
{
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int j = 0; j < vectors; j++) {
			const float *p = c + i * ldc + j * PN_LANES;
			acc[i][j] = part && j == vectors - 1 ? load_first(p, mask) : load(p);
		}
}

INLINE void end(const int rows, const int vectors, vf acc[ROWS][2], float *c, ptrdiff_t ldc, const int part, vm mask)
{
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int j = 0; j < vectors; j++) {
			float *p = c + i * ldc + j * PN_LANES;
			if (part && j == vectors - 1)
				store_first(p, acc[i][j], mask);
			else
				store(p, acc[i][j]);
		}
}

INLINE void add_columns(const int rows, const int vectors, vf acc[ROWS][2], const float *c, ptrdiff_t ldc, const int part, vm mask)
{
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int j = 0; j < vectors; j++) {
			const float *p = c + i * ldc + j * PN_LANES;
			acc[i][j] = acc[i][j] + (part && j == vectors - 1 ? load_first(p, mask) : load(p));
		}
}

INLINE void hold(const int rows, const int vectors, vf acc[ROWS][2], const pn_ending *e, const int part, vm mask)
{
	if (e->add && part)
		add_columns(rows, vectors, acc, e->add, e->row, 1, mask);
	else if (e->add)
		add_columns(rows, vectors, acc, e->add, e->row, 0, mask);
	vf low = set(e->low), high = set(e->high);
#pragma GCC unroll 14
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int j = 0; j < vectors; j++)
			acc[i][j] = smaller(high, larger(low, acc[i][j])); // NaN stays
}

INLINE void tile_of(const int rows, const int vectors, int cols, int runs, size_t k, const float *const *a, ptrdiff_t lda,
                    const float *b, ptrdiff_t ldb, float *c, ptrdiff_t ldc, const float *init, const pn_ending *ending)
{
	vf acc[ROWS][2];
	int left = cols - (vectors - 1) * PN_LANES, part = left < PN_LANES;
	ptrdiff_t step = init == c ? ldc : 0;
	vm mask = first(part ? left : PN_LANES - 1);
	if (!init)
#pragma GCC unroll 14
		for (int i = 0; i < rows; i++)
			acc[i][0] = acc[i][1] = set(0);
	else if (part)
		begin(rows, vectors, acc, init, step, 1, mask);
	else
		begin(rows, vectors, acc, init, step, 0, mask);
	for (int j = 0; j < runs; j++)
		add_run(rows, vectors, k, a[j], lda, b + j * (ptrdiff_t)k * ldb, ldb, acc);
	if (ending)
		hold(rows, vectors, acc, ending, part, mask);
	if (part)
		end(rows, vectors, acc, c, ldc, 1, mask);
	else
		end(rows, vectors, acc, c, ldc, 0, mask);
}

#define TILE(n) \
	case n: \
		tile_of(n, 1, cols, runs, k, a, lda, b, ldb, c, ldc, init, ending); \
		break; \
	case n + ROWS: \
		tile_of(n, 2, cols, runs, k, a, lda, b, ldb, c, ldc, init, ending); \
		break;
