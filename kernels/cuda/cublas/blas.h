/* Matrix products by cuBLASLt, which is opened at run time: a binary built here starts on machines
   that have neither the library nor a GPU. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct pf_blas pf_blas;

/* What a product multiplies. */
enum pf_operands { PF_BFLOAT16, PF_FP8, PF_INT8 };

/* The rows of int8 products are a multiple of so many. */
enum { PF_INT8_ROWS = 32 };

/* D = A W^T + bias (+ D), row-major; sums are float32, of int8 int32. Addresses are the device's, 0 for none; strides
   are in elements. */
typedef struct {
    uint64_t a, w, bias, d;    /* A [m, k], W [n, k] dense; bias [n] bfloat16, with a bfloat16 D alone */
    uint64_t a_scale, w_scale; /* of FP8: float32 [m] and [n] that the sums are multiplied by, or 0 */
    int64_t m, n, k, a_stride, d_stride;
    enum pf_operands operands;
    int is_float, accumulate;  /* D is float32, else bfloat16; D +=. Of int8, D is the sums, and neither is said */
} pf_gemm;

/* Opens the library by name (null: its usual names) for the current context and stream. On failure
   returns null with a message in error. */
pf_blas *pf_blas_open(const char *library, void *stream, char *error, size_t error_size);
void pf_blas_close(pf_blas *b);

/* Chooses an algorithm for products as g but with any number of rows, of which g->m is not read; returns as pf_blas_gemm. */
int pf_blas_choose(pf_blas *b, const pf_gemm *g, char *error, size_t error_size);

/* Enqueues the product; returns 0, or a status with a message in error. */
int pf_blas_gemm(pf_blas *b, const pf_gemm *g, char *error, size_t error_size);
