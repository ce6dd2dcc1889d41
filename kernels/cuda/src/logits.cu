/* The LM head where few answers are asked. */
#include "device.h"

/* dst[i][j] = h[i] . table[ids[j]], rows of h and table dense. grid: (ceil(labels / 8), rows);
   PF_BLOCK threads, a warp a label. */
PF_KERNEL pf_label_logits(float *dst, int64_t dst_stride, const bf16 *h, const bf16 *table, const uint32_t *ids,
                                           int64_t labels, int64_t cols)
{
    int64_t j = (int64_t)blockIdx.x * (PF_BLOCK / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    bool live = j < labels;
    const bf16 *a = h + blockIdx.y * cols, *b = table + (int64_t)ids[live ? j : 0] * cols;
    float sum = 0;
    if (cols % 8) {
        for (int64_t i = lane; i < cols; i += 32)
            sum += __bfloat162float(a[i]) * __bfloat162float(b[i]);
    } else {
        for (int64_t i = lane; i < cols / 8; i += 32) {
            bf16x8 x = ((const bf16x8 *)a)[i], y = ((const bf16x8 *)b)[i];
            for (int k = 0; k < 8; k++)
                sum += __bfloat162float(x.v[k]) * __bfloat162float(y.v[k]);
        }
    }
    for (int k = 16; k > 0; k >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, k);
    if (live && lane == 0)
        dst[blockIdx.y * dst_stride + j] = sum;
}
