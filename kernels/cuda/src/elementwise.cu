/* The kernels between the matrix products: embedding, RMSNorm, rotation with KV write, SwiGLU, and
   those that quantise to FP8 and scale its sums. One block works on one row (or one head of one row), so a row's
   bits depend on nothing beside it. Free of inline assembly: the host shim runs this very file. */
#include "device.h"

/* x[row] = table[ids[row]] as float32. grid: rows. */
PF_KERNEL pf_embed(float *x, int64_t x_stride, const bf16 *table, const uint32_t *ids, int64_t cols)
{
    float *to = x + blockIdx.x * x_stride;
    const bf16 *from = table + (int64_t)ids[blockIdx.x] * cols;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        to[i] = __bfloat162float(from[i]);
}

static __device__ inline float widen(float v) { return v; }
static __device__ inline float widen(bf16 v) { return __bfloat162float(v); }

template <class T>
static __device__ inline void add_sum(float *x, const uint64_t *parts, int64_t count, int64_t row, int64_t cols)
{
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < cols; i += (int64_t)gridDim.y * blockDim.x) {
        float sum = widen(((const T *)parts[0])[row + i]);
        for (int64_t p = 1; p < count; p++)
            sum += widen(((const T *)parts[p])[row + i]);
        x[i] += sum;
    }
}

/* x[row] += the sum of the count matrices at parts, each of which has rows stride apart; they are summed
   in their order first. grid: (rows, any). */
PF_KERNEL pf_add_sum(float *x, int64_t x_stride, const uint64_t *parts, int64_t count, int64_t stride, int64_t cols)
{
    add_sum<float>(x + blockIdx.x * x_stride, parts, count, blockIdx.x * stride, cols);
}

/* As pf_add_sum, of bfloat16 matrices. */
PF_KERNEL pf_add_sum_bf16(float *x, int64_t x_stride, const uint64_t *parts, int64_t count, int64_t stride, int64_t cols)
{
    add_sum<bf16>(x + blockIdx.x * x_stride, parts, count, blockIdx.x * stride, cols);
}

/* The reciprocal root mean square of a row of x. */
static __device__ float inverse_rms(const float *x, int64_t cols, float eps)
{
    float squares = 0;
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        squares += x[i] * x[i];
    return rsqrtf(block_sum(squares) / (float)cols + eps);
}

/* dst[row] = x[row] / rms(x[row]) * w, rows of dst dense. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_rms_norm(bf16 *dst, const float *x, int64_t x_stride, const float *w, int64_t cols, float eps)
{
    const float *from = x + blockIdx.x * x_stride;
    bf16 *to = dst + blockIdx.x * cols;
    float scale = inverse_rms(from, cols, eps);
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        to[i] = __float2bfloat16(from[i] * scale * w[i]);
}

/* x[row] += bias. grid: rows. */
PF_KERNEL pf_add_bias(float *x, int64_t x_stride, const bf16 *bias, int64_t cols)
{
    float *to = x + blockIdx.x * x_stride;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
        to[i] += __bfloat162float(bias[i]);
}

/* Quantises a row of values given by at(i): codes and one scale, value = code * scale.
   Per-token dynamic quantisation as in compressed-tensors' FP8-dynamic, which divides: many quotients
   of bfloat16 numbers are ties, and a product with the reciprocal would break them either way. */
template <class At>
static __device__ void quantise_row(uint8_t *codes, float *scale, int64_t cols, At at)
{
    float top = 0;
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        top = fmaxf(top, fabsf(at(i)));
    top = fmaxf(block_max(top), 1e-12f);
    float worth = top / 448.0f;
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        codes[i] = to_e4m3(at(i) / worth);
    if (threadIdx.x == 0)
        *scale = worth;
}

