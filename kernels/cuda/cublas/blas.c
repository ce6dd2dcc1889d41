#include "blas.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of cuBLASLt's interface (version 12 and 13) that is used here. */
enum { COMPUTE_32F = 68, COMPUTE_32I = 72, TYPE_32F = 0, TYPE_8I = 3, TYPE_32I = 10, TYPE_16BF = 14, TYPE_8F_E4M3 = 28, OP_T = 1 };
enum {
    DESC_TRANSA = 3, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8, DESC_A_SCALE_POINTER = 17, DESC_B_SCALE_POINTER = 18,
    DESC_BIAS_TYPE = 26, DESC_A_SCALE_MODE = 31, DESC_B_SCALE_MODE = 32,
};
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_BIAS = 4, SCALE_OUTER_VECTOR = 3, LAYOUT_COLS = 3 };
enum { PREFERENCE_MAX_WORKSPACE = 1, PREFERENCE_REDUCTION_SCHEMES = 3, PREFERENCE_ALIGNMENT_B = 6, PREFERENCE_ALIGNMENT_C = 7, PREFERENCE_ALIGNMENT_D = 8 };
enum { CONFIG_SPLIT_K = 2, CONFIG_REDUCTION_SCHEME = 3 };
enum { STATUS_ALLOC_FAILED = 3, STATUS_INVALID_VALUE = 7, STATUS_NOT_SUPPORTED = 15 };

/* A row's bits must not depend on the rows beside it. So one algorithm is chosen for all products with
   the same matrix, whatever their number of rows: its tile, stages and order of the sum over k are part
   of it, and an element of the result is one such sum in one block of threads; more rows are more
   blocks, and rows that a tile has beyond the last are masked. What would break this is a sum in parts
   that several blocks compute, as split-K and stream-K have: how many parts there are depends on the
   number of rows. Such algorithms say so in their configuration, or need memory for the parts; none
   gets any. Sums of int8 are exact in any order: for them this is not needed, but that there is no memory holds. */

/* Candidates are asked for at these numbers of rows, the first of which is most of the work, ... */
static const int64_t asked_rows[] = {4096, 512, 64, 1};
enum { CANDIDATES = 32 };
/* ... and must be able to compute these. */
static const int64_t checked_rows[] = {1, 2, 7, 16, 33, 128, 150, 512, 1000, 4096};

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
    int (*layout_set)(void *, int, const void *, size_t);
    int (*preference_create)(void **);
    int (*preference_destroy)(void *);
    int (*preference_set)(void *, int, const void *, size_t);
    int (*get_heuristic)(void *, void *, void *, void *, void *, void *, void *, int, heuristic *, int *);
    int (*config_get)(const algorithm *, int, void *, size_t, size_t *);
    int (*check)(void *, void *, void *, void *, void *, void *, const algorithm *, heuristic *);
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
    {"cublasLtMatrixLayoutSetAttribute", offsetof(functions, layout_set)},
    {"cublasLtMatmulPreferenceCreate", offsetof(functions, preference_create)},
    {"cublasLtMatmulPreferenceDestroy", offsetof(functions, preference_destroy)},
    {"cublasLtMatmulPreferenceSetAttribute", offsetof(functions, preference_set)},
    {"cublasLtMatmulAlgoGetHeuristic", offsetof(functions, get_heuristic)},
    {"cublasLtMatmulAlgoConfigGetAttribute", offsetof(functions, config_get)},
    {"cublasLtMatmulAlgoCheck", offsetof(functions, check)},
    {"cublasLtMatmul", offsetof(functions, matmul)},
};

/* All that a choice depends on. */
typedef struct {
    int64_t n, k, a_stride, d_stride;
    int64_t operands, scaled, is_float, has_bias, accumulate;
    int64_t a_alignment, d_alignment;
} shape;

/* The descriptors of a shape and the algorithm chosen for it; a and d have the rows of the last use. */
typedef struct choice {
    struct choice *next;
    shape shape;
    void *desc, *a, *w, *d;
    algorithm algo;
} choice;

struct pf_blas {
    functions f;
    void *library, *handle, *stream;
    choice *choices;
};

