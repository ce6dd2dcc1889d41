/* What Go calls: a kernel by name, and a plain matrix product and attention in place of the libraries'. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns -1 after a launch, -2 for an unknown kernel, or the number of words the kernel takes. */
int simt_launch(const char *name, unsigned x, unsigned y, unsigned threads, const uint64_t *words, size_t count);

/* What a product multiplies. */
enum simt_type { SIMT_BF16, SIMT_FP8, SIMT_INT8 };

/* D = A W^T + bias (+ D); FP8 is scaled where a_scale is given, D of int8 is int32 sums and nothing else. Strides in
   elements, pointers as addresses. */
typedef struct {
    uint64_t a, w, bias, d, a_scale, w_scale;
    int64_t m, n, k, a_stride, d_stride;
    enum simt_type type;
    int is_float, accumulate;
} simt_gemm_args;

void simt_gemm(const simt_gemm_args *g);

/* Causal attention as ../flash/flash.h has it, for any dim. */
typedef struct {
    uint64_t q, k, v, o;
    int64_t q_stride, o_stride, key_stride, kv_head_stride, rows, keys, q_heads, kv_heads, dim;
    float scale;
} simt_flash_args;

void simt_flash(const simt_flash_args *f);

/* Attention as cuda.Paged describes it. */
typedef struct {
    uint64_t q, k, v, o, rows, keys, table, q_offset, o_offset;
    int64_t q_stride, o_stride, batch, table_width, q_heads, kv_heads, dim, block_tokens, window;
    float scale;
} simt_paged_args;

void simt_paged(const simt_paged_args *p);

#ifdef __cplusplus
}
#endif
