/* A cuBLASLt for tests. Its algorithms are ALGORITHMS, in the order in which the heuristic names them.
   A product writes which one it was computed with, and what with, to the address of D. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int split, scheme;
    size_t workspace;       /* that the heuristic says it needs */
    int asked_below;        /* the heuristic names it below so many rows; 0: always */
    int refused;            /* a number of rows that it refuses, 0: none */
    int wants_memory;       /* a number of rows for which it needs a workspace, 0: none */
    unsigned alignment;     /* that it needs of D */
} algorithms[] = ALGORITHMS;

enum { COUNT = sizeof algorithms / sizeof *algorithms, NOT_SUPPORTED = 15, INVALID = 7 };

typedef struct { int compute, epilogue; uint64_t bias, a_scale, b_scale; int a_mode, b_mode; } desc;
typedef struct { int type; uint64_t rows, cols; int64_t stride; } layout;
typedef struct { size_t workspace; uint32_t schemes, alignment_d; } preference;
typedef struct { uint64_t opaque[8]; } algorithm;
typedef struct { algorithm algo; size_t workspace; int state; float waves; int reserved[4]; } heuristic;

static int64_t heuristics; /* asked so far */

int cublasLtCreate(void **handle) { *handle = &heuristics; return 0; }
int cublasLtDestroy(void *handle) { return handle == &heuristics ? 0 : INVALID; }
int cublasLtMatmulDescCreate(void **d, int compute, int scale)
{
    desc *made = calloc(1, sizeof *made);
    made->compute = compute;
    *d = made;
    return (compute == 68 && scale == 0) || (compute == 72 && scale == 10) ? 0 : INVALID;
}
int cublasLtMatmulDescDestroy(void *d) { free(d); return 0; }
int cublasLtMatmulDescSetAttribute(void *d, int attribute, const void *value, size_t size)
{
    desc *to = d;
    switch (attribute) {
    case 3: return *(const int *)value == 1 ? 0 : INVALID;
    case 7: to->epilogue = *(const int *)value; return 0;
    case 8: to->bias = *(const uint64_t *)value; return size == 8 ? 0 : INVALID;
    case 17: to->a_scale = *(const uint64_t *)value; return size == 8 ? 0 : INVALID;
    case 18: to->b_scale = *(const uint64_t *)value; return size == 8 ? 0 : INVALID;
    case 26: return *(const int *)value == 14 ? 0 : INVALID;
#ifndef NO_SCALE_MODES
    case 31: to->a_mode = *(const int *)value; return 0;
    case 32: to->b_mode = *(const int *)value; return 0;
#endif
    }
    return INVALID;
}
int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t cols, int64_t stride)
{
    layout *made = malloc(sizeof *made);
    *made = (layout){type, rows, cols, stride};
    *l = made;
    return 0;
}
int cublasLtMatrixLayoutDestroy(void *l) { free(l); return 0; }
int cublasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *value, size_t size)
{
    if (attribute != 3 || size != 8)
        return INVALID;
    ((layout *)l)->cols = *(const uint64_t *)value;
    return 0;
}
int cublasLtMatmulPreferenceCreate(void **p)
{
    preference *made = malloc(sizeof *made);
    *made = (preference){1 << 20, 7, 256};
    *p = made;
    return 0;
}
int cublasLtMatmulPreferenceDestroy(void *p) { free(p); return 0; }
int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t size)
{
    preference *to = p;
    if (attribute == 1)
        to->workspace = *(const size_t *)value;
    else if (attribute == 3)
        to->schemes = *(const uint32_t *)value;
    else if (attribute == 8)
        to->alignment_d = *(const uint32_t *)value;
    return size <= 8 ? 0 : INVALID;
}

static int type_of(const void *l) { return ((const layout *)l)->type; }

/* What cuBLASLt demands of the operands. */
static int operands(const desc *d, const layout *w, const layout *a, const layout *result)
{
    int fp8 = w->type == 28, int8 = w->type == 3;
    if (w->type != a->type || w->rows != a->rows || w->cols != result->rows || a->cols != result->cols || a->cols == 0)
        return INVALID;
    if (int8 != (result->type == 10) || int8 != (d->compute == 72) || (int8 && (d->epilogue != 1 || d->a_mode)))
        return INVALID;
    if (int8 && (w->rows % 4 || w->cols % 4 || a->stride % 4 || result->stride % 4 || a->cols <= 16))
        return NOT_SUPPORTED;
    if (fp8 && (w->rows % 16 || w->cols % 16 || a->stride % 16))
        return NOT_SUPPORTED;
    if ((d->a_mode || d->b_mode) && !(fp8 && d->a_mode == 3 && d->b_mode == 3 && d->a_scale && d->b_scale))
        return INVALID;
    return d->epilogue == 4 && (!d->bias || type_of(result) != 14) ? INVALID : 0;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *d, void *w, void *a, void *c, void *result, void *p, int most, heuristic *list, int *found)
{
    const preference *wanted = p;
    int status = operands(d, w, a, result);
    *found = 0;
    heuristics++;
    for (int i = 0; !status && i < COUNT && *found < most; i++) {
        int rows = (int)((layout *)a)->cols;
        if (algorithms[i].asked_below && rows >= algorithms[i].asked_below)
            continue;
        if (algorithms[i].alignment > wanted->alignment_d)
            continue;
        list[*found] = (heuristic){.workspace = algorithms[i].workspace};
        list[(*found)++].algo.opaque[0] = (uint64_t)i;
    }
    (void)handle, (void)c;
    return status ? status : *found ? 0 : NOT_SUPPORTED;
}
int cublasLtMatmulAlgoConfigGetAttribute(const algorithm *algo, int attribute, void *value, size_t size, size_t *written)
{
    if (size != 4 || (attribute != 2 && attribute != 3))
        return INVALID;
    *(int *)value = attribute == 2 ? algorithms[algo->opaque[0]].split : algorithms[algo->opaque[0]].scheme;
    *written = size;
    return 0;
}
int cublasLtMatmulAlgoCheck(void *handle, void *d, void *w, void *a, void *c, void *result, const algorithm *algo, heuristic *out)
{
    int rows = (int)((layout *)a)->cols, status = operands(d, w, a, result);
    (void)handle, (void)c;
    if (!status && algorithms[algo->opaque[0]].refused == rows)
        status = NOT_SUPPORTED;
    out->workspace = algorithms[algo->opaque[0]].wants_memory == rows ? 4096 : 0;
    return status;
}
int cublasLtMatmul(void *handle, void *d, const void *alpha, const void *wp, void *w, const void *ap, void *a, const void *beta, const void *cp, void *c,
                   void *dp, void *result, const algorithm *algo, void *workspace, size_t workspace_bytes, void *stream)
{
    const desc *with = d;
    int status = operands(d, w, a, result);
    if (!status && ((layout *)a)->cols == 4999)
        status = 13;
    int whole = with->compute == 72;
    int one = whole ? *(const int32_t *)alpha == 1 : *(const float *)alpha == 1, added = whole ? *(const int32_t *)beta : (int)*(const float *)beta;
    if (status || workspace || workspace_bytes || !one || cp != dp || c != result)
        return status ? status : INVALID;
    int64_t record[] = {(int64_t)algo->opaque[0], (int64_t)((layout *)a)->cols, heuristics, added,
                        type_of(w), type_of(result), (int64_t)with->a_scale, (int64_t)with->b_scale, (int64_t)with->bias};
    memcpy(dp, record, sizeof record);
    (void)handle, (void)wp, (void)ap, (void)stream;
    return 0;
}