static const char *const usual[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};

pf_blas *pf_blas_open(const char *library, void *stream, char *error, size_t error_size)
{
    pf_blas *b = calloc(1, sizeof *b);
    if (!b) {
        snprintf(error, error_size, "no memory");
        return NULL;
    }
    if (library)
        b->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !library && !b->library && i < COUNT(usual); i++)
        b->library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    if (!b->library) {
        snprintf(error, error_size, "cuBLASLt cannot be opened: %s", dlerror());
        free(b);
        return NULL;
    }
    for (size_t i = 0; i < COUNT(symbols); i++) {
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
    return b;
}

static void free_choice(pf_blas *b, choice *c)
{
    if (c->desc)
        b->f.desc_destroy(c->desc);
    void *layouts[] = {c->a, c->w, c->d};
    for (size_t i = 0; i < COUNT(layouts); i++)
        if (layouts[i])
            b->f.layout_destroy(layouts[i]);
    free(c);
}

void pf_blas_close(pf_blas *b)
{
    for (choice *c = b->choices, *next; c; c = next) {
        next = c->next;
        free_choice(b, c);
    }
    if (b->handle)
        b->f.destroy(b->handle);
    dlclose(b->library);
    free(b);
}

static const struct {
    int operand, compute, scale;
    const char *name;
} kinds[] = {
    [PF_BFLOAT16] = {TYPE_16BF, COMPUTE_32F, TYPE_32F, "bfloat16"},
    [PF_FP8] = {TYPE_8F_E4M3, COMPUTE_32F, TYPE_32F, "FP8"},
    [PF_INT8] = {TYPE_8I, COMPUTE_32I, TYPE_32I, "int8"},
};

static int result_type(const shape *s)
{
    if (s->operands == PF_INT8)
        return TYPE_32I;
    return s->is_float ? TYPE_32F : TYPE_16BF;
}

/* Descriptors for column-major cuBLAS: D^T [n, m] = W [n, k] A^T, that is op(W^T stored k x n) with
   transposition. So cuBLAS's first operand is W, and its second A. It is the form that its documentation of
   cublasLtMatmul asks for where operands are FP8 or int8. */
static int describe(pf_blas *b, choice *c)
{
    const functions *f = &b->f;
    const shape *s = &c->shape;
    int transpose = OP_T, epilogue = s->has_bias ? EPILOGUE_BIAS : EPILOGUE_DEFAULT, bias_type = TYPE_16BF, scales = SCALE_OUTER_VECTOR;
    int operand = kinds[s->operands].operand, result = result_type(s), status;
    if ((status = f->desc_create(&c->desc, kinds[s->operands].compute, kinds[s->operands].scale)) ||
        (status = f->desc_set(c->desc, DESC_TRANSA, &transpose, sizeof transpose)) ||
        (status = f->desc_set(c->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue)) ||
        (s->has_bias && (status = f->desc_set(c->desc, DESC_BIAS_TYPE, &bias_type, sizeof bias_type))) ||
        (s->scaled && (status = f->desc_set(c->desc, DESC_A_SCALE_MODE, &scales, sizeof scales))) ||
        (s->scaled && (status = f->desc_set(c->desc, DESC_B_SCALE_MODE, &scales, sizeof scales))) ||
        (status = f->layout_create(&c->w, operand, (uint64_t)s->k, (uint64_t)s->n, s->k)) ||
        (status = f->layout_create(&c->a, operand, (uint64_t)s->k, 1, s->a_stride)) ||
        (status = f->layout_create(&c->d, result, (uint64_t)s->n, 1, s->d_stride)))
        return status;
    return 0;
}

/* Points the descriptors at this product's vectors. */
static int point(pf_blas *b, choice *c, const pf_gemm *g)
{
    int status = 0;
    if (g->bias)
        status = b->f.desc_set(c->desc, DESC_BIAS_POINTER, &g->bias, sizeof g->bias);
    if (!status && g->a_scale)
        status = b->f.desc_set(c->desc, DESC_A_SCALE_POINTER, &g->w_scale, sizeof g->w_scale);
    if (!status && g->a_scale)
        status = b->f.desc_set(c->desc, DESC_B_SCALE_POINTER, &g->a_scale, sizeof g->a_scale);
    return status;
}

