// The functions of an instruction set beside its tiles: element-wise operations, copies and sums, and the table of
// all of them. A source that includes this states PN_LANES, its target and ROWS first, and defines tile after it.

#include "elementary.h"
#include "internal.h"
#include "strips.h"
#include "tile.h"

#include <math.h>
#include <string.h>

#define EACH_VECTOR(n, WHOLE, PART) \
	do { \
		size_t i = 0; \
		for (; i + PN_LANES <= n; i += PN_LANES) { \
			WHOLE \
		} \
		if (i < n) { \
			vm m = first((int)(n - i)); \
			PART \
		} \
	} while (0)

#define ELEMENTS(name, expression) \
	static void name(float *d, const float *a, const float *b, const float *c, size_t n) \
	{ \
		(void)a, (void)b, (void)c; \
		EACH_VECTOR(n, vf x = load(a + i); store(d + i, expression);, vf x = load_first(a + i, m); store_first(d + i, expression, m);); \
	}

#define ELEMENTS2(name, expression) \
	static void name(float *d, const float *a, const float *b, const float *c, size_t n) \
	{ \
		(void)c; \
		EACH_VECTOR(n, vf x = load(a + i); vf y = load(b + i); store(d + i, expression);, vf x = load_first(a + i, m); \
		            vf y = load_first(b + i, m); store_first(d + i, expression, m);); \
	}

#define TRUTH(m) choose(m, set(1.0f), set(0.0f))

ELEMENTS(op_copy, x)
ELEMENTS2(op_add, x + y)
ELEMENTS2(op_sub, x - y)
ELEMENTS2(op_mul, x * y)
ELEMENTS2(op_div, x / y)
ELEMENTS2(op_min, any_smaller(x, y))
ELEMENTS2(op_max, any_larger(x, y))
ELEMENTS2(op_less, TRUTH(is_less(x, y)))
ELEMENTS2(op_less_equal, TRUTH(is_less_equal(x, y)))
ELEMENTS2(op_equal, TRUTH(is_equal(x, y)))
ELEMENTS(op_neg, negative(x))
ELEMENTS(op_abs, magnitude(x))
ELEMENTS(op_sqrt, root(x))
ELEMENTS(op_exp, exponential(x))
ELEMENTS(op_log, logarithm(x))
ELEMENTS(op_tanh, hyperbolic_tangent(x))
ELEMENTS(op_sigmoid, sigmoid(x))
ELEMENTS(op_erf, error_function(x))
ELEMENTS(op_floor, below(x))
ELEMENTS(op_ceil, above(x))
ELEMENTS(op_round, nearest(x))
ELEMENTS(op_silu, sigmoid_linear(x))

static void silu(float *d, ptrdiff_t to, int64_t rows, size_t cols, const float *add, ptrdiff_t row)
{
	if (to == (ptrdiff_t)cols && (!add || row == to))
		cols *= (size_t)rows, rows = 1;
	for (int64_t i = 0; i < rows; i++, d += to, add += add ? row : 0) {
		op_silu(d, d, NULL, NULL, cols);
		if (add)
			op_add(d, d, add, NULL, cols); // a product and a sum by themselves: a compiler could make them one
	}
}

// silu_slope takes products and sums apart, which the compiler would put together.
INLINE vf silu_slope(vf x, vf s)
{
	vf t = x * (set(1.0f) - s);
	APART(t);
	return (set(1.0f) + t) * s;
}

ELEMENTS(op_silu_slope, silu_slope(x, sigmoid(x)))

static void silu_both(float *d, float *slope, const float *a, size_t n)
{
	EACH_VECTOR(n, vf x = load(a + i); vf s = sigmoid(x); store(slope + i, silu_slope(x, s)); store(d + i, x * s);,
	            vf x = load_first(a + i, m); vf s = sigmoid(x); store_first(slope + i, silu_slope(x, s), m); store_first(d + i, x * s, m););
}

static void op_select(float *d, const float *a, const float *b, const float *c, size_t n)
{
	EACH_VECTOR(n, store(d + i, choose(is_not(load(a + i), set(0)), load(b + i), load(c + i)));,
	            store_first(d + i, choose(is_not(load_first(a + i, m), set(0)), load_first(b + i, m), load_first(c + i, m)), m););
}

