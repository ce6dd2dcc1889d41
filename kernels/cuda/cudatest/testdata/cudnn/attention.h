/* Attention of the graphs that sdpa describes, on the host. Included by fake.c. */

/* The program of an attention graph:
   0 batch, 1 rows, 2 keys, 3 heads, 4 key heads, 5 dim, 6 page tokens; uids from 7: q, k, v, o, scale,
   table, rows, keys, q offset, o offset, masked, window (-1: none); strides from 20: of q (4), k (4),
   v (4), o (4), table (4). */
static int compile_unified(const descriptor *operations, int64_t *program)
{
    const descriptor *op = part(operations, OPERATIONGRAPH_OPS, OPERATION_SDPA_FWD);
    const int names[] = {SDPA_FWD_QDESC, SDPA_FWD_KDESC, SDPA_FWD_VDESC, SDPA_FWD_ODESC, SDPA_FWD_SCALEDESC,
                         SDPA_FWD_PAGE_TABLE_KDESC, SDPA_FWD_SEQ_LEN_QDESC, SDPA_FWD_SEQ_LEN_KVDESC};
    const int types[] = {DATA_BFLOAT16, DATA_BFLOAT16, DATA_BFLOAT16, DATA_BFLOAT16, DATA_FLOAT, DATA_INT32, DATA_INT32, DATA_INT32};
    const descriptor *t[8];
    for (int i = 0; i < 8; i++) {
        t[i] = part(op, names[i], TENSOR);
        if (!t[i] || number(t[i], TENSOR_DATA_TYPE, -1) != types[i] || number(t[i], TENSOR_IS_VIRTUAL, 0))
            return BAD;
        program[7 + i] = uid(t[i]);
    }
    if (part(op, SDPA_FWD_PAGE_TABLE_VDESC, TENSOR) != t[5] || !number(t[4], TENSOR_IS_BY_VALUE, 0))
        return BAD;
    const int64_t *q = find(t[0], TENSOR_DIMENSIONS)->data, *k = find(t[1], TENSOR_DIMENSIONS)->data, *table = find(t[5], TENSOR_DIMENSIONS)->data;
    memcpy(program, (int64_t[]){q[0], q[2], table[2] * k[2], q[1], k[1], q[3], k[2]}, 7 * sizeof *program);
    if (table[0] != q[0] || k[3] != q[3] || memcmp(q, find(t[3], TENSOR_DIMENSIONS)->data, 32) || memcmp(k, find(t[2], TENSOR_DIMENSIONS)->data, 32))
        return BAD;
    for (int i = 0; i < 2; i++) { /* where sequences begin in q and o */
        const descriptor *offset = part(t[3 * i], TENSOR_RAGGED_OFFSET_DESC, TENSOR);
        if (!offset || number(offset, TENSOR_DATA_TYPE, -1) != DATA_INT64 || *(int64_t *)find(offset, TENSOR_DIMENSIONS)->data != q[0] + 1)
            return BAD;
        program[15 + i] = uid(offset);
    }
    for (int i = 0; i < 5; i++)
        memcpy(program + 20 + 4 * i, find(t[i < 4 ? i : 5], TENSOR_STRIDES)->data, 32);

    const descriptor *subgraph = part(op, SDPA_FWD_SUBGRAPH, OPERATIONGRAPH);
    const attribute *masks = find(subgraph, OPERATIONGRAPH_OPS);
    int64_t from = number(op, SDPA_FWD_SUBGRAPH_INPUT_UID, -1);
    program[18] = -1;
    if (!masks)
        return BAD;
    for (int64_t i = 0; i < masks->count; i++) {
        const descriptor *m = ((descriptor **)masks->data)[i], *window = part(m, BAND_MASK_LEFT_BOUND_DESC, TENSOR);
        if (m->type != OPERATION_DIAGONAL_BAND_MASK || part(m, BAND_MASK_SEQ_LEN_QDESC, TENSOR) != t[6] ||
            part(m, BAND_MASK_SEQ_LEN_KVDESC, TENSOR) != t[7] || uid(part(m, BAND_MASK_XDESC, TENSOR)) != from ||
            number(m, BAND_MASK_COMPARISON_MODE, 0) != (i ? POINTWISE_CMP_GT : POINTWISE_CMP_GE) || (i > 0) != (window != NULL))
            return BAD;
        program[17] = uid(part(m, BAND_MASK_BDESC, TENSOR));
        if (window)
            program[18] = uid(window);
        from = uid(part(m, BAND_MASK_YDESC, TENSOR));
    }
    return from == number(op, SDPA_FWD_SUBGRAPH_OUTPUT_UID, -1) ? 0 : BAD;
}