static int set_rows(pf_blas *b, choice *c, int64_t rows)
{
    uint64_t columns = (uint64_t)rows;
    int status = b->f.layout_set(c->a, LAYOUT_COLS, &columns, sizeof columns);
    return status ? status : b->f.layout_set(c->d, LAYOUT_COLS, &columns, sizeof columns);
}

/* Whether products as s are computed with so many rows. */
static int is_used(const shape *s, int64_t rows) { return s->operands != PF_INT8 || rows % PF_INT8_ROWS == 0; }

/* What became of candidates, for the message when none is left. */
typedef struct {
    int found, split, refused, status;
    int64_t refused_rows;
} tally;

/* Whether the sum over k of an element is computed in one piece. */
static int is_whole(pf_blas *b, const heuristic *h)
{
    int32_t parts = 0;
    uint32_t scheme = 0;
    size_t written;
    if (b->f.config_get(&h->algo, CONFIG_SPLIT_K, &parts, sizeof parts, &written) ||
        b->f.config_get(&h->algo, CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written))
        return 0;
    return (parts == 0 || parts == 1) && scheme == 0 && h->workspace == 0;
}

static int passes(pf_blas *b, choice *c, const algorithm *algo, tally *t)
{
    for (size_t i = 0; i < COUNT(checked_rows); i++) {
        heuristic result = {.state = 0};
        if (!is_used(&c->shape, checked_rows[i]))
            continue;
        int status = set_rows(b, c, checked_rows[i]);
        if (!status)
            status = b->f.check(b->handle, c->desc, c->w, c->a, c->d, c->d, algo, &result);
        if (!status)
            status = result.state;
        if (!status && result.workspace > 0) {
            t->split++;
            return 0;
        }
        if (status) {
            t->refused++;
            t->refused_rows = checked_rows[i];
            t->status = status;
            return 0;
        }
    }
    return 1;
}

/* Takes the first candidate that passes of those that the library names for so many rows. */
static int choose_for(pf_blas *b, choice *c, void *preference, int64_t rows, tally *t)
{
    heuristic list[CANDIDATES];
    int found = 0;
    int status = set_rows(b, c, rows);
    if (!status)
        status = b->f.get_heuristic(b->handle, c->desc, c->w, c->a, c->d, c->d, preference, CANDIDATES, list, &found);
    if (status) {
        t->status = status;
        return 0;
    }
    for (int i = 0; i < found; i++) {
        if (list[i].state)
            continue;
        t->found++;
        if (!is_whole(b, &list[i])) {
            t->split++;
        } else if (passes(b, c, &list[i].algo, t)) {
            c->algo = list[i].algo;
            return 1;
        }
    }
    return 0;
}

static int choose(pf_blas *b, choice *c, tally *t)
{
    const functions *f = &b->f;
    void *preference = NULL;
    size_t no_workspace = 0;
    uint32_t unsplit = 0, a_alignment = (uint32_t)c->shape.a_alignment, d_alignment = (uint32_t)c->shape.d_alignment;
    int status, chosen = 0;
    if (!(status = f->preference_create(&preference)) &&
        !(status = f->preference_set(preference, PREFERENCE_MAX_WORKSPACE, &no_workspace, sizeof no_workspace)) &&
        !(status = f->preference_set(preference, PREFERENCE_REDUCTION_SCHEMES, &unsplit, sizeof unsplit)) &&
        !(status = f->preference_set(preference, PREFERENCE_ALIGNMENT_B, &a_alignment, sizeof a_alignment)) &&
        !(status = f->preference_set(preference, PREFERENCE_ALIGNMENT_C, &d_alignment, sizeof d_alignment)) &&
        !(status = f->preference_set(preference, PREFERENCE_ALIGNMENT_D, &d_alignment, sizeof d_alignment)))
        for (size_t i = 0; !chosen && i < COUNT(asked_rows); i++)
            chosen = is_used(&c->shape, asked_rows[i]) && choose_for(b, c, preference, asked_rows[i], t);
    if (preference)
        f->preference_destroy(preference);
    if (status)
        return status;
    return chosen ? 0 : STATUS_NOT_SUPPORTED;
}

