// Elementary functions of vectors, to one or two units in the last place. NaN stays NaN.

#include "lanes.h"

// exponential reduces by powers of two and continues with a polynomial, the minimax of degree 6 with p(0) = p'(0) = 1.
INLINE vf exponential(vf x)
{
	x = smaller(set(89.5f), larger(set(-104.5f), x)); // e^x is infinite and 0 there
	vf n = nearest(x * set(1.44269504088896341f));
	vf r = mulsub(n, set(0.693359375f), x);
	r = muladd(n, set(2.12194440e-4f), r);
	vf p = set(0x1.6a2434p-10f);
	p = muladd(p, r, set(0x1.1239e2p-7f));
	p = muladd(p, r, set(0x1.5558f2p-5f));
	p = muladd(p, r, set(0x1.555492p-3f));
	p = muladd(p, r, set(0x1.fffffcp-2f));
	p = muladd(p, r, set(1.0f));
	p = muladd(p, r, set(1.0f));
	return scale(p, n);
}

// logistic is 1 / (1 + e^-x) of |x| <= MOST_LOGISTIC, with the minimax polynomial of degree 5 with p(0) = 1 for e^-r: what it
// is off by matters little beside 1. A whole number is made by adding one so large that no fraction has room, which is
// chosen so that the sum's lowest bits are an exponent.
#define MOST_LOGISTIC 87.5f
INLINE vf logistic(vf x)
{
	const vf large = set(0x1.8p23f + 127);
	vf t = muladd(x, set(-1.44269504088896341f), large), n = t - large;
	vf r = muladd(n, set(0.693359375f), x);
	r = mulsub(n, set(2.12194440e-4f), r);
	vf p = set(-0x1.0fa820p-7f);
	p = muladd(p, r, set(0x1.573a6cp-5f));
	p = muladd(p, r, set(-0x1.555a6cp-3f));
	p = muladd(p, r, set(0x1.fffdc6p-2f));
	p = muladd(p, r, set(-0x1.fffff6p-1f));
	p = muladd(p, r, set(1.0f));
	return reciprocal(muladd(p, as_exponent(t), set(1.0f)));
}

INLINE vf sigmoid(vf x) { return logistic(smaller(set(MOST_LOGISTIC), larger(set(-MOST_LOGISTIC), x))); }

// sigmoid_linear is x * sigmoid(x), with the same bits.
INLINE vf sigmoid_linear(vf x) { return x * logistic(within(x, MOST_LOGISTIC)); }

// hyperbolic_tangent is odd in x; a polynomial for small x (Cephes, tanhf).
INLINE vf hyperbolic_tangent(vf x)
{
	vf z = x * x, a = magnitude(x);
	vf p = set(-5.70498872745e-3f);
	p = muladd(p, z, set(2.06390887954e-2f));
	p = muladd(p, z, set(-5.37397155531e-2f));
	p = muladd(p, z, set(1.33314422036e-1f));
	p = muladd(p, z, set(-3.33332819422e-1f));
	vf small = muladd(p * z, x, x);
	vf large = set(1.0f) - set(2.0f) / (exponential(a + a) + set(1.0f));
	return choose(is_less(a, set(0.625f)), small, with_sign(large, x));
}

// logarithm takes the mantissa in [sqrt(1/2), sqrt(2)) (Cephes, logf).
INLINE vf logarithm(vf x)
{
	vf e = exponent(x), m = mantissa(x);
	vm upper = is_less(set(1.41421356237f), m);
	e = choose(upper, e + set(1.0f), e);
	vf f = choose(upper, m * set(0.5f), m) - set(1.0f), z = f * f;
	vf p = set(7.0376836292e-2f);
	p = muladd(p, f, set(-1.1514610310e-1f));
	p = muladd(p, f, set(1.1676998740e-1f));
	p = muladd(p, f, set(-1.2420140846e-1f));
	p = muladd(p, f, set(1.4249322787e-1f));
	p = muladd(p, f, set(-1.6668057665e-1f));
	p = muladd(p, f, set(2.0000714765e-1f));
	p = muladd(p, f, set(-2.4999993993e-1f));
	p = muladd(p, f, set(3.3333331174e-1f));
	p = muladd(p * f, z, e * set(-2.12194440e-4f));
	p = mulsub(set(0.5f), z, p);
	vf y = muladd(e, set(0.693359375f), f + p);
	y = choose(is_equal(x, set(__builtin_inff())), x, y);
	y = choose(is_equal(x, set(0.0f)), set(-__builtin_inff()), y);
	return choose(is_less(x, set(0.0f)), set(__builtin_nanf("")), choose(is_not(x, x), x, y));
}

// error_function is x P(x^2) below 1, and 1 - e^-Q(x) above; P and Q interpolate erf(x)/x and -log(erfc(x))
// at Chebyshev's points.
INLINE vf error_function(vf x)
{
	vf z = x * x, a = smaller(set(4.0f), magnitude(x));
	vf p = set(-0x1.449784p-17f);
	p = muladd(p, z, set(0x1.d89ff4p-14f));
	p = muladd(p, z, set(-0x1.bcd3a4p-11f));
	p = muladd(p, z, set(0x1.562abep-8f));
	p = muladd(p, z, set(-0x1.b829d0p-6f));
	p = muladd(p, z, set(0x1.ce2f0ap-4f));
	p = muladd(p, z, set(-0x1.812746p-2f));
	p = muladd(p, z, set(0x1.20dd76p+0f));
	vf q = set(-0x1.b14578p-20f);
	q = muladd(q, a, set(0x1.7e711ep-15f));
	q = muladd(q, a, set(-0x1.36c82ep-11f));
	q = muladd(q, a, set(0x1.36a7bcp-8f));
	q = muladd(q, a, set(-0x1.aff5a4p-6f));
	q = muladd(q, a, set(0x1.c2788cp-4f));
	q = muladd(q, a, set(0x1.438d42p-1f));
	q = muladd(q, a, set(0x1.21529ap+0f));
	q = muladd(q, a, set(-0x1.3df11cp-12f));
	vf large = with_sign(set(1.0f) - exponential(negative(q)), x);
	return choose(is_less(a, set(1.0f)), x * p, choose(is_not(x, x), x, large));
}
