/* Descriptors of cuDNN's graphs, made and kept together. The first failure is remembered, and what
   follows it does nothing. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "cudnn.h"
#include "sdpa.h"

struct pf_sdpa {
    cudnn_functions f;
    void *library, *cublas, *handle;
    void *device; /* the properties that stand for a GPU, or null */
};

enum { STATUS_NOT_SUPPORTED = 3000, GRAPH_DESCRIPTORS = 192 };

typedef struct {
    const pf_sdpa *s;
    int status;
    const char *failed; /* what failed, when status is not 0 */
    void *made[GRAPH_DESCRIPTORS];
    int count;
} graph;

/* The tensors of attention. */
enum {
    UID_Q = 1, UID_K, UID_V, UID_O, UID_SCALE, UID_ROWS, UID_KEYS, UID_TABLE, UID_Q_OFFSET, UID_O_OFFSET, UID_MASKED,
    UID_WINDOW, /* with a window */
    UID_VIRTUAL /* and what follows: never in memory */
};

/* What a score that must not count becomes: its exponential is 0. */
#define MASKED_SCORE (-__builtin_inff())

void graph_fail(graph *g, const char *what, int status);
void *graph_make(graph *g, int type);
void graph_set(graph *g, void *descriptor, int name, int type, int64_t count, const void *elements);
int64_t graph_get(graph *g, void *descriptor, int name, int type, int64_t capacity, void *elements); /* the number read */
void graph_finalize(graph *g, void *descriptor);
void graph_free(graph *g);

typedef struct {
    int64_t at[4];
} extents;

/* A tensor in no memory, between operations. */
void *graph_virtual(graph *g, int64_t uid, int32_t type, extents dims, extents strides);
/* The graph of these operations. */
void *graph_operations(graph *g, int64_t count, void **list);

/* The tensors of attention that have an address. */
typedef struct {
    void *q, *k, *v, *o, *scale, *rows, *keys, *table, *masked;
    void *window; /* or null */
} operands;

/* The operation graph of attention of this shape; composite is that for versions before CUDNN_UNIFIED,
   of matrix products and operations on scores. */
void *graph_attention(graph *g, const pf_sdpa_shape *shape);
void *graph_composite(graph *g, const pf_sdpa_shape *shape, const operands *x);