/* The largest power of two up to 256 that divides an address. */
static int64_t alignment(uint64_t address)
{
    uint64_t lowest = address & -address;
    return lowest && lowest < 256 ? (int64_t)lowest : 256;
}

static shape shape_of(const pf_gemm *g)
{
    return (shape){
        .n = g->n, .k = g->k, .a_stride = g->a_stride, .d_stride = g->d_stride,
        .operands = g->operands, .scaled = g->a_scale != 0, .is_float = g->is_float != 0, .has_bias = g->bias != 0, .accumulate = g->accumulate != 0,
        .a_alignment = alignment(g->a), .d_alignment = alignment(g->d),
    };
}

static void describe_failure(const pf_gemm *g, const tally *t, int status, char *error, size_t error_size)
{
    const char *result = g->operands == PF_INT8 ? "int32" : g->is_float ? "float32" : "bfloat16";
    int used = snprintf(error, error_size, "product [%" PRId64 ",%" PRId64 "]x[%" PRId64 ",%" PRId64 "] of %s%s into %s: status %d of cuBLASLt",
                        g->m, g->k, g->k, g->n, kinds[g->operands].name, g->a_scale ? " with scales of rows and columns" : "", result, status);
    if (t && used > 0 && (size_t)used < error_size)
        snprintf(error + used, error_size - (size_t)used, "; of %d algorithms %d sum in parts and %d refuse some number of rows (the last %" PRId64 ", with status %d)",
                 t->found, t->split, t->refused, t->refused_rows, t->status);
}

/* The choice for a product, made at the first use of its shape. */
static int find(pf_blas *b, const pf_gemm *g, choice **found, char *error, size_t error_size)
{
    shape s = shape_of(g);
    for (choice *c = b->choices; c; c = c->next)
        if (memcmp(&c->shape, &s, sizeof s) == 0) {
            *found = c;
            return 0;
        }
    choice *c = calloc(1, sizeof *c);
    if (!c) {
        describe_failure(g, NULL, STATUS_ALLOC_FAILED, error, error_size);
        return STATUS_ALLOC_FAILED;
    }
    c->shape = s;
    tally t = {0};
    int status, chosen = 0;
    if (!(status = describe(b, c)) && !(status = point(b, c, g))) {
        chosen = 1;
        status = choose(b, c, &t);
    }
    if (status) {
        describe_failure(g, chosen ? &t : NULL, status, error, error_size);
        free_choice(b, c);
        return status;
    }
    c->next = b->choices;
    b->choices = c;
    *found = c;
    return 0;
}

int pf_blas_choose(pf_blas *b, const pf_gemm *g, char *error, size_t error_size)
{
    choice *c = NULL;
    return find(b, g, &c, error, error_size);
}

int pf_blas_gemm(pf_blas *b, const pf_gemm *g, char *error, size_t error_size)
{
    static const struct {
        int32_t whole;
        float real;
    } zero = {0, 0}, one = {1, 1};
    choice *c = NULL;
    int status = find(b, g, &c, error, error_size);
    if (status)
        return status;
    int whole = g->operands == PF_INT8; /* alpha and beta are of the scale's type */
    const void *alpha = whole ? (const void *)&one.whole : &one.real, *beta = whole ? (const void *)&zero.whole : g->accumulate ? &one.real : &zero.real;
    const void *a = (const void *)(uintptr_t)g->a, *w = (const void *)(uintptr_t)g->w;
    void *d = (void *)(uintptr_t)g->d;
    if (!is_used(&c->shape, g->m))
        status = STATUS_INVALID_VALUE;
    if (!status && !(status = point(b, c, g)) && !(status = set_rows(b, c, g->m)))
        status = b->f.matmul(b->handle, c->desc, alpha, w, c->w, a, c->a, beta, d, c->d, d, c->d, &c->algo, NULL, 0, b->stream);
    if (status)
        describe_failure(g, NULL, status, error, error_size);
    return status;
}