static void op_pow(float *d, const float *a, const float *b, const float *c, size_t n)
{
	(void)c;
	for (size_t i = 0; i < n; i++)
		d[i] = powf(a[i], b[i]);
}

static void op_sin(float *d, const float *a, const float *b, const float *c, size_t n)
{
	(void)b, (void)c;
	for (size_t i = 0; i < n; i++)
		d[i] = sinf(a[i]);
}

static void op_cos(float *d, const float *a, const float *b, const float *c, size_t n)
{
	(void)b, (void)c;
	for (size_t i = 0; i < n; i++)
		d[i] = cosf(a[i]);
}

// half_of and brain_of are the nearest numbers of FP16 and BF16. They have no branches, so that the compiler makes vectors of
// the loops.
INLINE float half_of(float x)
{
	uint32_t b, small, large;
	float sum = fabsf(x) + 0.5f; // of which the last bit is that of the numbers below the normal ones
	float rest = sum - 0.5f;
	memcpy(&b, &x, sizeof b);
	memcpy(&small, &rest, sizeof small);
	uint32_t m = b & 0x7fffffff;
	large = (m + 0xfff + (m >> 13 & 1)) & ~(uint32_t)0x1fff;
	large = large >= 0x47800000 ? 0x7f800000 : large;
	large = m > 0x7f800000 ? m : large;
	b = (b & 0x80000000) | (m < 0x38800000 ? small : large);
	memcpy(&x, &b, sizeof x);
	return x;
}

INLINE float brain_of(float x)
{
	uint32_t b;
	memcpy(&b, &x, sizeof b);
	uint32_t m = b & 0x7fffffff;
	b = m > 0x7f800000 ? b : (b + 0x7fff + (b >> 16 & 1)) & 0xffff0000;
	memcpy(&x, &b, sizeof x);
	return x;
}

static void op_half(float *d, const float *a, const float *b, const float *c, size_t n)
{
	(void)b, (void)c;
	for (size_t i = 0; i < n; i++)
		d[i] = half_of(a[i]);
}

static void op_brain(float *d, const float *a, const float *b, const float *c, size_t n)
{
	(void)b, (void)c;
	for (size_t i = 0; i < n; i++)
		d[i] = brain_of(a[i]);
}

static void fill(float *d, float x, size_t n) { EACH_VECTOR(n, store(d + i, set(x));, store_first(d + i, set(x), m);); }

static void copy(float *d, const float *s, size_t n) { op_copy(d, s, NULL, NULL, n); }

// every_second reads nothing behind the last element.
static void every_second(float *d, const float *s, size_t n)
{
	size_t i = 0;
	for (; i + PN_LANES < n; i += PN_LANES)
		store(d + i, evens(load(s + 2 * i), load(s + 2 * i + PN_LANES)));
	int left = (int)(n - i), reach = 2 * left - 1;
	vf low = reach < PN_LANES ? load_first(s + 2 * i, first(reach)) : load(s + 2 * i);
	vf high = reach < PN_LANES ? set(0) : load_first(s + 2 * i + PN_LANES, first(reach - PN_LANES));
	if (left < PN_LANES)
		store_first(d + i, evens(low, high), first(left));
	else
		store(d + i, evens(low, high));
}

#if PN_LANES == 16

// interleave_three makes sixteen rows at a time, `to` apart, of three columns, and returns how many it has made. Lane l of
// vector v is of row (16v + l) / to.
static int64_t interleave_three(float *d, ptrdiff_t to, const float *s, ptrdiff_t apart, int64_t rows)
{
	enum { MOST = 6 };
	__m512i two[MOST], third[MOST];
	vm mask[MOST];
	const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), n = _mm512_set1_epi32(PN_LANES);
	if (to < 3 || to > MOST)
		return 0;
	for (int v = 0; v < to; v++) {
		__m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(v * PN_LANES));
		__m512i row = _mm512_srli_epi32(_mm512_mullo_epi32(at, _mm512_set1_epi32((int)(65536 / to + 1))), 16);
		__m512i column = _mm512_sub_epi32(at, _mm512_mullo_epi32(row, _mm512_set1_epi32((int)to)));
		two[v] = _mm512_mask_add_epi32(row, _mm512_cmpeq_epi32_mask(column, _mm512_set1_epi32(1)), row, n);
		third[v] = _mm512_mask_add_epi32(lane, _mm512_cmpeq_epi32_mask(column, _mm512_set1_epi32(2)), row, n);
		mask[v] = _mm512_cmplt_epi32_mask(column, _mm512_set1_epi32(3));
	}
	int64_t i = 0;
	for (; i + PN_LANES <= rows; i += PN_LANES, d += PN_LANES * to, s += PN_LANES) {
		vf a = load(s), b = load(s + apart), c = load(s + 2 * apart);
		for (int v = 0; v < to; v++)
			_mm512_mask_storeu_ps(d + v * PN_LANES, mask[v], _mm512_permutex2var_ps(_mm512_permutex2var_ps(a, two[v], b), third[v], c));
	}
	return i;
}

