#include "graph.h"

void graph_fail(graph *g, const char *what, int status)
{
    if (status && !g->status) {
        g->status = status;
        g->failed = what;
    }
}

void *graph_make(graph *g, int type)
{
    void *descriptor = NULL;
    if (g->status)
        return NULL;
    if (g->count == GRAPH_DESCRIPTORS) {
        graph_fail(g, "too many descriptors", STATUS_NOT_SUPPORTED);
        return NULL;
    }
    graph_fail(g, "cudnnBackendCreateDescriptor", g->s->f.create_descriptor(type, &descriptor));
    if (!g->status)
        g->made[g->count++] = descriptor;
    return descriptor;
}

void graph_set(graph *g, void *descriptor, int name, int type, int64_t count, const void *elements)
{
    if (!g->status)
        graph_fail(g, "cudnnBackendSetAttribute", g->s->f.set_attribute(descriptor, name, type, count, elements));
}

int64_t graph_get(graph *g, void *descriptor, int name, int type, int64_t capacity, void *elements)
{
    int64_t count = 0;
    if (!g->status)
        graph_fail(g, "cudnnBackendGetAttribute", g->s->f.get_attribute(descriptor, name, type, capacity, &count, elements));
    return g->status ? 0 : count;
}

void graph_finalize(graph *g, void *descriptor)
{
    if (!g->status)
        graph_fail(g, "cudnnBackendFinalize", g->s->f.finalize(descriptor));
}

void graph_free(graph *g)
{
    while (g->count > 0)
        g->s->f.destroy_descriptor(g->made[--g->count]);
}

/* A tensor that is yet to be finalised. */
static void *begin(graph *g, int64_t uid, int32_t type, extents dims, extents strides)
{
    int64_t alignment = 16;
    void *t = graph_make(g, TENSOR);
    graph_set(g, t, TENSOR_DATA_TYPE, TYPE_DATA_TYPE, 1, &type);
    graph_set(g, t, TENSOR_DIMENSIONS, TYPE_INT64, 4, dims.at);
    graph_set(g, t, TENSOR_STRIDES, TYPE_INT64, 4, strides.at);
    graph_set(g, t, TENSOR_UNIQUE_ID, TYPE_INT64, 1, &uid);
    graph_set(g, t, TENSOR_BYTE_ALIGNMENT, TYPE_INT64, 1, &alignment);
    return t;
}

static void *tensor(graph *g, int64_t uid, int32_t type, extents dims, extents strides)
{
    void *t = begin(g, uid, type, dims, strides);
    graph_finalize(g, t);
    return t;
}

/* A number on the host. */
static void *number(graph *g, int64_t uid, int32_t type)
{
    _Bool yes = 1;
    extents one = {{1, 1, 1, 1}};
    void *t = begin(g, uid, type, one, one);
    graph_set(g, t, TENSOR_IS_BY_VALUE, TYPE_BOOLEAN, 1, &yes);
    graph_finalize(g, t);
    return t;
}

/* A number for each of n sequences. */
static void *column(graph *g, int64_t uid, int32_t type, int64_t n)
{
    return tensor(g, uid, type, (extents){{n, 1, 1, 1}}, (extents){{1, 1, 1, 1}});
}

/* Rows of the sequences, wherever each begins in one matrix. */
static void *rows(graph *g, int64_t uid, int64_t offset_uid, const pf_sdpa_shape *s, int64_t stride)
{
    void *offset = column(g, offset_uid, DATA_INT64, s->batch + 1);
    void *t = begin(g, uid, DATA_BFLOAT16, (extents){{s->batch, s->q_heads, s->rows, s->dim}},
                    (extents){{s->rows * stride, s->dim, stride, 1}});
    graph_set(g, t, TENSOR_RAGGED_OFFSET_DESC, TYPE_DESCRIPTOR, 1, &offset);
    graph_finalize(g, t);
    return t;
}

/* Pages of keys, or of values: a page of both is the distance from one to the next. */
static void *pages(graph *g, int64_t uid, const pf_sdpa_shape *s)
{
    int64_t head = s->page_tokens * s->dim, page = 2 * s->kv_heads * head;
    return tensor(g, uid, DATA_BFLOAT16, (extents){{PF_SDPA_PAGES, s->kv_heads, s->page_tokens, s->dim}},
                  (extents){{page, head, s->dim, 1}});
}

void *graph_virtual(graph *g, int64_t uid, int32_t type, extents dims, extents strides)
{
    _Bool yes = 1;
    void *t = begin(g, uid, type, dims, strides);
    graph_set(g, t, TENSOR_IS_VIRTUAL, TYPE_BOOLEAN, 1, &yes);
    graph_finalize(g, t);
    return t;
}

void *graph_operations(graph *g, int64_t count, void **list)
{
    void *o = graph_make(g, OPERATIONGRAPH);
    if (!g->s->device)
        graph_set(g, o, OPERATIONGRAPH_HANDLE, TYPE_HANDLE, 1, &g->s->handle);
    graph_set(g, o, OPERATIONGRAPH_OPS, TYPE_DESCRIPTOR, count, list);
    graph_finalize(g, o);
    return o;
}

