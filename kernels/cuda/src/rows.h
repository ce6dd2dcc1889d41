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

/* act(gate) * up, where act counts as kernels.Activation does: SiLU, GELU, GELU by tanh. */
static __device__ inline float gated(bf16 gate, bf16 up, int64_t act)
{
    float g = __bfloat162float(gate), u = __bfloat162float(up);
    switch (act) {
    case 0:
        return g / (1.0f + expf(-g)) * u;
    case 1:
        return 0.5f * g * erfcf(g * -0.70710678f) * u;
    default:
        return 0.5f * g * (1.0f + tanhf(0.79788456f * (g + 0.044715f * g * g * g))) * u;
    }
}
