/* Evaluates a graph of matrix products and operations on scores, for one query. Included by fake.c. */

enum { UIDS = 96 };

typedef struct {
    const descriptor *loaded; /* the operation that loads it from pages */
    float *number;            /* one for each key, or one */
    int wide;
} value;

typedef struct {
    void *const *at; /* what has an address, by uid */
    value values[UIDS];
    int64_t b, h, r, keys;
} query;

static const int64_t *extent(const descriptor *t, int name) { return find(t, name)->data; }

/* The number of tensor t at a key. */
static float get(const query *e, const descriptor *t, int64_t key)
{
    const value *v = &e->values[uid(t)];
    if (v->number)
        return v->number[v->wide ? key : 0];
    const void *from = e->at[uid(t)];
    int64_t i = number(t, TENSOR_IS_BY_VALUE, 0) ? 0 : e->b;
    return number(t, TENSOR_DATA_TYPE, 0) == DATA_INT32 ? (float)((const int32_t *)from)[i] : ((const float *)from)[i];
}

static float *put(query *e, const descriptor *t)
{
    value *v = &e->values[uid(t)];
    v->wide = extent(t, TENSOR_DIMENSIONS)[3] > 1;
    return v->number = calloc((size_t)e->keys + 1, sizeof(float));
}

static float operate(int64_t mode, float x, float b, float t, const query *e, int64_t axis, int64_t key)
{
    switch (mode) {
    case POINTWISE_ADD: return x + b;
    case POINTWISE_MUL: return x * b;
    case POINTWISE_DIV: return x / b;
    case POINTWISE_SUB: return x - b;
    case POINTWISE_EXP: return expf(x);
    case POINTWISE_LOG: return logf(x);
    case POINTWISE_CMP_GT: return x > b;
    case POINTWISE_CMP_GE: return x >= b;
    case POINTWISE_CMP_LT: return x < b;
    case POINTWISE_LOGICAL_AND: return x && b;
    case POINTWISE_BINARY_SELECT: return t ? x : b;
    case POINTWISE_GEN_INDEX: return (float)(axis == 2 ? e->r : key);
    default: return NAN;
    }
}

static void each(query *e, const descriptor *op)
{
    const descriptor *how = part(op, OPERATION_POINTWISE_PW_DESCRIPTOR, POINTWISE), *x = part(op, OPERATION_POINTWISE_XDESC, TENSOR);
    const descriptor *b = part(op, OPERATION_POINTWISE_BDESC, TENSOR), *t = part(op, OPERATION_POINTWISE_TDESC, TENSOR);
    const descriptor *to = part(op, OPERATION_POINTWISE_YDESC, TENSOR);
    float *y = put(e, to);
    for (int64_t i = 0; i < (e->values[uid(to)].wide ? e->keys : 1); i++)
        y[i] = operate(number(how, POINTWISE_MODE, -1), get(e, x, i), b ? get(e, b, i) : 0, t ? get(e, t, i) : 0, e, number(how, POINTWISE_AXIS, 0), i);
}

static void reduce(query *e, const descriptor *op)
{
    int most = number(part(op, OPERATION_REDUCTION_DESC, REDUCTION), REDUCTION_OPERATOR, -1) == REDUCE_TENSOR_MAX;
    const descriptor *x = part(op, OPERATION_REDUCTION_XDESC, TENSOR);
    float *y = put(e, part(op, OPERATION_REDUCTION_YDESC, TENSOR));
    *y = most ? -INFINITY : 0;
    for (int64_t i = 0; i < e->keys; i++)
        *y = most ? fmaxf(*y, get(e, x, i)) : *y + get(e, x, i);
}

/* Element i of a key's vector, of keys or values that a load describes. */
static float paged(const query *e, const descriptor *load, int64_t heads, int64_t key, int64_t i)
{
    const descriptor *pages = part(load, PAGED_CACHE_LOAD_CONTAINER_DESC, TENSOR), *table = part(load, PAGED_CACHE_LOAD_PAGE_TABLE_DESC, TENSOR);
    const int64_t *dims = extent(pages, TENSOR_DIMENSIONS), *s = extent(pages, TENSOR_STRIDES), *ts = extent(table, TENSOR_STRIDES);
    int64_t page = ((const int32_t *)e->at[uid(table)])[e->b * ts[0] + key / dims[2] * ts[2]];
    return widen(((const uint16_t *)e->at[uid(pages)])[page * s[0] + e->h / (heads / dims[1]) * s[1] + key % dims[2] * s[2] + i * s[3]]);
}

/* The query's row of a matrix in memory. */
static uint16_t *row_of(const query *e, const descriptor *t)
{
    const int64_t *s = extent(t, TENSOR_STRIDES), *offset = e->at[uid(part(t, TENSOR_RAGGED_OFFSET_DESC, TENSOR))];
    return (uint16_t *)e->at[uid(t)] + offset[e->b] + e->h * s[1] + e->r * s[2];
}

static void multiply(query *e, const descriptor *op)
{
    const descriptor *a = part(op, OPERATION_MATMUL_ADESC, TENSOR), *y = part(op, OPERATION_MATMUL_CDESC, TENSOR);
    const descriptor *load = e->values[uid(part(op, OPERATION_MATMUL_BDESC, TENSOR))].loaded;
    if (!e->at[uid(y)]) { /* scores */
        int64_t heads = extent(a, TENSOR_DIMENSIONS)[1], dim = extent(a, TENSOR_DIMENSIONS)[3];
        float *score = put(e, y);
        for (int64_t key = 0; key < e->keys; key++)
            for (int64_t i = 0; i < dim; i++)
                score[key] += widen(row_of(e, a)[i]) * paged(e, load, heads, key, i);
        return;
    }
    int64_t heads = extent(y, TENSOR_DIMENSIONS)[1], dim = extent(y, TENSOR_DIMENSIONS)[3];
    for (int64_t i = 0; i < dim; i++) {
        float sum = 0;
        for (int64_t key = 0; key < e->keys; key++)
            sum += get(e, a, key) * paged(e, load, heads, key, i);
        row_of(e, y)[i] = narrow(sum);
    }
}

static void evaluate(const descriptor *graph, void *const *at, int64_t b, int64_t h, int64_t r, int64_t keys)
{
    query e = {.at = at, .b = b, .h = h, .r = r, .keys = keys};
    const attribute *list = find(graph, OPERATIONGRAPH_OPS);
    for (int64_t i = 0; i < list->count; i++) {
        const descriptor *op = ((descriptor **)list->data)[i];
        switch (op->type) {
        case OPERATION_POINTWISE: each(&e, op); break;
        case OPERATION_REDUCTION: reduce(&e, op); break;
        case OPERATION_MATMUL: multiply(&e, op); break;
        case OPERATION_PAGED_CACHE_LOAD: e.values[uid(part(op, PAGED_CACHE_LOAD_YDESC, TENSOR))].loaded = op; break;
        }
    }
    for (int i = 0; i < UIDS; i++)
        free(e.values[i].number);
}
