/* Attention in the operations that cuDNN recognises as such: as its own frontend writes them. */
#include "graph.h"

enum { OPERATIONS = 40 };

typedef struct {
    graph *g;
    const pf_sdpa_shape *s;
    const operands *x;
    int64_t uid; /* of the next tensor */
    void *operations[OPERATIONS];
    int count;
} composite;

/* A tensor of a number for each query and key, or for each query. */
static void *wide(composite *c, int32_t type)
{
    const pf_sdpa_shape *s = c->s;
    return graph_virtual(c->g, c->uid++, type, (extents){{s->batch, s->q_heads, s->rows, s->keys}},
                         (extents){{s->q_heads * s->rows * s->keys, s->rows * s->keys, s->keys, 1}});
}

static void *narrow(composite *c)
{
    const pf_sdpa_shape *s = c->s;
    return graph_virtual(c->g, c->uid++, DATA_FLOAT, (extents){{s->batch, s->q_heads, s->rows, 1}},
                         (extents){{s->q_heads * s->rows, s->rows, 1, 1}});
}

static void add(composite *c, void *operation)
{
    graph_finalize(c->g, operation);
    if (c->count == OPERATIONS)
        graph_fail(c->g, "too many operations", STATUS_NOT_SUPPORTED);
    else
        c->operations[c->count++] = operation;
}

/* What an operation on single numbers takes; axis, b and t are 0 where there is none. */
typedef struct {
    int32_t mode, precision;
    int64_t axis;
    void *x, *b, *t;
} pointwise;

static void *each(composite *c, pointwise p, void *y)
{
    graph *g = c->g;
    void *how = graph_make(g, POINTWISE), *o = graph_make(g, OPERATION_POINTWISE);
    graph_set(g, how, POINTWISE_MODE, TYPE_POINTWISE_MODE, 1, &p.mode);
    graph_set(g, how, POINTWISE_MATH_PREC, TYPE_DATA_TYPE, 1, &p.precision);
    if (p.axis)
        graph_set(g, how, POINTWISE_AXIS, TYPE_INT64, 1, &p.axis);
    graph_finalize(g, how);
    graph_set(g, o, OPERATION_POINTWISE_PW_DESCRIPTOR, TYPE_DESCRIPTOR, 1, &how);
    graph_set(g, o, OPERATION_POINTWISE_XDESC, TYPE_DESCRIPTOR, 1, &p.x);
    if (p.b)
        graph_set(g, o, OPERATION_POINTWISE_BDESC, TYPE_DESCRIPTOR, 1, &p.b);
    if (p.t)
        graph_set(g, o, OPERATION_POINTWISE_TDESC, TYPE_DESCRIPTOR, 1, &p.t);
    graph_set(g, o, OPERATION_POINTWISE_YDESC, TYPE_DESCRIPTOR, 1, &y);
    add(c, o);
    return y;
}

static void *reduce(composite *c, int32_t operator, void *x)
{
    graph *g = c->g;
    int32_t precision = DATA_FLOAT;
    void *how = graph_make(g, REDUCTION), *o = graph_make(g, OPERATION_REDUCTION), *y = narrow(c);
    graph_set(g, how, REDUCTION_COMP_TYPE, TYPE_DATA_TYPE, 1, &precision);
    graph_set(g, how, REDUCTION_OPERATOR, TYPE_REDUCTION_OPERATOR, 1, &operator);
    graph_finalize(g, how);
    graph_set(g, o, OPERATION_REDUCTION_DESC, TYPE_DESCRIPTOR, 1, &how);
    graph_set(g, o, OPERATION_REDUCTION_XDESC, TYPE_DESCRIPTOR, 1, &x);
    graph_set(g, o, OPERATION_REDUCTION_YDESC, TYPE_DESCRIPTOR, 1, &y);
    add(c, o);
    return y;
}

/* y = a b, of as many rows as a sequence has, and as many columns or summands (which: the attribute) as
   it has keys. */
static void *multiply(composite *c, void *a, void *b, void *y, int which)
{
    graph *g = c->g;
    int32_t precision = DATA_FLOAT;
    void *how = graph_make(g, MATMUL), *o = graph_make(g, OPERATION_MATMUL);
    graph_set(g, how, MATMUL_COMP_TYPE, TYPE_DATA_TYPE, 1, &precision);
    graph_finalize(g, how);
    graph_set(g, o, OPERATION_MATMUL_ADESC, TYPE_DESCRIPTOR, 1, &a);
    graph_set(g, o, OPERATION_MATMUL_BDESC, TYPE_DESCRIPTOR, 1, &b);
    graph_set(g, o, OPERATION_MATMUL_CDESC, TYPE_DESCRIPTOR, 1, &y);
    graph_set(g, o, OPERATION_MATMUL_DESC, TYPE_DESCRIPTOR, 1, &how);
    graph_set(g, o, OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, TYPE_DESCRIPTOR, 1, &c->x->rows);
    graph_set(g, o, which, TYPE_DESCRIPTOR, 1, &c->x->keys);
    add(c, o);
    return y;
}

