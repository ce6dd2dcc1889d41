/* What kernels that work on rows of activations share: those that leave bfloat16 and those that leave codes. */
#pragma once
#include "device.h"

/* The reciprocal root mean square of a row of x. */
static __device__ float inverse_rms(const float *x, int64_t cols, float eps)
{
    float squares = 0;
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        squares += x[i] * x[i];
    return rsqrtf(block_sum(squares) / (float)cols + eps);
}

static __device__ inline float swiglu(bf16 gate, bf16 up)
{
    float g = __bfloat162float(gate);
    return g / (1.0f + expf(-g)) * __bfloat162float(up);
}
