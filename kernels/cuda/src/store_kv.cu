/* Per-head normalisation, rotation, and the write of keys and values into blocks. A block holds, for
   one layer, keys [kv head][token][dim] and then values of the same shape. */
#include "device.h"

/* One warp a head of an entry: grid (entries, q_heads + 2 * kv_heads), 32 threads. q_norm and k_norm
   are [dim], or null; cos and sin are [position][dim / 2]. */
PF_KERNEL pf_store_kv(bf16 *qkv, int64_t qkv_stride, const pf_segment *segments, int64_t segment_count,
                                       const uint64_t *tables, const float *cos, const float *sin, const float *q_norm,
                                       const float *k_norm, int64_t q_heads, int64_t kv_heads, int64_t dim, int64_t block_tokens,
                                       float eps)
{
    pf_segment s = find_segment(segments, segment_count, blockIdx.x);
    int64_t offset = blockIdx.x - s.first, head = blockIdx.y, half = dim / 2, position = s.position + offset;
    bf16 *from = qkv + (s.row + offset) * qkv_stride + head * dim;
    bf16 *to = from;
    if (head >= q_heads) { /* planes of a block: the keys' heads, then the values' */
        bf16 *block = (bf16 *)tables[s.table + position / block_tokens];
        to = block + ((head - q_heads) * block_tokens + position % block_tokens) * dim;
    }
    if (head >= q_heads + kv_heads) {
        for (int64_t i = threadIdx.x; i < dim; i += 32)
            to[i] = from[i];
        return;
    }
    const float *norm = head < q_heads ? q_norm : k_norm;
    float scale = 1;
    if (norm) {
        float squares = 0;
        for (int64_t i = threadIdx.x; i < dim; i += 32) {
            float v = __bfloat162float(from[i]);
            squares += v * v;
        }
        for (int lane = 16; lane > 0; lane >>= 1)
            squares += __shfl_xor_sync(0xffffffffu, squares, lane);
        scale = rsqrtf(squares / (float)dim + eps);
    }
    cos += position * half;
    sin += position * half;
    for (int64_t i = threadIdx.x; i < half; i += 32) {
        float x = __bfloat162float(from[i]), y = __bfloat162float(from[i + half]);
        if (norm) {
            x *= scale * norm[i];
            y *= scale * norm[i + half];
        }
        to[i] = __float2bfloat16(x * cos[i] - y * sin[i]);
        to[i + half] = __float2bfloat16(y * cos[i] + x * sin[i]);
    }
}

/* Divides the queries of an entry, of all heads together, by their root mean square, in place, and its keys, and multiplies them by
   weights. grid: (entries, 2), queries and keys; PF_BLOCK threads. */
PF_KERNEL pf_norm_heads(bf16 *qkv, int64_t qkv_stride, const pf_segment *segments, int64_t segment_count, const float *q_norm, const float *k_norm,
                        int64_t q_cols, int64_t k_cols, float eps)
{
    pf_segment s = find_segment(segments, segment_count, blockIdx.x);
    bf16 *row = qkv + (s.row + blockIdx.x - s.first) * qkv_stride + (blockIdx.y ? q_cols : 0);
    const float *norm = blockIdx.y ? k_norm : q_norm;
    int64_t cols = blockIdx.y ? k_cols : q_cols;
    if (!norm || cols == 0)
        return;
    float squares = 0;
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK) {
        float v = __bfloat162float(row[i]);
        squares += v * v;
    }
    float inverse = rsqrtf(block_sum(squares) / (float)cols + eps);
    for (int64_t i = threadIdx.x; i < cols; i += PF_BLOCK)
        row[i] = __float2bfloat16(__bfloat162float(row[i]) * inverse * norm[i]);
}
