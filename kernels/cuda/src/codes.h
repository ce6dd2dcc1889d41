/* The formats of codes, each with the scale of a row by its largest magnitude and the code of a value in scales. */
#pragma once
#include "device.h"

static __device__ inline float rounded(float v) { return __bfloat162float(__float2bfloat16(v)); }

/* Binary32 to FP8 E4M3 (finite, no infinities), round to nearest even, saturating at 448; NaN stays
   NaN (0x7f). In integer arithmetic, so that host and device agree to the bit. */
static __device__ inline uint8_t to_e4m3(float f)
{
    uint32_t u = __float_as_uint(f);
    uint32_t sign = (u >> 24) & 0x80;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    if (u >= 0x43e80000) /* 464 rounds to 480, beyond the largest value */
        return (uint8_t)(sign | 0x7e);
    if (u < 0x3c800000) { /* below 2^-6: subnormal, units of 2^-9; adding 2^14 rounds to them */
        float shifted = __uint_as_float(u) + 16384.0f;
        return (uint8_t)(sign | (__float_as_uint(shifted) & 0xff));
    }
    u += 0x7ffff + ((u >> 20) & 1);
    return (uint8_t)(sign | ((u - (120u << 23)) >> 20));
}

/* FP8 E4M3, as compressed-tensors' FP8-dynamic scheme quantises a token. */
struct fp8_format {
    typedef uint8_t code;
    static __device__ float scale(float top) { return larger(top, 1e-12f) / 448.0f; }
    static __device__ code of(float quotient) { return to_e4m3(quotient); }
};

/* int8, as kernels.QuantizeI8 has it: of NaN, which infinity has for a quotient, the code is 0. */
struct int8_format {
    typedef int8_t code;
    static __device__ float scale(float top)
    {
        float worth = top / 127.5f;
        return worth == 0 ? 1.0f / 8388608 : worth;
    }
    static __device__ code of(float quotient)
    {
        return quotient == quotient ? (code)fminf(127.0f, fmaxf(-128.0f, rintf(quotient))) : 0;
    }
};
