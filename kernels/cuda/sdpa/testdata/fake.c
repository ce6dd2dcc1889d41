/* A libcudnn.so.9 for tests: keeps descriptors as the real one does, refuses what lacks an attribute,
   and computes the attention that a graph describes, on the host. The environment says how it is to
   behave: FAKE_CUDNN_VERSION, FAKE_CUDNN_CUDART, FAKE_CUDNN_REFUSE (rows of a bucket), FAKE_CUDNN_CODE (a kernel for
   that many rows differs), FAKE_CUDNN_STREAM_K, FAKE_CUDNN_LOG (a file that gets a line for each
   plan that is compiled or restored). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cudnn.h"

enum { BAD = 2000, REFUSED = 3000, ATTRIBUTES = 16, PROGRAM = 48, COMPOSITE = 47 };

typedef struct {
    int name, type;
    int64_t count;
    void *data;
} attribute;

typedef struct descriptor {
    int type, finalized, count;
    attribute a[ATTRIBUTES];
    int64_t program[PROGRAM]; /* of a plan */
    const struct descriptor *graph;
} descriptor;

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);
    return value && *value ? atoll(value) : otherwise;
}

static void note(const char *line)
{
    const char *file = getenv("FAKE_CUDNN_LOG");
    FILE *f = file && *file ? fopen(file, "a") : NULL;
    if (f) {
        fputs(line, f);
        fclose(f);
    }
}

size_t cudnnGetVersion(void) { return (size_t)setting("FAKE_CUDNN_VERSION", 92800); }
size_t cudnnGetCudartVersion(void) { return (size_t)setting("FAKE_CUDNN_CUDART", 13000); }
int cudnnCreate(void **handle) { *handle = malloc(1); return 0; }
int cudnnDestroy(void *handle) { free(handle); return 0; }
int cudnnSetStream(void *handle, void *stream) { return handle && !stream ? 0 : BAD; }
const char *cudnnGetErrorString(int status) { return status == REFUSED ? "FAKE_NOT_SUPPORTED" : "FAKE_BAD_PARAM"; }
void cudnnGetLastErrorString(char *message, size_t size) { snprintf(message, size, "the fake's reason"); }

int cudnnBackendCreateDescriptor(int type, void **d)
{
    *d = calloc(1, sizeof(descriptor));
    ((descriptor *)*d)->type = type;
    return 0;
}

int cudnnBackendDestroyDescriptor(void *p)
{
    descriptor *d = p;
    for (int i = 0; i < d->count; i++)
        free(d->a[i].data);
    free(d);
    return 0;
}

static size_t size_of(int type)
{
    switch (type) {
    case TYPE_HANDLE: case TYPE_INT64: case TYPE_VOID_PTR: case TYPE_DESCRIPTOR: return 8;
    case TYPE_BOOLEAN: case TYPE_CHAR: return 1;
    default: return 4;
    }
}

static const attribute *find(const descriptor *d, int name)
{
    for (int i = 0; d && i < d->count; i++)
        if (d->a[i].name == name)
            return &d->a[i];
    return NULL;
}

int cudnnBackendSetAttribute(void *p, int name, int type, int64_t count, const void *elements)
{
    descriptor *d = p;
    if (!d || d->finalized || d->count == ATTRIBUTES || count < 1 || find(d, name))
        return BAD;
    attribute *a = &d->a[d->count++];
    *a = (attribute){name, type, count, malloc(size_of(type) * (size_t)count)};
    memcpy(a->data, elements, size_of(type) * (size_t)count);
    for (int64_t i = 0; type == TYPE_DESCRIPTOR && i < count; i++)
        if (!((descriptor **)a->data)[i] || !((descriptor **)a->data)[i]->finalized)
            return BAD;
    return 0;
}

static const descriptor *part(const descriptor *d, int name, int type)
{
    const attribute *a = find(d, name);
    const descriptor *found = a && a->type == TYPE_DESCRIPTOR ? *(descriptor **)a->data : NULL;
    return found && found->type == type ? found : NULL;
}

static int64_t number(const descriptor *d, int name, int64_t otherwise)
{
    const attribute *a = find(d, name);
    if (!a)
        return otherwise;
    return a->type == TYPE_INT64 ? *(int64_t *)a->data : a->type == TYPE_BOOLEAN ? *(uint8_t *)a->data : *(int32_t *)a->data;
}

static int64_t uid(const descriptor *tensor) { return number(tensor, TENSOR_UNIQUE_ID, -1); }

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

static int compile(const descriptor *operations, int64_t *program)
{
    int one = part(operations, OPERATIONGRAPH_OPS, OPERATION_SDPA_FWD) != NULL;
    if (one != (cudnnGetVersion() >= 92100))
        return REFUSED;
    return one ? compile_unified(operations, program) : compile_composite(operations, program);
}