/* Of a graph of matrix products: 0 batch, 1 rows, 2 keys, 3 heads, 13 and 14 as above; the rest is evaluated. */
static int compile_composite(const descriptor *operations, int64_t *program)
{
    const attribute *list = find(operations, OPERATIONGRAPH_OPS);
    const descriptor *load = list && list->count > 2 ? *(descriptor **)list->data : NULL;
    const descriptor *product = load ? ((descriptor **)list->data)[1] : NULL, *q = part(product, OPERATION_MATMUL_ADESC, TENSOR);
    const descriptor *rows = part(product, OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, TENSOR), *keys = part(product, OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, TENSOR);
    const descriptor *scores = part(product, OPERATION_MATMUL_CDESC, TENSOR);
    if (!load || load->type != OPERATION_PAGED_CACHE_LOAD || part(load, PAGED_CACHE_LOAD_SEQUENCE_DESC, TENSOR) != keys || !q || !rows || !keys || !scores)
        return BAD;
    const int64_t *dims = find(scores, TENSOR_DIMENSIONS)->data;
    memcpy(program, (int64_t[]){dims[0], dims[2], dims[3], dims[1]}, 4 * sizeof *program);
    program[13] = uid(rows);
    program[14] = uid(keys);
    program[COMPOSITE] = 1;
    return 0;
}

static float widen(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#include "evaluate.h"

typedef struct {
    const int64_t *p;
    void *const *at; /* by uid */
} frame;

/* One output vector: query r of head h of sequence b. */
static void attend(frame f, int64_t b, int64_t h, int64_t r)
{
    const int64_t *p = f.p, *qs = p + 20, *ks = p + 24, *vs = p + 28, *os = p + 32, *ts = p + 36, dim = p[5];
    const uint16_t *q = (uint16_t *)f.at[p[7]] + ((int64_t *)f.at[p[15]])[b] + h * qs[1] + r * qs[2];
    uint16_t *o = (uint16_t *)f.at[p[10]] + ((int64_t *)f.at[p[16]])[b] + h * os[1] + r * os[2];
    int64_t rows = ((int32_t *)f.at[p[13]])[b], keys = ((int32_t *)f.at[p[14]])[b], head = h / (p[3] / p[4]);
    float scale = *(float *)f.at[p[11]], sum = 0, out[256] = {0};
    for (int64_t key = 0; key < keys; key++) {
        int64_t page = ((int32_t *)f.at[p[12]])[b * ts[0] + key / p[6] * ts[2]];
        const uint16_t *k = (uint16_t *)f.at[p[8]] + page * ks[0] + head * ks[1] + key % p[6] * ks[2];
        const uint16_t *v = (uint16_t *)f.at[p[9]] + page * vs[0] + head * vs[1] + key % p[6] * vs[2];
        float score = 0;
        for (int64_t i = 0; i < dim; i++)
            score += widen(q[i * qs[3]]) * widen(k[i * ks[3]]);
        score *= scale;
        if (!(r + keys - rows >= key) || (p[18] >= 0 && !(key + *(int32_t *)f.at[p[18]] - keys + rows > r)))
            score = *(float *)f.at[p[17]];
        float weight = expf(score);
        sum += weight;
        for (int64_t i = 0; i < dim; i++)
            out[i] += weight * widen(v[i * vs[3]]);
    }
    for (int64_t i = 0; i < dim; i++)
        o[i * os[3]] = narrow(out[i] / sum);
}

static int run_attention(const descriptor *plan, void *const *at)
{
    const int64_t *p = plan->program;
    frame f = {p, at};
    for (int64_t b = 0; b < p[0]; b++) {
        int64_t rows = ((int32_t *)at[p[13]])[b], keys = ((int32_t *)at[p[14]])[b];
        if (rows > p[1] || keys > p[2] || rows > keys)
            return BAD;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t h = 0; h < p[3]; h++)
                if (p[COMPOSITE])
                    evaluate(plan->graph, at, b, h, r, keys);
                else
                    attend(f, b, h, r);
    }
    return 0;
}