#else

static int64_t interleave_three(float *d, ptrdiff_t to, const float *s, ptrdiff_t apart, int64_t rows)
{
	(void)d, (void)to, (void)s, (void)apart, (void)rows;
	return 0;
}

#endif

// interleave goes four rows at a time; the last ones one by one, since vectors reach beyond what they are of.
static void interleave(float *d, ptrdiff_t to, const float *s, ptrdiff_t from, ptrdiff_t apart, int cols, int64_t rows)
{
	int64_t i = cols == 3 && from == 1 ? interleave_three(d, to, s, apart, rows) : 0;
	for (; i + 5 < rows; i += 4) {
		__m128 v[4] = {_mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps()};
		for (int j = 0; j < cols; j++) {
			const float *p = s + i * from + j * apart;
			v[j] = _mm_loadu_ps(p);
			if (from == 2)
				v[j] = _mm_shuffle_ps(v[j], _mm_loadu_ps(p + 4), _MM_SHUFFLE(2, 0, 2, 0));
		}
		_MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
		for (int r = 0; r < 4; r++) {
			float *e = d + (i + r) * to;
			_mm_storel_pi((__m64 *)e, v[r]);
			if (cols > 2)
				_mm_store_ss(e + 2, _mm_movehl_ps(v[r], v[r]));
			if (cols > 3)
				_mm_store_ss(e + 3, _mm_shuffle_ps(v[r], v[r], _MM_SHUFFLE(3, 3, 3, 3)));
		}
	}
	for (; i < rows; i++)
		for (int j = 0; j < cols; j++)
			d[i * to + j] = s[i * from + j * apart];
}

static void gather(float *d, const pn_axis *a, const int64_t *at, const float *src, size_t channels, int from, int to)
{
	int inside[3][2];
	int64_t place[3];
	if (from == to)
		return;
	for (int i = 0; i < 3; i++)
		place[i] = pn_inside(&a[i], at[i], &inside[i][0], &inside[i][1]);
	int adjacent = a[2].dilation * a[2].src == (ptrdiff_t)channels;
	int x = from % a[2].taps, y = from / a[2].taps % a[1].taps, z = from / a[2].taps / a[1].taps;
	// The taps of the last axis, of which the first one may begin, and the last one end, within.
	for (int t = from, next; t < to; t = next, x = 0, y++) {
		if (y == a[1].taps)
			y = 0, z++;
		next = to - t < a[2].taps - x ? to : t + a[2].taps - x;
		int low = x > inside[2][0] ? x : inside[2][0], high = x + next - t < inside[2][1] ? x + next - t : inside[2][1];
		if (z < inside[0][0] || z >= inside[0][1] || y < inside[1][0] || y >= inside[1][1] || low >= high)
			low = high = x;
		const float *s = src + (place[0] + (int64_t)z * a[0].dilation) * a[0].src + (place[1] + (int64_t)y * a[1].dilation) * a[1].src +
		                 (place[2] + (int64_t)low * a[2].dilation) * a[2].src;
		if (low > x)
			fill(d, 0, channels * (size_t)(low - x));
		d += channels * (size_t)(low - x);
		for (int i = low; i < high; i += adjacent ? high - low : 1, s += a[2].dilation * a[2].src) {
			size_t n = adjacent ? channels * (size_t)(high - low) : channels;
			copy(d, s, n);
			d += n;
		}
		if (x + next - t > high)
			fill(d, 0, channels * (size_t)(x + next - t - high));
		d += channels * (size_t)(x + next - t - high);
	}
}