static int finalize_plan(descriptor *d)
{
    const attribute *json = find(d, EXECUTION_PLAN_JSON_REPRESENTATION);
    if (!find(d, EXECUTION_PLAN_HANDLE) && !find(d, EXECUTION_PLAN_DEVICEPROP))
        return BAD;
    if (json) {
        char *text = calloc(1, (size_t)json->count + 1), *at = strstr(memcpy(text, json->data, (size_t)json->count), "\"program\":");
        int n = 0;
        for (char *end = at ? at + 10 : text; n < PROGRAM; n++) {
            at = end;
            d->program[n] = strtoll(at, &end, 10);
            if (end == at)
                break;
            end += *end == ',';
        }
        free(text);
        if (n < PROGRAM)
            return BAD;
        note("restored\n");
        return 0;
    }
    const descriptor *config = part(d, EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG), *engine = part(config, ENGINECFG_ENGINE, ENGINE);
    const attribute *knobs = find(config, ENGINECFG_KNOB_CHOICES);
    if (number(engine, ENGINE_GLOBAL_INDEX, -1) != 9 || !knobs || knobs->count != 2 ||
        number(*(descriptor **)knobs->data, KNOB_CHOICE_KNOB_TYPE, 0) != 40 || number(*(descriptor **)knobs->data, KNOB_CHOICE_KNOB_VALUE, 0) != 3)
        return BAD;
    d->graph = part(engine, ENGINE_OPERATION_GRAPH, OPERATIONGRAPH);
    int status = compile(d->graph, d->program);
    if (!status && d->program[1] == setting("FAKE_CUDNN_REFUSE", -1))
        return REFUSED;
    note("compiled\n");
    return status;
}

int cudnnBackendFinalize(void *p)
{
    descriptor *d = p;
    int status = 0;
    if (d->type == TENSOR)
        status = find(d, TENSOR_DIMENSIONS) && find(d, TENSOR_STRIDES) && find(d, TENSOR_DATA_TYPE) && find(d, TENSOR_BYTE_ALIGNMENT) && uid(d) >= 0 ? 0 : BAD;
    if (d->type == ENGINEHEUR)
        status = number(d, ENGINEHEUR_MODE, -1) == HEUR_MODE_A ? compile(part(d, ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH), d->program) : BAD;
    if (d->type == EXECUTION_PLAN)
        status = finalize_plan(d);
    d->finalized = !status;
    return status;
}

/* Gives descriptor d an attribute after the fact. */
static void give(descriptor *d, int name, int type, int64_t value)
{
    d->finalized = 0;
    cudnnBackendSetAttribute(d, name, type, 1, &value);
    d->finalized = 1;
}

static int read_plan(const descriptor *d, int name, int64_t capacity, int64_t *count, void *elements)
{
    if (name == EXECUTION_PLAN_WORKSPACE_SIZE) {
        *(int64_t *)elements = 512;
        return *count = 1, 0;
    }
    char text[4096];
    int length = sprintf(text, "{\"kernelName\":\"fake_kernel\",\"cubin\":\"%s\",\"program\":", d->program[1] == setting("FAKE_CUDNN_CODE", -1) ? "BBBB" : "AAAA");
    for (int i = 0; i < PROGRAM; i++)
        length += sprintf(text + length, "%lld,", (long long)d->program[i]);
    *count = length;
    if (elements)
        memcpy(elements, text, (size_t)(capacity < length ? capacity : length));
    return 0;
}

int cudnnBackendGetAttribute(void *p, int name, int type, int64_t capacity, int64_t *count, void *elements)
{
    descriptor *d = p;
    if (d->type == EXECUTION_PLAN)
        return d->finalized ? read_plan(d, name, capacity, count, elements) : BAD;
    if (type == TYPE_DESCRIPTOR) {
        descriptor **to = elements;
        *count = name == ENGINECFG_KNOB_CHOICES ? 2 : 1;
        if (capacity < *count)
            return BAD;
        if (name == ENGINECFG_ENGINE)
            give(to[0], ENGINE_GLOBAL_INDEX, TYPE_INT64, 9);
        for (int i = 0; name == ENGINECFG_KNOB_CHOICES && i < 2; i++) {
            give(to[i], KNOB_CHOICE_KNOB_TYPE, TYPE_KNOB_TYPE, i ? 38 : 40);
            give(to[i], KNOB_CHOICE_KNOB_VALUE, TYPE_INT64, i ? setting("FAKE_CUDNN_STREAM_K", 0) : 3);
        }
        return 0;
    }
    const attribute *a = find(d, name);
    if (!a || a->type != type)
        return BAD;
    memcpy(elements, a->data, size_of(type));
    return *count = 1, 0;
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

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    descriptor *d = plan;
    const attribute *ids = find(pack, VARIANT_PACK_UNIQUE_IDS), *pointers = find(pack, VARIANT_PACK_DATA_POINTERS);
    void *at[32] = {0};
    if (!handle || !ids || !pointers || ids->count != pointers->count || !find(pack, VARIANT_PACK_WORKSPACE))
        return BAD;
    for (int64_t i = 0; i < ids->count; i++)
        at[((int64_t *)ids->data)[i]] = ((void **)pointers->data)[i];
    for (int i = 0; i < ids->count; i++)
        if (!at[((int64_t *)ids->data)[i]])
            return BAD;
    frame f = {d->program, at};
    for (int64_t b = 0; b < d->program[0]; b++) {
        int64_t rows = ((int32_t *)at[d->program[13]])[b], keys = ((int32_t *)at[d->program[14]])[b];
        if (rows > d->program[1] || keys > d->program[2] || rows > keys)
            return BAD;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t h = 0; h < d->program[3]; h++)
                if (d->program[COMPOSITE])
                    evaluate(d->graph, at, b, h, r, keys);
                else
                    attend(f, b, h, r);
    }
    return 0;
}
