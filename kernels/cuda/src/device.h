/* What a kernel source needs of CUDA, or of the host shim that runs the same source in tests
   (PF_SIMT): types, conversions, and reductions over a block. */
#pragma once
#include <stdint.h>
#ifdef PF_SIMT
#include "../simt/simt.h"
#define PF_KERNEL static void
#define PF_ARGUMENT
#define PF_FOUR_BLOCKS
#else
#include <cuda_bf16.h>
#define PF_KERNEL extern "C" __global__ void
#define PF_FOUR_BLOCKS __launch_bounds__(256, 4) /* of PF_BLOCK side by side on an SM */
#define PF_ARGUMENT __grid_constant__ /* a structure that is read where it is, not copied */
#endif

typedef __nv_bfloat16 bf16;

/* Threads of every block that reduces; a power of two, at most 1024. */
#define PF_BLOCK 256

/* Eight bfloat16 values, moved as one 16-byte word. */
struct alignas(16) bf16x8 {
    bf16 v[8];
};

/* The sum of v over the block, the same bits in every thread. The order of summation depends on
   PF_BLOCK alone. */
static __device__ float block_sum(float v)
{
    __shared__ float parts[PF_BLOCK / 32];
    for (int lane = 16; lane > 0; lane >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, lane);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = v;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < PF_BLOCK / 32; i++)
        sum += parts[i];
    __syncthreads();
    return sum;
}

/* The larger of two, or NaN if either is one; fmaxf would drop it. */
static __device__ inline float larger(float a, float b) { return b > a || b != b ? b : a; }

/* The largest v over the block, in every thread; NaN if there is one. */
static __device__ float block_max(float v)
{
    __shared__ float parts[PF_BLOCK / 32];
    for (int lane = 16; lane > 0; lane >>= 1)
        v = larger(v, __shfl_xor_sync(0xffffffffu, v, lane));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = v;
    __syncthreads();
    float top = parts[0];
    for (int i = 1; i < PF_BLOCK / 32; i++)
        top = larger(top, parts[i]);
    __syncthreads();
    return top;
}

/* One sequence's part of a launch over entries: entries from first on (up to the next segment's
   first) are rows row, row + 1, ... of the matrices, at positions position, position + 1, ...; its
   blocks' addresses are at tables[table]. */
struct pf_segment {
    int64_t first, row, position, table;
};

/* The segment of an entry; segments are in the order of first, and there are few. */
static __device__ inline pf_segment find_segment(const pf_segment *segments, int64_t count, int64_t entry)
{
    int64_t i = 0;
    while (i + 1 < count && segments[i + 1].first <= entry)
        i++;
    return segments[i];
}
