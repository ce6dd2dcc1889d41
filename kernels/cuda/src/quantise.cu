/* The kernels of weights in codes, FP8 and int8: those that quantise rows of activations beside what they compute,
   those that scale sums of products of codes, and those that make weights bfloat16. As in elementwise.cu, one block
   works on one row. */
#include "codes.h"
#include "rows.h"

/* Quantises a row of values given by at(i): codes and one scale, value = code * scale. The formats divide: many
   quotients of bfloat16 numbers are ties, and a product with the reciprocal would break them either way. */
template <class Format, class At>
static __device__ void quantise_row(typename Format::code *codes, float *scale, int64_t cols, At at)
{
    float top = 0;
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        top = larger(top, fabsf(at(i)));
    float worth = Format::scale(block_max(top));
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        codes[i] = Format::of(at(i) / worth);
    if (threadIdx.x == 0)
        *scale = worth;
}

template <class Format>
static __device__ void norm_codes(void *dst, int64_t dst_stride, float *scales, const float *x, int64_t x_stride, const float *w, const float *b, int64_t cols,
                                  float eps, int64_t centred)
{
    const float *from = x + blockIdx.x * x_stride;
    norm_of norm(from, w, b, cols, eps, centred);
    quantise_row<Format>((typename Format::code *)dst + blockIdx.x * dst_stride, scales + blockIdx.x, cols, [&](int64_t i) { return rounded(norm(from, i)); });
}

template <class Format>
static __device__ void active_codes(void *dst, int64_t dst_stride, float *scales, const bf16 *src, int64_t cols, int64_t inter, int64_t act)
{
    const bf16 *row = src + blockIdx.x * cols;
    quantise_row<Format>((typename Format::code *)dst + blockIdx.x * dst_stride, scales + blockIdx.x, inter,
                         [&](int64_t i) { return rounded(active(row, cols, inter, i, act)); });
}

template <class Format>
static __device__ void codes_of(void *dst, int64_t dst_stride, float *scales, const bf16 *src, int64_t stride, int64_t cols)
{
    const bf16 *from = src + blockIdx.x * stride;
    quantise_row<Format>((typename Format::code *)dst + blockIdx.x * dst_stride, scales + blockIdx.x, cols, [&](int64_t i) { return __bfloat162float(from[i]); });
}

/* As pf_norm, quantised: codes in rows dst_stride apart, scales[row]. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_norm_fp8(void *dst, int64_t dst_stride, float *scales, const float *x, int64_t x_stride, const float *w, const float *b, int64_t cols, float eps,
                      int64_t centred)
{
    norm_codes<fp8_format>(dst, dst_stride, scales, x, x_stride, w, b, cols, eps, centred);
}

PF_KERNEL pf_norm_int8(void *dst, int64_t dst_stride, float *scales, const float *x, int64_t x_stride, const float *w, const float *b, int64_t cols, float eps,
                       int64_t centred)
{
    norm_codes<int8_format>(dst, dst_stride, scales, x, x_stride, w, b, cols, eps, centred);
}

/* As pf_activate, quantised. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_activate_fp8(void *dst, int64_t dst_stride, float *scales, const bf16 *src, int64_t cols, int64_t inter, int64_t act)
{
    active_codes<fp8_format>(dst, dst_stride, scales, src, cols, inter, act);
}

PF_KERNEL pf_activate_int8(void *dst, int64_t dst_stride, float *scales, const bf16 *src, int64_t cols, int64_t inter, int64_t act)
{
    active_codes<int8_format>(dst, dst_stride, scales, src, cols, inter, act);
}

/* Rows of src, stride apart, quantised. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_quantise_fp8(void *dst, int64_t dst_stride, float *scales, const bf16 *src, int64_t stride, int64_t cols)
{
    codes_of<fp8_format>(dst, dst_stride, scales, src, stride, cols);
}

PF_KERNEL pf_quantise_int8(void *dst, int64_t dst_stride, float *scales, const bf16 *src, int64_t stride, int64_t cols)
{
    codes_of<int8_format>(dst, dst_stride, scales, src, stride, cols);
}

/* A matrix of sums in float32 or int32, what they are multiplied with, what is added, and where they go. */
struct pf_scaling {
    void *dst;
    int64_t stride;
    const void *sums;
    int64_t sums_stride;
    const float *rows, *columns; /* scales; rows may be null, for 1 */
    const bf16 *bias;            /* may be null */
    int64_t cols;
};

/* Calls end(place, sum * column's scale * row's scale + bias) for the thread's columns of its row. Each step is rounded by
   itself, in the order of kernels/ref: of exact sums the bits are the reference's. */
template <class Sum, class To, class End>
static __device__ void scale_row(const pf_scaling &s, End end)
{
    const Sum *from = (const Sum *)s.sums + blockIdx.x * s.sums_stride;
    To *to = (To *)s.dst + blockIdx.x * s.stride;
    float row = s.rows ? s.rows[blockIdx.x] : 1.0f;
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < s.cols; i += (int64_t)gridDim.y * blockDim.x) {
        float v = __fmul_rn(__fmul_rn((float)from[i], s.columns[i]), row);
        end(to[i], s.bias ? __fadd_rn(v, __bfloat162float(s.bias[i])) : v);
    }
}

struct stores {
    __device__ void operator()(bf16 &to, float v) const { to = __float2bfloat16(v); }
    __device__ void operator()(float &to, float v) const { to = v; }
};
struct adds {
    __device__ void operator()(float &to, float v) const { to = __fadd_rn(v, to); }
};

/* Scaled sums in bfloat16 or float32, or added to float32; those whose names have i32 take sums in int32.
   grid: (rows, any). */
PF_KERNEL pf_scale_sums(PF_ARGUMENT const pf_scaling s) { scale_row<float, bf16>(s, stores()); }
PF_KERNEL pf_scale_sums_f32(PF_ARGUMENT const pf_scaling s) { scale_row<float, float>(s, stores()); }
PF_KERNEL pf_add_scaled_sums(PF_ARGUMENT const pf_scaling s) { scale_row<float, float>(s, adds()); }
PF_KERNEL pf_scale_sums_i32(PF_ARGUMENT const pf_scaling s) { scale_row<int32_t, bf16>(s, stores()); }
PF_KERNEL pf_scale_sums_i32_f32(PF_ARGUMENT const pf_scaling s) { scale_row<int32_t, float>(s, stores()); }
PF_KERNEL pf_add_scaled_sums_i32(PF_ARGUMENT const pf_scaling s) { scale_row<int32_t, float>(s, adds()); }

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

/* dst = int8 codes as bfloat16, which is exact: weights of one layer whose activations are not quantised. dst begins at a
   multiple of 16 bytes; codes do, but for views of a table of odd width. grid: any. */
PF_KERNEL pf_widen_int8(bf16 *dst, const int8_t *codes, int64_t count)
{
    struct alignas(8) int8x8 {
        int8_t v[8];
    };
    int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, step = (int64_t)gridDim.x * blockDim.x, whole = (uintptr_t)codes % 8 ? 0 : count / 8;
    for (int64_t i = first; i < whole; i += step) {
        int8x8 c = ((const int8x8 *)codes)[i];
        bf16x8 r;
        for (int j = 0; j < 8; j++)
            r.v[j] = __float2bfloat16((float)c.v[j]);
        ((bf16x8 *)dst)[i] = r;
    }
    for (int64_t i = 8 * whole + first; i < count; i += step)
        dst[i] = __float2bfloat16((float)codes[i]);
}
