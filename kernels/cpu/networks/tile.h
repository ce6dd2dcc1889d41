// Products of a few rows with a panel of columns, in registers: of one or two vectors, of which the last one may be half
// a vector.

#include "internal.h"
#include "lanes.h"

// sums are those of a tile: of each row its whole vectors, and a half one.
typedef struct sums {
	vf whole[ROWS][2];
	hf half[ROWS];
} sums;

// Pointers to every third row are enough to reach all of them: row i lies (i%3) strides behind one.
enum { POINTERS = (ROWS + 2) / 3 };

// EACH_ROW and EACH_WHOLE are loops over rows and their whole vectors.
#define EACH_ROW _Pragma("GCC unroll 14") for (int i = 0; i < rows; i++)
#define EACH_WHOLE _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++)

// add_column adds the products of element u behind p of each row with a row of the panel.
INLINE void add_column(const int rows, const int vectors, const int half, sums *s, const char *const *p, ptrdiff_t stride, int u, const float *b)
{
	vf w[2];
	hf h = half_set(0);
	EACH_WHOLE w[j] = load(b + j * PN_LANES);
	if (half)
		h = half_load(b + vectors * PN_LANES);
	EACH_ROW
	{
		float x = ((const float *)(p[i / 3] + i % 3 * stride))[u];
		EACH_WHOLE s->whole[i][j] = muladd(set(x), w[j], s->whole[i][j]);
		if (half)
			s->half[i] = half_muladd(half_set(x), h, s->half[i]);
	}
}

// add_run adds the products of a run.
INLINE void add_run(const int rows, const int vectors, const int half, size_t k, const float *a, ptrdiff_t lda, const float *b,
                    ptrdiff_t ldb, sums *s)
{
	const char *p[POINTERS];
	const ptrdiff_t stride = lda * (ptrdiff_t)sizeof *a;
#pragma GCC unroll 5
	for (int i = 0; i < (rows + 2) / 3; i++)
		p[i] = (const char *)a + 3 * i * stride;
	for (; k >= 4; k -= 4) {
#pragma GCC unroll 4
		for (int u = 0; u < 4; u++, b += ldb)
			add_column(rows, vectors, half, s, p, stride, u, b);
#pragma GCC unroll 5
		for (int i = 0; i < (rows + 2) / 3; i++) {
			p[i] += 4 * sizeof *a;
			__asm__("" : "+r"(p[i])); // else the compiler keeps a pointer for each row, and spills them
		}
	}
	for (; k > 0; k--, b += ldb) {
		add_column(rows, vectors, half, s, p, stride, 0, b);
#pragma GCC unroll 5
		for (int i = 0; i < (rows + 2) / 3; i++)
			p[i] += sizeof *a;
	}
}

// begin and finish_rows take sums from memory and bring them there, and add_rows adds what is there; of the last vector,
// whole or half, they are those of mask, if that is a part.
INLINE void begin(const int rows, const int vectors, const int half, sums *s, const float *c, ptrdiff_t ldc, const int part, vm mask)
{
	EACH_ROW
	{
		const float *p = c + i * ldc;
		EACH_WHOLE s->whole[i][j] = part && !half && j == vectors - 1 ? load_first(p + j * PN_LANES, mask) : load(p + j * PN_LANES);
		if (half)
			s->half[i] = part ? half_load_first(p + vectors * PN_LANES, mask) : half_load(p + vectors * PN_LANES);
	}
}

// WITH_ROWS(name, op) makes sums one with what is in memory.
#define WITH_ROWS(name, op) \
	INLINE void name(const int rows, const int vectors, const int half, sums *s, const float *c, ptrdiff_t ldc, const int part, vm mask) \
	{ \
		EACH_ROW \
		{ \
			const float *p = c + i * ldc; \
			EACH_WHOLE s->whole[i][j] = s->whole[i][j] op (part && !half && j == vectors - 1 ? load_first(p + j * PN_LANES, mask) : load(p + j * PN_LANES)); \
			if (half) \
				s->half[i] = s->half[i] op (part ? half_load_first(p + vectors * PN_LANES, mask) : half_load(p + vectors * PN_LANES)); \
		} \
	}

WITH_ROWS(add_rows, +)
WITH_ROWS(multiply_rows, *)

