/* The LM head where few answers are asked. Rows of activations and of the table are dense and have cols elements; a table
   of codes has scales for its rows. */
#include "device.h"

/* What a thread takes of a row at a time, as one word. */
template <class T, int n>
struct alignas(n * sizeof(T)) run_of {
    T v[n];
};

static __device__ inline float value(bf16 v) { return __bfloat162float(v); }
static __device__ inline float value(int8_t code) { return (float)code; }

/* A lane's part of a . b: bfloat16 times bfloat16 or codes. */
template <class T>
static __device__ inline float lane_sum(const bf16 *a, const T *b, int64_t cols, int lane)
{
    float sum = 0;
    if (cols % 8) {
        for (int64_t i = lane; i < cols; i += 32)
            sum += value(a[i]) * value(b[i]);
        return sum;
    }
    for (int64_t i = lane; i < cols / 8; i += 32) {
        run_of<bf16, 8> x = ((const run_of<bf16, 8> *)a)[i];
        run_of<T, 8> y = ((const run_of<T, 8> *)b)[i];
        for (int k = 0; k < 8; k++)
            sum += value(x.v[k]) * value(y.v[k]);
    }
    return sum;
}

/* A lane's part of a . b in codes, which is exact; cols is a multiple of 16. */
static __device__ inline int lane_sum(const int8_t *a, const int8_t *b, int64_t cols, int lane)
{
    int sum = 0;
    for (int64_t i = lane; i < cols / 16; i += 32) {
        run_of<int, 4> x = ((const run_of<int, 4> *)a)[i], y = ((const run_of<int, 4> *)b)[i];
        for (int k = 0; k < 4; k++)
            sum = __dp4a(x.v[k], y.v[k], sum); /* four products */
    }
    return sum;
}

/* end(i, id, sum) is stored in dst[i][j], where sum is h[i] . table[id] and id is ids[j]; a warp has a label. */
template <class A, class B, class End>
static __device__ void label_logits(float *dst, int64_t dst_stride, const A *h, const B *table, const uint32_t *ids, int64_t labels, int64_t cols, End end)
{
    int64_t j = (int64_t)blockIdx.x * (PF_BLOCK / 32) + threadIdx.x / 32, row = blockIdx.y;
    int lane = threadIdx.x % 32;
    bool live = j < labels;
    int64_t id = ids[live ? j : 0];
    auto sum = lane_sum(h + row * cols, table + id * cols, cols, lane);
    for (int k = 16; k > 0; k >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, k);
    if (live && lane == 0)
        dst[row * dst_stride + j] = end(row, id, sum);
}

/* Of a table of bfloat16; neither side has scales. grid: (ceil(labels / 8), rows); PF_BLOCK threads. */
PF_KERNEL pf_label_logits(float *dst, int64_t dst_stride, const bf16 *h, const float *, const bf16 *table, const float *, const uint32_t *ids,
                          int64_t labels, int64_t cols)
{
    label_logits(dst, dst_stride, h, table, ids, labels, cols, [](int64_t, int64_t, float sum) { return sum; });
}

/* Of a table of int8 whose activations are not quantised. */
PF_KERNEL pf_label_logits_int8_alone(float *dst, int64_t dst_stride, const bf16 *h, const float *, const int8_t *table, const float *scales,
                                     const uint32_t *ids, int64_t labels, int64_t cols)
{
    label_logits(dst, dst_stride, h, table, ids, labels, cols, [=](int64_t, int64_t id, float sum) { return sum * scales[id]; });
}

/* Of a table of int8 and quantised activations, with the steps and the bits of pf_scale_sums_i32_f32. */
PF_KERNEL pf_label_logits_int8(float *dst, int64_t dst_stride, const int8_t *h, const float *rows, const int8_t *table, const float *scales,
                               const uint32_t *ids, int64_t labels, int64_t cols)
{
    label_logits(dst, dst_stride, h, table, ids, labels, cols,
                 [=](int64_t row, int64_t id, int sum) { return __fmul_rn(__fmul_rn((float)sum, scales[id]), rows[row]); });
}
