/* What Go calls: a kernel by name, and a plain matrix product in place of the library's. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns -1 after a launch, -2 for an unknown kernel, or the number of words the kernel takes. */
int simt_launch(const char *name, unsigned x, unsigned y, unsigned threads, const uint64_t *words, size_t count);

/* D = A W^T + bias (+ D); strides in elements, pointers as addresses. */
typedef struct {
    uint64_t a, w, bias, d;
    int64_t m, n, k, a_stride, d_stride;
    int is_float, accumulate;
} simt_gemm_args;

void simt_gemm(const simt_gemm_args *g);

#ifdef __cplusplus
}
#endif
