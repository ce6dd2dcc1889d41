//go:build cuda

#include "blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of cuBLASLt's interface (version 12 and 13) that is used here. */
enum { COMPUTE_32F = 68, TYPE_32F = 0, TYPE_16BF = 14, OP_T = 1 };
enum { DESC_TRANSA = 3, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8, DESC_BIAS_TYPE = 26 };
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_BIAS = 4 };
enum { PREFERENCE_MAX_WORKSPACE = 1, PREFERENCE_REDUCTION_SCHEMES = 3, PREFERENCE_ALIGNMENT_B = 6, PREFERENCE_ALIGNMENT_C = 7, PREFERENCE_ALIGNMENT_D = 8 };
enum { STATUS_NOT_SUPPORTED = 15 };

/* Algorithms are chosen for products of so many rows and used for any number of them, with no sum
   split among blocks of threads: a row's bits must not depend on the rows beside it. */
enum { TYPICAL_ROWS = 4096 };

typedef struct {
    uint64_t opaque[8];
} algorithm;

typedef struct {
    algorithm algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} heuristic;

typedef struct {
    int (*create)(void **);
    int (*destroy)(void *);
    int (*desc_create)(void **, int, int);
    int (*desc_destroy)(void *);
    int (*desc_set)(void *, int, const void *, size_t);
    int (*layout_create)(void **, int, uint64_t, uint64_t, int64_t);
    int (*layout_destroy)(void *);
    int (*preference_create)(void **);
    int (*preference_destroy)(void *);
    int (*preference_set)(void *, int, const void *, size_t);
    int (*get_heuristic)(void *, void *, void *, void *, void *, void *, void *, int, heuristic *, int *);
    int (*matmul)(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *,
                  void *, void *, const algorithm *, void *, size_t, void *);
} functions;

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"cublasLtCreate", offsetof(functions, create)},
    {"cublasLtDestroy", offsetof(functions, destroy)},
    {"cublasLtMatmulDescCreate", offsetof(functions, desc_create)},
    {"cublasLtMatmulDescDestroy", offsetof(functions, desc_destroy)},
    {"cublasLtMatmulDescSetAttribute", offsetof(functions, desc_set)},
    {"cublasLtMatrixLayoutCreate", offsetof(functions, layout_create)},
    {"cublasLtMatrixLayoutDestroy", offsetof(functions, layout_destroy)},
    {"cublasLtMatmulPreferenceCreate", offsetof(functions, preference_create)},
    {"cublasLtMatmulPreferenceDestroy", offsetof(functions, preference_destroy)},
    {"cublasLtMatmulPreferenceSetAttribute", offsetof(functions, preference_set)},
    {"cublasLtMatmulAlgoGetHeuristic", offsetof(functions, get_heuristic)},
    {"cublasLtMatmul", offsetof(functions, matmul)},
};

/* The descriptors of one shape. */
typedef struct plan {
    struct plan *next;
    int64_t m, n, k, a_stride, d_stride;
    int is_float, has_bias, accumulate;
    uint32_t a_alignment, d_alignment;
    void *desc, *a, *w, *d;
    algorithm algo;
} plan;

struct pf_blas {
    functions f;
    void *library, *handle, *stream, *workspace;
    size_t workspace_bytes;
    plan *plans[256];
};

static const char *const usual[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};

pf_blas *pf_blas_open(const char *library, void *stream, void *workspace, size_t workspace_bytes, char *error, size_t error_size)
{
    pf_blas *b = calloc(1, sizeof *b);
    if (library)
        b->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !library && !b->library && i < sizeof usual / sizeof *usual; i++)
        b->library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    if (!b->library) {
        snprintf(error, error_size, "cuBLASLt cannot be opened: %s", dlerror());
        free(b);
        return NULL;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(b->library, symbols[i].name);
        if (!address) {
            snprintf(error, error_size, "cuBLASLt has no %s", symbols[i].name);
            pf_blas_close(b);
            return NULL;
        }
        memcpy((char *)&b->f + symbols[i].offset, &address, sizeof address);
    }
    int status = b->f.create(&b->handle);
    if (status != 0) {
        snprintf(error, error_size, "cublasLtCreate failed with status %d", status);
        b->handle = NULL;
        pf_blas_close(b);
        return NULL;
    }
    b->stream = stream;
    b->workspace = workspace;
    b->workspace_bytes = workspace_bytes;
    return b;
}

static void free_plan(pf_blas *b, plan *p)
{
    if (p->desc)
        b->f.desc_destroy(p->desc);
    void *layouts[] = {p->a, p->w, p->d};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            b->f.layout_destroy(layouts[i]);
    free(p);
}

void pf_blas_close(pf_blas *b)
{
    for (size_t i = 0; i < sizeof b->plans / sizeof *b->plans; i++)
        for (plan *p = b->plans[i], *next; p; p = next) {
            next = p->next;
            free_plan(b, p);
        }
    if (b->handle)
        b->f.destroy(b->handle);
    dlclose(b->library);
    free(b);
}