static void *scores(graph *g, int64_t uid, const pf_sdpa_shape *s)
{
    return graph_virtual(g, uid, DATA_FLOAT, (extents){{s->batch, s->q_heads, s->rows, s->keys}},
                         (extents){{s->q_heads * s->rows * s->keys, s->rows * s->keys, s->keys, 1}});
}

/* from, with what is outside the band masked: of a sequence's rows and keys, those whose last query
   is not beyond the key (no window), or those of less than window keys before it. */
static void *band(graph *g, void *from, void *to, const operands *x, void *window)
{
    int32_t comparison = window ? POINTWISE_CMP_GT : POINTWISE_CMP_GE;
    void *mask = graph_make(g, OPERATION_DIAGONAL_BAND_MASK);
    graph_set(g, mask, BAND_MASK_XDESC, TYPE_DESCRIPTOR, 1, &from);
    graph_set(g, mask, BAND_MASK_BDESC, TYPE_DESCRIPTOR, 1, &x->masked);
    graph_set(g, mask, BAND_MASK_SEQ_LEN_QDESC, TYPE_DESCRIPTOR, 1, &x->rows);
    graph_set(g, mask, BAND_MASK_SEQ_LEN_KVDESC, TYPE_DESCRIPTOR, 1, &x->keys);
    if (window)
        graph_set(g, mask, BAND_MASK_LEFT_BOUND_DESC, TYPE_DESCRIPTOR, 1, &window);
    graph_set(g, mask, BAND_MASK_YDESC, TYPE_DESCRIPTOR, 1, &to);
    graph_set(g, mask, BAND_MASK_COMPARISON_MODE, TYPE_POINTWISE_MODE, 1, &comparison);
    graph_finalize(g, mask);
    return mask;
}

/* Sets what happens between the scores and the softmax. */
static void mask(graph *g, void *attention, const pf_sdpa_shape *s, const operands *x)
{
    int64_t from = UID_VIRTUAL, causal_uid = from + 1, to = x->window ? from + 2 : causal_uid;
    void *causal = scores(g, causal_uid, s), *list[2];
    list[0] = band(g, scores(g, from, s), causal, x, NULL);
    if (x->window)
        list[1] = band(g, causal, scores(g, to, s), x, x->window);
    void *subgraph = graph_operations(g, x->window ? 2 : 1, list);
    graph_set(g, attention, SDPA_FWD_SUBGRAPH, TYPE_DESCRIPTOR, 1, &subgraph);
    graph_set(g, attention, SDPA_FWD_SUBGRAPH_INPUT_UID, TYPE_INT64, 1, &from);
    graph_set(g, attention, SDPA_FWD_SUBGRAPH_OUTPUT_UID, TYPE_INT64, 1, &to);
}

static void *unified(graph *g, const pf_sdpa_shape *s, const operands *x)
{
    const struct {
        int name;
        void *tensor;
    } inputs[] = {
        {SDPA_FWD_QDESC, x->q},
        {SDPA_FWD_KDESC, x->k},
        {SDPA_FWD_VDESC, x->v},
        {SDPA_FWD_ODESC, x->o},
        {SDPA_FWD_SCALEDESC, x->scale},
        {SDPA_FWD_PAGE_TABLE_KDESC, x->table},
        {SDPA_FWD_PAGE_TABLE_VDESC, x->table},
        {SDPA_FWD_SEQ_LEN_QDESC, x->rows},
        {SDPA_FWD_SEQ_LEN_KVDESC, x->keys},
    };
    void *attention = graph_make(g, OPERATION_SDPA_FWD);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        graph_set(g, attention, inputs[i].name, TYPE_DESCRIPTOR, 1, &inputs[i].tensor);
    mask(g, attention, s, x);
    graph_finalize(g, attention);
    return graph_operations(g, 1, &attention);
}

void *graph_attention(graph *g, const pf_sdpa_shape *s)
{
    int64_t wide = s->keys / s->page_tokens;
    operands x = {
        .q = rows(g, UID_Q, UID_Q_OFFSET, s, s->q_stride),
        .k = pages(g, UID_K, s),
        .v = pages(g, UID_V, s),
        .o = rows(g, UID_O, UID_O_OFFSET, s, s->o_stride),
        .scale = number(g, UID_SCALE, DATA_FLOAT),
        .rows = column(g, UID_ROWS, DATA_INT32, s->batch),
        .keys = column(g, UID_KEYS, DATA_INT32, s->batch),
        .table = tensor(g, UID_TABLE, DATA_INT32, (extents){{s->batch, 1, wide, 1}}, (extents){{wide, wide, 1, 1}}),
        .masked = number(g, UID_MASKED, DATA_FLOAT),
        .window = s->window > 0 ? number(g, UID_WINDOW, DATA_INT32) : NULL,
    };
    return pf_sdpa_version(g->s) < CUDNN_UNIFIED ? graph_composite(g, s, &x) : unified(g, s, &x);
}
