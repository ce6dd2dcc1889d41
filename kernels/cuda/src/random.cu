/* Weights that need no upload: the same bits as engine/weights.Random makes on the host. */
#include "codes.h"

/* The output function of splitmix64 (Steele, Lea, Flood 2014, figure 16). */
static __device__ inline uint64_t splitmix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Number i of a matrix: (a + b + c + d - 131070) * scale, where a to d are the 16-bit parts of
   splitmix64's i-th number from key on. */
static __device__ inline float random_value(int64_t i, uint64_t key, float scale)
{
    uint64_t z = splitmix(key + (uint64_t)i * 0x9e3779b97f4a7c15u);
    int sum = (int)(z & 0xffff) + (int)(z >> 16 & 0xffff) + (int)(z >> 32 & 0xffff) + (int)(z >> 48) - 131070;
    return (float)sum * scale;
}

/* dst[i] = number i. grid: any. */
PF_KERNEL pf_fill_random(bf16 *dst, int64_t count, uint64_t key, float scale)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        dst[i] = __float2bfloat16(random_value(i, key, scale));
}

/* A row of numbers in codes, and the bfloat16 scale that gives the largest of them the largest code. */
template <class Format>
static __device__ void fill_row(void *dst, int64_t stride, float *scales, int64_t cols, uint64_t key, float scale)
{
    int64_t first = blockIdx.x * cols;
    typename Format::code *codes = (typename Format::code *)dst + blockIdx.x * stride;
    float top = 0;
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        top = fmaxf(top, fabsf(random_value(first + i, key, scale)));
    float worth = rounded(Format::scale(block_max(top)));
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        codes[i] = Format::of(random_value(first + i, key, scale) / worth);
    if (threadIdx.x == 0)
        scales[blockIdx.x] = worth;
}

/* Rows of codes, stride apart. grid: rows; PF_BLOCK threads. */
PF_KERNEL pf_fill_random_fp8(void *dst, int64_t stride, float *scales, int64_t cols, uint64_t key, float scale)
{
    fill_row<fp8_format>(dst, stride, scales, cols, key, scale);
}

PF_KERNEL pf_fill_random_int8(void *dst, int64_t stride, float *scales, int64_t cols, uint64_t key, float scale)
{
    fill_row<int8_format>(dst, stride, scales, cols, key, scale);
}