/* The layouts of a and d for another number of rows. */
static int describe_rows(pf_blas *b, const plan *p, int64_t rows, void **a, void **d)
{
    int status = b->f.layout_create(a, TYPE_16BF, p->k, rows, p->a_stride);
    return status ? status : b->f.layout_create(d, p->is_float ? TYPE_32F : TYPE_16BF, p->n, rows, p->d_stride);
}

/* Descriptors for column-major cuBLAS: D^T [n, m] = W [n, k] A^T, that is op(W^T stored k x n) with
   transposition. */
static int describe(pf_blas *b, plan *p)
{
    const functions *f = &b->f;
    int transpose = OP_T, epilogue = p->has_bias ? EPILOGUE_BIAS : EPILOGUE_DEFAULT, bias_type = TYPE_16BF, status;
    if ((status = f->desc_create(&p->desc, COMPUTE_32F, TYPE_32F)) ||
        (status = f->desc_set(p->desc, DESC_TRANSA, &transpose, sizeof transpose)) ||
        (status = f->desc_set(p->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue)) ||
        (p->has_bias && (status = f->desc_set(p->desc, DESC_BIAS_TYPE, &bias_type, sizeof bias_type))) ||
        (status = f->layout_create(&p->w, TYPE_16BF, p->k, p->n, p->k)) ||
        (status = describe_rows(b, p, p->m, &p->a, &p->d)))
        return status;
    return 0;
}

static int choose(pf_blas *b, plan *p)
{
    const functions *f = &b->f;
    void *preference = NULL, *a = NULL, *d = NULL;
    heuristic best;
    uint32_t unsplit = 0;
    int found = 0, status;
    if (!(status = describe_rows(b, p, TYPICAL_ROWS, &a, &d)) && !(status = f->preference_create(&preference)) &&
        !(status = f->preference_set(preference, PREFERENCE_MAX_WORKSPACE, &b->workspace_bytes, sizeof b->workspace_bytes)) &&
        !(status = f->preference_set(preference, PREFERENCE_REDUCTION_SCHEMES, &unsplit, sizeof unsplit)) &&
        !(status = f->preference_set(preference, PREFERENCE_ALIGNMENT_B, &p->a_alignment, sizeof p->a_alignment)) &&
        !(status = f->preference_set(preference, PREFERENCE_ALIGNMENT_C, &p->d_alignment, sizeof p->d_alignment)) &&
        !(status = f->preference_set(preference, PREFERENCE_ALIGNMENT_D, &p->d_alignment, sizeof p->d_alignment)))
        status = f->get_heuristic(b->handle, p->desc, p->w, a, d, d, preference, 1, &best, &found);
    if (preference)
        f->preference_destroy(preference);
    if (a)
        f->layout_destroy(a);
    if (d)
        f->layout_destroy(d);
    if (!status && found == 0)
        status = STATUS_NOT_SUPPORTED;
    if (!status)
        p->algo = best.algo;
    return status;
}

/* The largest power of two up to 256 that divides an address. */
static uint32_t alignment(const void *p)
{
    uintptr_t lowest = (uintptr_t)p & -(uintptr_t)p;
    return lowest && lowest < 256 ? (uint32_t)lowest : 256;
}

static plan **find(pf_blas *b, const pf_gemm *g)
{
    uint64_t h = (uint64_t)g->m * 1000003 ^ (uint64_t)g->n * 10007 ^ (uint64_t)g->k * 101 ^ (uint64_t)g->accumulate;
    plan **at = &b->plans[(h ^ h >> 16) & 255];
    for (; *at; at = &(*at)->next) {
        plan *p = *at;
        if (p->m == g->m && p->n == g->n && p->k == g->k && p->a_stride == g->a_stride && p->d_stride == g->d_stride &&
            p->is_float == g->is_float && p->has_bias == (g->bias != NULL) && p->accumulate == g->accumulate &&
            p->a_alignment == alignment(g->a) && p->d_alignment == alignment(g->d))
            break;
    }
    return at;
}

int pf_blas_gemm(pf_blas *b, const pf_gemm *g)
{
    plan **at = find(b, g), *p = *at;
    int status;
    if (!p) {
        p = calloc(1, sizeof *p);
        *p = (plan){.m = g->m, .n = g->n, .k = g->k, .a_stride = g->a_stride, .d_stride = g->d_stride,
                    .is_float = g->is_float, .has_bias = g->bias != NULL, .accumulate = g->accumulate,
                    .a_alignment = alignment(g->a), .d_alignment = alignment(g->d)};
        if ((status = describe(b, p)) || (status = choose(b, p))) {
            free_plan(b, p);
            return status;
        }
        *at = p;
    }
    if (g->bias && (status = b->f.desc_set(p->desc, DESC_BIAS_POINTER, &g->bias, sizeof g->bias)))
        return status;
    float one = 1, beta = g->accumulate ? 1 : 0;
    return b->f.matmul(b->handle, p->desc, &one, g->w, p->w, g->a, p->a, &beta, g->d, p->d, g->d, p->d, &p->algo, b->workspace,
                       b->workspace_bytes, b->stream);
}
