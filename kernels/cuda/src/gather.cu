/* Blocks into contiguous memory, for attention templates that take one stride from token to token. */
#include "device.h"

/* Copies blocks first, first + 1, ... of a table to their tokens' places in dst, which holds a plane
   [capacity][dim] for each key head and then for each value head, as blocks do.
   grid: (blocks, 2 * kv_heads). dim is a multiple of 8. */
PF_KERNEL pf_gather_kv(bf16 *dst, const uint64_t *table, int64_t first, int64_t capacity, int64_t block_tokens, int64_t dim)
{
    int64_t block = first + blockIdx.x, plane = blockIdx.y;
    const bf16x8 *from = (const bf16x8 *)((const bf16 *)table[block] + plane * block_tokens * dim);
    bf16x8 *to = (bf16x8 *)(dst + (plane * capacity + block * block_tokens) * dim);
    for (int64_t i = threadIdx.x; i < block_tokens * dim / 8; i += blockDim.x)
        to[i] = from[i];
}