static void weigh(float *d, ptrdiff_t to, const float *s, ptrdiff_t from, const pn_weights *w, int begin, int end, size_t n)
{
	for (int o = begin; o < end; o++) {
		const int32_t *index = w->index + w->start[o];
		const float *weight = w->weight + w->start[o];
		float *at = d + o * to;
		int taps = w->start[o + 1] - w->start[o];
		EACH_VECTOR(n, vf sum = set(0); for (int j = 0; j < taps; j++) sum = muladd(set(weight[j]), load(s + index[j] * from + i), sum);
		            store(at + i, sum);, vf sum = set(0);
		            for (int j = 0; j < taps; j++) sum = muladd(set(weight[j]), load_first(s + index[j] * from + i, m), sum);
		            store_first(at + i, sum, m););
	}
}

#define FOLD(name, expression) \
	static void fold_##name(float *d, const float *s, size_t n) \
	{ \
		EACH_VECTOR(n, vf x = load(d + i); vf y = load(s + i); store(d + i, expression);, vf x = load_first(d + i, m); \
		            vf y = load_first(s + i, m); store_first(d + i, expression, m);); \
	}

// Four chains hide the latency of an operation; then they and the lanes become one in pairs.
#define REDUCE(name, expression, start) \
	static float reduce_##name(const float *s, size_t n) \
	{ \
		vf acc[4] = {set(start), set(start), set(start), set(start)}, x, y; \
		size_t j = 0; \
		for (; j + 4 * PN_LANES <= n; j += 4 * PN_LANES) \
			for (int u = 0; u < 4; u++) { \
				x = acc[u], y = load(s + j + u * PN_LANES); \
				acc[u] = expression; \
			} \
		for (; j < n; j += PN_LANES) { \
			vm m = first((int)(n - j < PN_LANES ? n - j : PN_LANES - 1)); \
			x = acc[0], y = n - j < PN_LANES ? choose(m, load_first(s + j, m), set(start)) : load(s + j); \
			acc[0] = expression; \
		} \
		float lanes[4 * PN_LANES]; \
		for (int u = 0; u < 4; u++) \
			store(lanes + u * PN_LANES, acc[u]); \
		for (int width = 2 * PN_LANES; width > 0; width /= 2) \
			for (int i = 0; i < width; i++) { \
				x = set(lanes[i]), y = set(lanes[i + width]); \
				vf r = expression; \
				lanes[i] = ((const float *)&r)[0]; \
			} \
		return lanes[0]; \
	}

FOLD(sum, x + y)
FOLD(largest, any_larger(x, y))
FOLD(smallest, any_smaller(x, y))
REDUCE(sum, x + y, 0)
REDUCE(largest, any_larger(x, y), -__builtin_inff())
REDUCE(smallest, any_smaller(x, y), __builtin_inff())

#define KERNELS \
	{ \
		.lanes = PN_LANES, .rows = ROWS, \
		.element = {[PN_COPY] = op_copy, [PN_ADD] = op_add, [PN_SUB] = op_sub, [PN_MUL] = op_mul, [PN_DIV] = op_div, \
		            [PN_MIN] = op_min, [PN_MAX] = op_max, [PN_POW] = op_pow, [PN_LESS] = op_less, \
		            [PN_LESS_EQUAL] = op_less_equal, [PN_EQUAL] = op_equal, [PN_SELECT] = op_select, [PN_NEG] = op_neg, \
		            [PN_ABS] = op_abs, [PN_SQRT] = op_sqrt, [PN_EXP] = op_exp, [PN_LOG] = op_log, [PN_SIN] = op_sin, \
		            [PN_COS] = op_cos, [PN_TANH] = op_tanh, [PN_SIGMOID] = op_sigmoid, [PN_ERF] = op_erf, \
		            [PN_FLOOR] = op_floor, [PN_CEIL] = op_ceil, [PN_ROUND] = op_round, [PN_HALF] = op_half, \
		            [PN_BRAIN] = op_brain, [PN_SILU] = op_silu, \
		            [PN_SILU_SLOPE] = op_silu_slope}, \
		.fill = fill, .copy = copy, .silu = silu, .silu_both = silu_both, .tile = tile, .gather = gather, .interleave = interleave, .every_second = every_second, .depthwise = depthwise, .maxima = maxima, .means = means, \
		.route = route, .weigh = weigh, \
		.fold = {fold_sum, fold_largest, fold_smallest}, \
		.reduce = {reduce_sum, reduce_largest, reduce_smallest}, \
	}
