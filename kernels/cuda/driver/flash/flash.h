/* Causal attention on tensor cores: FlashInfer's templates behind one C function for each family of
   GPUs. Compiled by tools/build/cuda.sh into a static library. */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* o = softmax(q k^T scale) v, where the last of rows queries sees all keys, the one before it all but
   one, and so on. bfloat16; strides in elements; heads of q and o lie side by side. keys >= rows. */
typedef struct {
    const void *q, *k, *v;
    void *o;
    int64_t q_stride, o_stride;   /* from row to row */
    int64_t key_stride;           /* from token to token of k and v */
    int64_t kv_head_stride;       /* from head to head of k and v */
    int64_t rows, keys, q_heads, kv_heads;
    float scale;
} pf_flash;

/* Enqueue on the stream; return 0 or the runtime's error. dim is 64 or 128. The bits of a row depend
   on its query and the keys that it sees, not on rows. */
int pf_flash_sm90(const pf_flash *a, int dim, void *stream); /* Hopper */
int pf_flash_sm80(const pf_flash *a, int dim, void *stream); /* Ampere and Ada */


#ifdef __cplusplus
}
#endif
