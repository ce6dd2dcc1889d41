/* What kernels that work on rows of activations share: those that leave bfloat16 and those that leave codes. */
#pragma once
#include "device.h"

/* A normalisation of rows of so many columns: by their root mean square, or, centred, of what is left of them without their mean by
   its. Without weights it is none. bias may be null. */
struct norm_of {
    const float *weight, *bias;
    int64_t cols;
    float eps, mean, inverse; /* the latter two of a row */

    /* Sees a row. All of its threads call it. */
    __device__ norm_of(const float *x, const float *weight, const float *bias, int64_t cols, float eps, int64_t centred)
        : weight(weight), bias(bias), cols(cols), eps(eps), mean(0), inverse(1)
    {
        if (!weight)
            return;
        if (centred) {
            float sum = 0;
            for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
                sum += x[i];
            mean = block_sum(sum) / (float)cols;
        }
        float squares = 0;
        for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
            squares += (x[i] - mean) * (x[i] - mean);
        inverse = rsqrtf(block_sum(squares) / (float)cols + eps);
    }

    __device__ float operator()(const float *x, int64_t i) const
    {
        if (!weight)
            return x[i];
        float v = (x[i] - mean) * inverse * weight[i];
        return bias ? v + bias[i] : v;
    }
};

/* act(x), where act counts as kernels.Activation does: SiLU, GELU, GELU by tanh. */
static __device__ inline float activate(float x, int64_t act)
{
    switch (act) {
    case 0:
        return x / (1.0f + expf(-x));
    case 1:
        return 0.5f * x * erfcf(x * -0.70710678f);
    default:
        return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    }
}

/* act(gate) * up. */
static __device__ inline float gated(bf16 gate, bf16 up, int64_t act) { return activate(__bfloat162float(gate), act) * __bfloat162float(up); }

/* What stands between the matrices of an MLP: act(row[i]) or, where a row is twice as wide, act(row[i]) * row[inter + i]. */
static __device__ inline float active(const bf16 *row, int64_t cols, int64_t inter, int64_t i, int64_t act)
{
    return cols > inter ? gated(row[i], row[inter + i], act) : activate(__bfloat162float(row[i]), act);
}