// scale_rows multiplies sums by scale and adds shift, a row of each for all.
INLINE void scale_rows(const int rows, const int vectors, const int half, sums *s, const pn_ending *e, const int part, vm mask)
{
	vf scale[2], shift[2];
	hf half_scale = half_set(0), half_shift = half_set(0);
	EACH_WHOLE
	{
		int some = part && !half && j == vectors - 1;
		scale[j] = some ? load_first(e->scale + j * PN_LANES, mask) : load(e->scale + j * PN_LANES);
		shift[j] = some ? load_first(e->shift + j * PN_LANES, mask) : load(e->shift + j * PN_LANES);
	}
	if (half) {
		half_scale = part ? half_load_first(e->scale + vectors * PN_LANES, mask) : half_load(e->scale + vectors * PN_LANES);
		half_shift = part ? half_load_first(e->shift + vectors * PN_LANES, mask) : half_load(e->shift + vectors * PN_LANES);
	}
	EACH_ROW
	{
		EACH_WHOLE s->whole[i][j] = muladd(s->whole[i][j], scale[j], shift[j]);
		if (half)
			s->half[i] = half_muladd(s->half[i], half_scale, half_shift);
	}
}

INLINE void finish_rows(const int rows, const int vectors, const int half, const sums *s, float *c, ptrdiff_t ldc, const int part, vm mask)
{
	EACH_ROW
	{
		float *p = c + i * ldc;
		EACH_WHOLE if (part && !half && j == vectors - 1) store_first(p + j * PN_LANES, s->whole[i][j], mask);
		else store(p + j * PN_LANES, s->whole[i][j]);
		if (half && part)
			half_store_first(p + vectors * PN_LANES, s->half[i], mask);
		else if (half)
			half_store(p + vectors * PN_LANES, s->half[i]);
	}
}

INLINE void hold(const int rows, const int vectors, const int half, sums *s, const pn_ending *e)
{
	vf low = set(e->low), high = set(e->high);
	EACH_ROW
	{
		EACH_WHOLE s->whole[i][j] = smaller(high, larger(low, s->whole[i][j])); // NaN stays
		if (half)
			s->half[i] = half_hold(s->half[i], e->low, e->high);
	}
}

INLINE void tile_of(const int rows, const int vectors, const int half, int cols, int runs, size_t k, const float *const *a,
                    ptrdiff_t lda, const float *b, ptrdiff_t ldb, float *c, ptrdiff_t ldc, const float *init, const pn_ending *ending)
{
	sums s;
	const int width = vectors * PN_LANES + half * PN_LANES / 2, last = half ? PN_LANES / 2 : PN_LANES;
	int part = cols < width;
	ptrdiff_t step = init == c ? ldc : 0;
	vm mask = first(part ? cols - (width - last) : PN_LANES - 1);
	if (!init)
		EACH_ROW
		{
			s.whole[i][0] = s.whole[i][1] = set(0);
			s.half[i] = half_set(0);
		}
	else if (part)
		begin(rows, vectors, half, &s, init, step, 1, mask);
	else
		begin(rows, vectors, half, &s, init, step, 0, mask);
	for (int j = 0; j < runs; j++)
		add_run(rows, vectors, half, k, a[j], lda, b + j * (ptrdiff_t)k * ldb, ldb, &s);
	if (ending && ending->scale && part)
		scale_rows(rows, vectors, half, &s, ending, 1, mask);
	else if (ending && ending->scale)
		scale_rows(rows, vectors, half, &s, ending, 0, mask);
	else if (ending && ending->shift && part)
		add_rows(rows, vectors, half, &s, ending->shift, 0, 1, mask);
	else if (ending && ending->shift)
		add_rows(rows, vectors, half, &s, ending->shift, 0, 0, mask);
	if (ending && ending->add && part)
		add_rows(rows, vectors, half, &s, ending->add, ending->add_row, 1, mask);
	else if (ending && ending->add)
		add_rows(rows, vectors, half, &s, ending->add, ending->add_row, 0, mask);
	if (ending && ending->times && part)
		multiply_rows(rows, vectors, half, &s, ending->times, ending->times_row, 1, mask);
	else if (ending && ending->times)
		multiply_rows(rows, vectors, half, &s, ending->times, ending->times_row, 0, mask);
	if (ending && ending->holds)
		hold(rows, vectors, half, &s, ending);
	if (part)
		finish_rows(rows, vectors, half, &s, c, ldc, 1, mask);
	else
		finish_rows(rows, vectors, half, &s, c, ldc, 0, mask);
}

// TILE(n) are the cases of n rows and of 1 to 4 half vectors.
#define TILE_OF(n, halves) \
	case (halves - 1) * ROWS + n: \
		tile_of(n, halves / 2, halves % 2, cols, runs, k, a, lda, b, ldb, c, ldc, init, ending); \
		break;
#define TILE(n) TILE_OF(n, 1) TILE_OF(n, 2) TILE_OF(n, 3) TILE_OF(n, 4)
#define TILE_CASE ((cols + PN_LANES / 2 - 1) / (PN_LANES / 2) - 1) * ROWS + rows