/* As pf_rms_norm, quantised: dst codes, scales[row]. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_rms_norm_fp8(uint8_t *dst, float *scales, const float *x, int64_t x_stride, const float *w,
                                           int64_t cols, float eps)
{
    const float *from = x + blockIdx.x * x_stride;
    float inverse = inverse_rms(from, cols, eps);
    quantise_row(dst + blockIdx.x * cols, scales + blockIdx.x, cols,
                 [&](int64_t i) { return __bfloat162float(__float2bfloat16(from[i] * inverse * w[i])); });
}

static __device__ inline float swiglu(bf16 gate, bf16 up)
{
    float g = __bfloat162float(gate);
    return g / (1.0f + expf(-g)) * __bfloat162float(up);
}

/* dst[row][i] = silu(gate_up[row][i]) * gate_up[row][inter + i], rows dense. grid: (rows, any). */
PF_KERNEL pf_swiglu(bf16 *dst, const bf16 *gate_up, int64_t inter)
{
    const bf16 *gate = gate_up + blockIdx.x * 2 * inter, *up = gate + inter;
    bf16 *to = dst + blockIdx.x * inter;
    int64_t first = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, step = (int64_t)gridDim.y * blockDim.x;
    if (inter % 8) {
        for (int64_t i = first; i < inter; i += step)
            to[i] = __float2bfloat16(swiglu(gate[i], up[i]));
        return;
    }
    for (int64_t i = first; i < inter / 8; i += step) {
        bf16x8 g = ((const bf16x8 *)gate)[i], u = ((const bf16x8 *)up)[i], r;
        for (int j = 0; j < 8; j++)
            r.v[j] = __float2bfloat16(swiglu(g.v[j], u.v[j]));
        ((bf16x8 *)to)[i] = r;
    }
}

/* As pf_swiglu, quantised. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_swiglu_fp8(uint8_t *dst, float *scales, const bf16 *gate_up, int64_t inter)
{
    const bf16 *gate = gate_up + blockIdx.x * 2 * inter, *up = gate + inter;
    quantise_row(dst + blockIdx.x * inter, scales + blockIdx.x, inter,
                 [&](int64_t i) { return __bfloat162float(__float2bfloat16(swiglu(gate[i], up[i]))); });
}

/* Rows of src, stride apart, quantised. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_quantise_fp8(uint8_t *dst, float *scales, const bf16 *src, int64_t stride, int64_t cols)
{
    const bf16 *from = src + blockIdx.x * stride;
    quantise_row(dst + blockIdx.x * cols, scales + blockIdx.x, cols, [&](int64_t i) { return __bfloat162float(from[i]); });
}

/* Calls end(i, sums[row][i] * row_scales[row] * column_scales[i] + bias[i]) for the thread's columns of
   a row of sums; bias may be null. */
template <class End>
static __device__ void scale_row(const float *sums, const float *row_scales, const float *column_scales, const bf16 *bias, int64_t cols, End end)
{
    const float *from = sums + blockIdx.x * cols;
    float scale = row_scales[blockIdx.x];
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < cols; i += (int64_t)gridDim.y * blockDim.x)
        end(i, from[i] * scale * column_scales[i] + (bias ? __bfloat162float(bias[i]) : 0.0f));
}

/* dst = scaled sums + bias as bfloat16, rows of sums dense. grid: (rows, any). */
PF_KERNEL pf_scale_sums(bf16 *dst, int64_t stride, const float *sums, const float *row_scales, const float *column_scales, const bf16 *bias, int64_t cols)
{
    bf16 *to = dst + blockIdx.x * stride;
    scale_row(sums, row_scales, column_scales, bias, cols, [&](int64_t i, float v) { to[i] = __float2bfloat16(v); });
}

/* As pf_scale_sums, in float32. */
PF_KERNEL pf_scale_sums_f32(float *dst, int64_t stride, const float *sums, const float *row_scales, const float *column_scales, const bf16 *bias, int64_t cols)
{
    float *to = dst + blockIdx.x * stride;
    scale_row(sums, row_scales, column_scales, bias, cols, [&](int64_t i, float v) { to[i] = v; });
}

/* As pf_scale_sums, added to float32. */
PF_KERNEL pf_add_scaled_sums(float *dst, int64_t stride, const float *sums, const float *row_scales, const float *column_scales, const bf16 *bias, int64_t cols)
{
    float *to = dst + blockIdx.x * stride;
    scale_row(sums, row_scales, column_scales, bias, cols, [&](int64_t i, float v) { to[i] += v; });
}

/* dst = FP8 codes times the scale of their row, as bfloat16: weights of one layer on devices without
   FP8 arithmetic. grid: (rows, any). */
PF_KERNEL pf_dequantise_fp8(bf16 *dst, const uint8_t *codes, const float *scales, int64_t cols)
{
    const uint8_t *from = codes + blockIdx.x * cols;
    bf16 *to = dst + blockIdx.x * cols;
    float scale = scales[blockIdx.x];
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < cols; i += (int64_t)gridDim.y * blockDim.x) {
        uint32_t c = from[i], magnitude = c & 0x7f;
        float v = magnitude >= 8 ? __uint_as_float((magnitude << 20) + (120u << 23)) : (float)magnitude * 0.001953125f;
        if (magnitude == 0x7f)
            v = __uint_as_float(0x7fc00000u);
        to[i] = __float2bfloat16((c & 0x80 ? -v : v) * scale);
    }
}
