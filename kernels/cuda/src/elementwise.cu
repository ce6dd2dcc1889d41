/* The kernels between the matrix products: embedding, norms, activations and sums. One block works on one row, so a row's
   bits depend on nothing beside it. Free of inline assembly: the host shim runs this very file. */
#include "rows.h"

/* x[row] = scale * table[ids[row]] as float32. grid: rows. */
PF_KERNEL pf_embed(float *x, int64_t x_stride, const bf16 *table, const uint32_t *ids, int64_t cols, float scale)
{
    float *to = x + blockIdx.x * x_stride;
    const bf16 *from = table + (int64_t)ids[blockIdx.x] * cols;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        to[i] = __bfloat162float(from[i]) * scale;
}

static __device__ inline float widen(float v) { return v; }
static __device__ inline float widen(bf16 v) { return __bfloat162float(v); }

template <class T>
static __device__ inline void sum_parts(float *x, const uint64_t *parts, int64_t count, int64_t row, int64_t cols, int64_t add)
{
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < cols; i += (int64_t)gridDim.y * blockDim.x) {
        float sum = widen(((const T *)parts[0])[row + i]);
        for (int64_t p = 1; p < count; p++)
            sum += widen(((const T *)parts[p])[row + i]);
        x[i] = add ? x[i] + sum : sum;
    }
}

/* x[row] = or += the sum of the count matrices at parts, each of which has rows stride apart; they are summed
   in their order first. grid: (rows, any). */
PF_KERNEL pf_sum(float *x, int64_t x_stride, const uint64_t *parts, int64_t count, int64_t stride, int64_t cols, int64_t add)
{
    sum_parts<float>(x + blockIdx.x * x_stride, parts, count, blockIdx.x * stride, cols, add);
}

/* As pf_sum, of bfloat16 matrices. */
PF_KERNEL pf_sum_bf16(float *x, int64_t x_stride, const uint64_t *parts, int64_t count, int64_t stride, int64_t cols, int64_t add)
{
    sum_parts<bf16>(x + blockIdx.x * x_stride, parts, count, blockIdx.x * stride, cols, add);
}

/* dst[row] = norm(x[row]), see norm_of; rows of dst are dense. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_norm(bf16 *dst, const float *x, int64_t x_stride, const float *w, const float *b, int64_t cols, float eps, int64_t centred)
{
    const float *from = x + blockIdx.x * x_stride;
    bf16 *to = dst + blockIdx.x * cols;
    norm_of norm(from, w, b, cols, eps, centred);
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        to[i] = __float2bfloat16(norm(from, i));
}

/* x[row] += norm(src[row]). grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_add_norm(float *x, int64_t x_stride, const float *src, int64_t src_stride, const float *w, const float *b, int64_t cols, float eps, int64_t centred)
{
    const float *from = src + blockIdx.x * src_stride;
    float *to = x + blockIdx.x * x_stride;
    norm_of norm(from, w, b, cols, eps, centred);
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        to[i] += norm(from, i);
}

/* x[row] += bias. grid: rows. */
PF_KERNEL pf_add_bias(float *x, int64_t x_stride, const bf16 *bias, int64_t cols)
{
    float *to = x + blockIdx.x * x_stride;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        to[i] += __bfloat162float(bias[i]);
}

/* dst[row][i] = what active says of rows of src, which are cols wide, rows dense. grid: (rows, any). */
PF_KERNEL pf_activate(bf16 *dst, const bf16 *src, int64_t cols, int64_t inter, int64_t act)
{
    const bf16 *row = src + blockIdx.x * cols;
    bf16 *to = dst + blockIdx.x * inter;
    int64_t first = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, step = (int64_t)gridDim.y * blockDim.x;
    if (inter % 8 || cols == inter) {
        for (int64_t i = first; i < inter; i += step)
            to[i] = __float2bfloat16(active(row, cols, inter, i, act));
        return;
    }
    for (int64_t i = first; i < inter / 8; i += step) {
        bf16x8 g = ((const bf16x8 *)row)[i], u = ((const bf16x8 *)(row + inter))[i], r;
        for (int j = 0; j < 8; j++)
            r.v[j] = __float2bfloat16(gated(g.v[j], u.v[j], act));
        ((bf16x8 *)to)[i] = r;
    }
}
