/* Causal attention over blocks for every shape: the path for head dimensions and windows that the
   tensor-core templates do not cover, and for single rows. One block of threads per (row, head). */
#include "device.h"

#define KEYS 128    /* keys of a tile, a thread each */
#define MAX_DIM 256

/* dst = softmax(q k^T scale) v over positions (position - window, position], all when window is 0; scores become
   cap * tanh(score / cap) first, but for a cap of 0.
   grid: (entries, q_heads); KEYS threads. Layout of a block as in store_kv.cu. The online softmax goes
   over tiles aligned at absolute positions (Milakov and Gimelshein, 2018), so a row's bits do not
   depend on how its sequence was cut into chunks. */
PF_KERNEL pf_attention(bf16 *dst, int64_t dst_stride, const bf16 *qkv, int64_t qkv_stride,
                                        const pf_segment *segments, int64_t segment_count, const uint64_t *tables, int64_t q_heads,
                                        int64_t kv_heads, int64_t dim, int64_t block_tokens, float scale, int64_t window, float cap)
{
    __shared__ float q[MAX_DIM], weights[KEYS], parts[2 * KEYS / 32];
    pf_segment s = find_segment(segments, segment_count, blockIdx.x);
    int64_t row = s.row + blockIdx.x - s.first, position = s.position + blockIdx.x - s.first;
    int64_t head = blockIdx.y, kv = head / (q_heads / kv_heads);
    int t = threadIdx.x;
    const uint64_t *blocks = tables + s.table;
    const bf16 *from = qkv + row * qkv_stride + head * dim;
    for (int64_t i = t; i < dim; i += KEYS)
        q[i] = __bfloat162float(from[i]) * scale;
    int64_t first = window > 0 && position >= window ? position - window + 1 : 0;
    float top = -INFINITY, sum = 0, out[MAX_DIM / KEYS] = {};
    for (int64_t tile = first / KEYS * KEYS; tile <= position; tile += KEYS) {
        __syncthreads();
        int64_t key = tile + t;
        float score = -INFINITY;
        if (key >= first && key <= position) {
            const bf16 *k = (const bf16 *)blocks[key / block_tokens] + (kv * block_tokens + key % block_tokens) * dim;
            score = 0;
            for (int64_t i = 0; i < dim; i++)
                score += q[i] * __bfloat162float(k[i]);
            if (cap > 0)
                score = cap * tanhf(score / cap);
        }
        float best = score;
        for (int lane = 16; lane > 0; lane >>= 1)
            best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, lane));
        if (t % 32 == 0)
            parts[t / 32] = best;
        __syncthreads();
        float higher = top;
        for (int i = 0; i < KEYS / 32; i++)
            higher = fmaxf(higher, parts[i]);
        float weight = expf(score - higher), total = weight;
        weights[t] = weight;
        for (int lane = 16; lane > 0; lane >>= 1)
            total += __shfl_xor_sync(0xffffffffu, total, lane);
        if (t % 32 == 0)
            parts[KEYS / 32 + t / 32] = total;
        __syncthreads();
        float rescale = expf(top - higher);
        sum *= rescale;
        for (int i = 0; i < KEYS / 32; i++)
            sum += parts[KEYS / 32 + i];
        top = higher;
        for (int c = 0; c < MAX_DIM / KEYS && c * KEYS + t < dim; c++) {
            float o = out[c] * rescale;
            for (int64_t k = tile < first ? first - tile : 0; k < KEYS && tile + k <= position; k++) {
                int64_t at = tile + k;
                const bf16 *v = (const bf16 *)blocks[at / block_tokens] +
                                ((kv_heads + kv) * block_tokens + at % block_tokens) * dim;
                o += weights[k] * __bfloat162float(v[c * KEYS + t]);
            }
            out[c] = o;
        }
    }
    for (int c = 0; c < MAX_DIM / KEYS && c * KEYS + t < dim; c++)
        dst[row * dst_stride + head * dim + c * KEYS + t] = __float2bfloat16(out[c] / sum);
}