/* A sequence's keys or values in order. */
static void *load(composite *c, void *container, extents dims, extents strides)
{
    graph *g = c->g;
    void *o = graph_make(g, OPERATION_PAGED_CACHE_LOAD), *y = graph_virtual(g, c->uid++, DATA_BFLOAT16, dims, strides);
    graph_set(g, o, PAGED_CACHE_LOAD_CONTAINER_DESC, TYPE_DESCRIPTOR, 1, &container);
    graph_set(g, o, PAGED_CACHE_LOAD_PAGE_TABLE_DESC, TYPE_DESCRIPTOR, 1, &c->x->table);
    graph_set(g, o, PAGED_CACHE_LOAD_SEQUENCE_DESC, TYPE_DESCRIPTOR, 1, &c->x->keys);
    graph_set(g, o, PAGED_CACHE_LOAD_YDESC, TYPE_DESCRIPTOR, 1, &y);
    add(c, o);
    return y;
}

/* The number of each score's row (axis 2) or key (axis 3). */
static void *number_of(composite *c, int64_t axis, void *score)
{
    return each(c, (pointwise){POINTWISE_GEN_INDEX, DATA_INT32, axis, score}, wide(c, DATA_INT32));
}

static void *compare(composite *c, int32_t mode, void *x, void *b)
{
    return each(c, (pointwise){mode, DATA_BOOLEAN, 0, x, b}, wide(c, DATA_BOOLEAN));
}

/* The score where keep holds. */
static void *select(composite *c, void *score, void *keep)
{
    return each(c, (pointwise){POINTWISE_BINARY_SELECT, DATA_FLOAT, 0, score, c->x->masked, keep}, wide(c, DATA_FLOAT));
}

static void *shift(composite *c, int32_t mode, void *number, void *by)
{
    return each(c, (pointwise){mode, DATA_INT32, 3, number, by}, wide(c, DATA_INT32));
}

/* Masks what is outside the sequence, then the keys after a query, then those before its window. */
static void *masks(composite *c, void *score)
{
    const operands *x = c->x;
    void *row = number_of(c, 2, score), *key = number_of(c, 3, score);
    void *in_rows = compare(c, POINTWISE_CMP_LT, row, x->rows), *in_keys = compare(c, POINTWISE_CMP_LT, key, x->keys);
    score = select(c, score, compare(c, POINTWISE_LOGICAL_AND, in_rows, in_keys));

    row = number_of(c, 2, score), key = number_of(c, 3, score);
    row = shift(c, POINTWISE_SUB, shift(c, POINTWISE_ADD, row, x->keys), x->rows);
    score = select(c, score, compare(c, POINTWISE_CMP_GE, row, key));
    if (!x->window)
        return score;

    row = number_of(c, 2, score), key = number_of(c, 3, score);
    key = shift(c, POINTWISE_ADD, shift(c, POINTWISE_SUB, shift(c, POINTWISE_ADD, key, x->window), x->keys), x->rows);
    return select(c, score, compare(c, POINTWISE_CMP_GT, key, row));
}

static void *softmax(composite *c, void *score)
{
    void *most = reduce(c, REDUCE_TENSOR_MAX, score);
    void *less = each(c, (pointwise){POINTWISE_SUB, DATA_FLOAT, 0, score, most}, wide(c, DATA_FLOAT));
    void *weight = each(c, (pointwise){POINTWISE_EXP, DATA_FLOAT, 0, less}, wide(c, DATA_FLOAT));
    void *sum = reduce(c, REDUCE_TENSOR_ADD, weight);
    /* The sums' logarithms, which only training uses, are part of what cuDNN recognises. */
    void *logarithm = each(c, (pointwise){POINTWISE_LOG, DATA_FLOAT, 0, sum}, narrow(c));
    each(c, (pointwise){POINTWISE_ADD, DATA_FLOAT, 0, most, logarithm}, narrow(c));
    return each(c, (pointwise){POINTWISE_DIV, DATA_FLOAT, 0, weight, sum}, wide(c, DATA_BFLOAT16));
}

void *graph_composite(graph *g, const pf_sdpa_shape *s, const operands *x)
{
    composite c = {.g = g, .s = s, .x = x, .uid = UID_VIRTUAL};
    int64_t head = s->keys * s->dim, all = s->kv_heads * head;
    void *k = load(&c, x->k, (extents){{s->batch, s->kv_heads, s->dim, s->keys}}, (extents){{all, head, 1, s->dim}});
    void *score = multiply(&c, x->q, k, wide(&c, DATA_FLOAT), OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC);
    score = each(&c, (pointwise){POINTWISE_MUL, DATA_FLOAT, 0, score, x->scale}, wide(&c, DATA_FLOAT));
    void *weight = softmax(&c, masks(&c, score));
    void *v = load(&c, x->v, (extents){{s->batch, s->kv_heads, s->keys, s->dim}}, (extents){{all, head, s->dim, 1}});
    multiply(&c, weight, v, x->o, OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
    return graph_operations(g, c.count, c.operations);
}
