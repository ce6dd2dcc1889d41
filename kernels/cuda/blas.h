/* Matrix products by cuBLASLt, which is opened at run time: a binary built here starts on machines
   that have neither the library nor a GPU. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct pf_blas pf_blas;

/* D = A W^T + bias (+ D), row-major; A [m, k] and W [n, k] bfloat16, sums float32. */
typedef struct {
    const void *a, *w, *bias; /* bias: [n] bfloat16, with a bfloat16 d alone, or null */
    void *d;
    int64_t m, n, k, a_stride, d_stride;
    int is_float, accumulate; /* D is float32; D += */
} pf_gemm;

/* Opens the library by name (null: its usual names) for the current context and stream. On failure
   returns null with a message in error. */
pf_blas *pf_blas_open(const char *library, void *stream, void *workspace, size_t workspace_bytes, char *error, size_t error_size);
void pf_blas_close(pf_blas *b);

/* Enqueues the product; returns 0, or cuBLAS's status. Plans are kept by shape. */
int pf_blas_gemm(pf_blas *b, const pf_gemm *g);
