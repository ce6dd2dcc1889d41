/* Programs of element-wise operations, interpreted: one thread for one element at a time. */
#pragma once
#include "networks.h"

/* The operations of kernels.ElementOp, in its order, the load of an operand, and the number that is at hand. */
enum {
    OP_CONSTANT, OP_COPY, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MIN, OP_MAX, OP_POW, OP_LESS, OP_LESS_EQUAL, OP_EQUAL, OP_SELECT,
    OP_NEG, OP_ABS, OP_SQRT, OP_EXP, OP_LOG, OP_SIN, OP_COS, OP_TANH, OP_SIGMOID, OP_ERF, OP_FLOOR, OP_CEIL, OP_ROUND,
    OP_HALF, OP_BRAIN,
    OP_GIVEN = 254, OP_LOAD = 255
};

/* Sets slot to the operation of slots a, b and c, or to the constant x or the operand of number x. */
struct pf_instruction {
    uint16_t op, slot, a, b, c, unused;
    uint32_t x;
};

/* Slots that shared memory has room for. */
#define PF_SHARED_SLOTS 8

/* Views in the argument itself. */
#define PF_VIEWS 8

struct pf_program {
    const pf_instruction *code; /* the last one sets the result */
    int64_t count;
    int64_t shape[PF_DIMS];
    pf_view views[PF_VIEWS];
    const pf_view *more; /* operands from PF_VIEWS on */
};

static __device__ inline float operand_of(const pf_program &p, uint32_t i, uint32_t element)
{
    const pf_view &v = i < PF_VIEWS ? p.views[i] : p.more[i - PF_VIEWS];
    return v.data[offset_of(v, p.shape, element)];
}

/* The sine of x, turned by so many right angles. An angle of x = m 2^k is m 2^k 2/pi right angles, of which only
   the last two bits before the point and those after it count: of 2/pi, the bits from the (k-1)th on (Payne and
   Hanek, Radian Reduction for Trigonometric Functions, 1983). Polynomials: Moshier, Cephes, 1992. CUDA's own sine
   keeps an array in local memory. */
static __device__ inline float turned_sine(float x, unsigned turns)
{
    const uint32_t two_over_pi[8] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    uint32_t bits = __float_as_uint(x) & 0x7fffffff;
    float r = x;
    if (bits >= 0x7f800000)
        return x - x;
    if (bits > 0x3f490fda) { /* pi/4 */
        uint32_t m = (bits & 0x7fffff) | 0x800000, at = (bits >> 23) - 150 + 30, word = at / 32, shift = at % 32;
        uint32_t w[4];
        for (int i = 0; i < 4; i++) {
            w[i] = 0;
            for (uint32_t j = 0; j < 8; j++) /* without an address */
                w[i] = word + i == j ? two_over_pi[j] : w[i];
        }
        for (int i = 0; i < 3; i++)
            w[i] = shift ? w[i] << shift | w[i + 1] >> (32 - shift) : w[i];
        uint64_t low = (uint64_t)m * w[2], middle = (uint64_t)m * w[1] + (low >> 32), high = (uint64_t)m * w[0] + (middle >> 32);
        uint64_t angle = high << 32 | (middle & 0xffffffff);
        int64_t part = (int64_t)(angle << 2);
        unsigned whole = (unsigned)(angle >> 62) + (part < 0);
        r = (float)((double)part * 8.515303950216386e-20); /* pi/2 2^-64 */
        if (x < 0)
            r = -r, whole = 0u - whole;
        turns += whole;
    }
    float square = r * r, value;
    if (turns & 1)
        value = fmaf(square * square, fmaf(fmaf(2.443315711809948e-5f, square, -1.388731625493765e-3f), square, 4.166664568298827e-2f), fmaf(-0.5f, square, 1.0f));
    else
        value = fmaf(r * square, fmaf(fmaf(-1.9515295891e-4f, square, 8.3321608736e-3f), square, -1.6666654611e-1f), r);
    return turns & 2 ? -value : value;
}

static __device__ inline float two(int op, float a, float b)
{
    switch (op) {
    case OP_ADD: return a + b;
    case OP_SUB: return a - b;
    case OP_MUL: return a * b;
    case OP_DIV: return a / b;
    case OP_MIN: return a < b || a != a ? a : b;
    case OP_MAX: return a > b || a != a ? a : b;
    case OP_POW: return powf(a, b);
    case OP_LESS: return a < b;
    case OP_LESS_EQUAL: return a <= b;
    default: return a == b;
    }
}

/* The nearest numbers of FP16 and BF16; of two the even one. */
static __device__ inline float half_of(float x)
{
    uint32_t sign = __float_as_uint(x) & 0x80000000, m = __float_as_uint(x) & 0x7fffffff;
    if (m > 0x7f800000)
        return x;
    if (m < 0x38800000) /* below the normal range: the last bit of this sum is the format's last */
        m = __float_as_uint((fabsf(x) + 0.5f) - 0.5f);
    else
        m = (m + 0xfff + (m >> 13 & 1)) & ~0x1fffu;
    return __uint_as_float(sign | (m >= 0x47800000 ? 0x7f800000 : m));
}

static __device__ inline float brain_of(float x)
{
    uint32_t bits = __float_as_uint(x);
    return x != x ? x : __uint_as_float((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

static __device__ inline float one(int op, float a)
{
    switch (op) {
    case OP_COPY: return a;
    case OP_NEG: return -a;
    case OP_ABS: return fabsf(a);
    case OP_SQRT: return sqrtf(a);
    case OP_EXP: return expf(a);
    case OP_LOG: return logf(a);
    case OP_SIN: return turned_sine(a, 0);
    case OP_COS: return turned_sine(a, 1);
    case OP_TANH: return tanhf(a);
    case OP_SIGMOID: return 1.0f / (1.0f + expf(-a));
    case OP_ERF: return erff(a);
    case OP_FLOOR: return floorf(a);
    case OP_CEIL: return ceilf(a);
    case OP_HALF: return half_of(a);
    case OP_BRAIN: return brain_of(a);
    default: return rintf(a);
    }
}

/* The program's result for an element, with slots that lie apart from one another. */
static __device__ inline float interpret(const pf_program &p, uint32_t element, float given, float *slots, int64_t apart)
{
    float value = 0;
    for (int64_t i = 0; i < p.count; i++) {
        pf_instruction in = p.code[i];
        if (in.op == OP_LOAD)
            value = operand_of(p, in.x, element);
        else if (in.op == OP_GIVEN)
            value = given;
        else if (in.op == OP_CONSTANT)
            value = __uint_as_float(in.x);
        else if (in.op == OP_SELECT)
            value = slots[in.a * apart] != 0 ? slots[in.b * apart] : slots[in.c * apart];
        else if (in.op >= OP_ADD && in.op <= OP_EQUAL)
            value = two(in.op, slots[in.a * apart], slots[in.b * apart]);
        else
            value = one(in.op, slots[in.a * apart]);
        slots[in.slot * apart] = value;
    }
    return value;
}
