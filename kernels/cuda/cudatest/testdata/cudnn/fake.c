/* A libcudnn.so.9 for tests: holds what it is given to cuDNN's reference (rules.h: attributes, their types and numbers,
   what must be set and finalised before), gives engines as cuDNN does, and computes the attention and the convolutions
   that graphs describe, on the host. The environment says how it is to behave:
     FAKE_CUDNN_VERSION, FAKE_CUDNN_CUDART   versions
     FAKE_CUDNN_LOG          a file that gets a line for each plan that is compiled or restored, and each that runs
     FAKE_CUDNN_REFUSE       rows of a bucket whose plan is refused; -2: every plan of a convolution
     FAKE_CUDNN_CODE         rows of a bucket whose kernel differs
     FAKE_CUDNN_STREAM_K     of attention's engine
     FAKE_CUDNN_HEURISTIC    0: mode A knows no engine for a convolution, and the fallback does
     FAKE_CUDNN_FUSES        0: no engine of a convolution takes more than it
     FAKE_CUDNN_BATCHES      0: plans of more than one image are refused
     FAKE_CUDNN_WORKSPACE    bytes that plans need
     FAKE_CUDNN_WRONG        1: results of convolutions are wrong; 2: their bits depend on whether there are more than 6 rows
     FAKE_CUDNN_EXECUTE      the status of every execution
     FAKE_CUDNN_FAILS_AFTER  executions after which all fail, counted anew while it is not set */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../cudnn/cudnn.h"

enum {
    BAD = 2000, BAD_NULL = 2002, BAD_ALIGNMENT = 2003, BAD_NOT_FINALIZED = 2004, BAD_COUNT = 2005, BAD_SHAPE = 2008, BAD_DUPLICATE = 2009,
    BAD_TYPE = 2010, BAD_DESCRIPTOR = 2012, REFUSED = 3000, REFUSED_PATTERN = 3001, REFUSED_LAYOUT = 3004, REFUSED_PADDING = 3011,
    ATTRIBUTES = 16, PROGRAM = 48, COMPOSITE = 47, UIDS_MOST = 96
};

#include "rules.h"

typedef struct {
    int name, type;
    int64_t count;
    void *data;
} attribute;

typedef struct descriptor {
    int type, finalized, count;
    attribute a[ATTRIBUTES];
    int64_t program[PROGRAM]; /* of a plan of attention */
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

/* Why the last call failed, for cudnnGetLastErrorString. */
static char reason[256] = "the fake's reason";

static int because(int status, const char *why, int what)
{
    snprintf(reason, sizeof reason, "the fake's reason: %s %d", why, what);
    return status;
}

size_t cudnnGetVersion(void) { return (size_t)setting("FAKE_CUDNN_VERSION", 92800); }
size_t cudnnGetCudartVersion(void) { return (size_t)setting("FAKE_CUDNN_CUDART", 13000); }
int cudnnCreate(void **handle) { *handle = malloc(1); return 0; }
int cudnnDestroy(void *handle) { free(handle); return 0; }
int cudnnSetStream(void *handle, void *stream) { return handle && !stream ? 0 : BAD; }
const char *cudnnGetErrorString(int status) { return status >= 5000 ? "FAKE_EXECUTION_FAILED" : status >= 3000 ? "FAKE_NOT_SUPPORTED" : "FAKE_BAD_PARAM"; }
void cudnnGetLastErrorString(char *message, size_t size) { snprintf(message, size, "%s", reason); }

int cudnnBackendCreateDescriptor(int type, void **d)
{
    int known = 0;
    for (int i = 0; i < RULES; i++)
        known = known || rules[i].descriptor == type;
    if (!known || !d)
        return because(BAD, "descriptors of type", type);
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
    case TYPE_HANDLE: case TYPE_INT64: case TYPE_DOUBLE: case TYPE_VOID_PTR: case TYPE_DESCRIPTOR: return 8;
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

static int is_operation(int type)
{
    switch (type) {
    case OPERATION_CONVOLUTION_FORWARD: case OPERATION_CONVOLUTION_BWD_DATA: case OPERATION_POINTWISE: case OPERATION_MATMUL: case OPERATION_REDUCTION:
    case OPERATION_PAGED_CACHE_LOAD: case OPERATION_SDPA_FWD: case OPERATION_DIAGONAL_BAND_MASK: return 1;
    default: return 0;
    }
}

/* Sets an attribute, whatever may be set. */
static int keep(descriptor *d, int name, int type, int64_t count, const void *elements)
{
    if (d->count == ATTRIBUTES)
        return BAD;
    attribute *a = &d->a[d->count++];
    *a = (attribute){name, type, count, malloc(size_of(type) * (size_t)(count + 1))};
    memcpy(a->data, elements, size_of(type) * (size_t)count);
    return 0;
}

int cudnnBackendSetAttribute(void *p, int name, int type, int64_t count, const void *elements)
{
    descriptor *d = p;
    if (!d || !elements)
        return because(BAD_NULL, "no descriptor or elements for attribute", name);
    int i = rule_of(d->type, name);
    if (i < 0 || rules[i].flags & READ_ONLY)
        return because(BAD, "a descriptor without attribute", name);
    if (d->finalized)
        return because(BAD, "a finalised descriptor gets attribute", name);
    if (rules[i].type != type)
        return because(BAD_TYPE, "another type of attribute", name);
    if (count < rules[i].least || count > rules[i].most)
        return because(BAD_COUNT, "another number of elements of attribute", name);
    if (find(d, name))
        return because(BAD_DUPLICATE, "twice attribute", name);
    for (int64_t j = 0; type == TYPE_DESCRIPTOR && j < count; j++) {
        const descriptor *of = ((descriptor *const *)elements)[j];
        if (!of)
            return because(BAD_NULL, "no descriptor in attribute", name);
        if (rules[i].part == ANY ? !is_operation(of->type) : of->type != rules[i].part)
            return because(BAD_DESCRIPTOR, "another descriptor in attribute", name);
        if (!of->finalized)
            return because(BAD_NOT_FINALIZED, "a descriptor that is not finalised in attribute", name);
    }
    return keep(d, name, type, count, elements);
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

#include "attention.h"
#include "convolution.h"

static int is_convolution(const descriptor *operations)
{
    const attribute *list = find(operations, OPERATIONGRAPH_OPS);
    int type = (*(descriptor **)list->data)->type;
    return type == OPERATION_CONVOLUTION_FORWARD || type == OPERATION_CONVOLUTION_BWD_DATA;
}

static int compile(const descriptor *operations, int64_t *program)
{
    convolution c;
    if (is_convolution(operations))
        return read_convolution(operations, &c);
    int one = part(operations, OPERATIONGRAPH_OPS, OPERATION_SDPA_FWD) != NULL;
    if (one != (cudnnGetVersion() >= 92100))
        return REFUSED;
    return one ? compile_unified(operations, program) : compile_composite(operations, program);
}

#include "engines.h"

static int finalize_tensor(const descriptor *d)
{
    const attribute *dims = find(d, TENSOR_DIMENSIONS), *strides = find(d, TENSOR_STRIDES);
    int64_t type = number(d, TENSOR_DATA_TYPE, -1), alignment = number(d, TENSOR_BYTE_ALIGNMENT, 0);
    int64_t size = type == DATA_INT64 ? 8 : type == DATA_BFLOAT16 ? 2 : type == DATA_BOOLEAN ? 1 : 4;
    if (dims->count != strides->count || dims->count < 3)
        return because(BAD_COUNT, "dimensions", (int)dims->count);
    for (int64_t i = 0; i < dims->count; i++)
        if (((int64_t *)dims->data)[i] < 1 || ((int64_t *)strides->data)[i] < 1)
            return because(BAD, "a dimension or stride that is not positive:", (int)i);
    if (alignment < size || alignment % size || alignment & (alignment - 1))
        return because(BAD, "an alignment of", (int)alignment);
    if (uid(d) < 0 || uid(d) >= UIDS_MOST || (number(d, TENSOR_IS_VIRTUAL, 0) && number(d, TENSOR_IS_BY_VALUE, 0)))
        return because(BAD, "a tensor of number", (int)uid(d));
    return 0;
}

static int finalize_convolution(const descriptor *d)
{
    int64_t spatial = number(d, CONVOLUTION_SPATIAL_DIMS, 0);
    const int names[] = {CONVOLUTION_DILATIONS, CONVOLUTION_FILTER_STRIDES, CONVOLUTION_PRE_PADDINGS, CONVOLUTION_POST_PADDINGS};
    for (int i = 0; i < 4; i++) {
        const attribute *a = find(d, names[i]);
        if (a->count != spatial)
            return because(BAD_COUNT, "another number of spatial dimensions of attribute", names[i]);
        for (int64_t j = 0; j < spatial; j++)
            if (((int64_t *)a->data)[j] < (i < 2))
                return because(BAD, "too small a value of attribute", names[i]);
    }
    return 0;
}

/* The tensors of a graph by number: two of one number are an error. */
static int tensors_of(const descriptor *operations, const descriptor **by)
{
    const attribute *list = find(operations, OPERATIONGRAPH_OPS);
    for (int64_t i = 0; i < list->count; i++) {
        const descriptor *op = ((descriptor **)list->data)[i];
        for (int j = 0; j < op->count; j++) {
            const descriptor *t = part(op, op->a[j].name, TENSOR), *subgraph = part(op, op->a[j].name, OPERATIONGRAPH);
            const descriptor *offset = part(t, TENSOR_RAGGED_OFFSET_DESC, TENSOR);
            if (subgraph && tensors_of(subgraph, by))
                return BAD_DUPLICATE;
            if (t && by[uid(t)] && by[uid(t)] != t)
                return because(BAD_DUPLICATE, "two tensors of number", (int)uid(t));
            if (t)
                by[uid(t)] = t;
            if (offset)
                by[uid(offset)] = offset;
        }
    }
    return 0;
}

static int finalize_graph(const descriptor *d)
{
    const descriptor *by[UIDS_MOST] = {0};
    if (tensors_of(d, by))
        return BAD_DUPLICATE;
    if (!is_convolution(d))
        return 0;
    convolution c;
    int status = read_convolution(d, &c);
    return status ? because(status, "no graph of a convolution:", status) : 0;
}

static int restore(descriptor *d, const attribute *json)
{
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

static int64_t knob(const attribute *knobs, int64_t i, int name) { return number(((descriptor **)knobs->data)[i], name, -1); }

static int finalize_plan(descriptor *d)
{
    const attribute *json = find(d, EXECUTION_PLAN_JSON_REPRESENTATION);
    if (!find(d, EXECUTION_PLAN_HANDLE) && !find(d, EXECUTION_PLAN_DEVICEPROP))
        return because(BAD, "a plan without a handle or device", 0);
    if (json)
        return restore(d, json);
    const descriptor *config = part(d, EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG), *engine = part(config, ENGINECFG_ENGINE, ENGINE);
    const attribute *knobs = find(config, ENGINECFG_KNOB_CHOICES);
    int64_t index = number(engine, ENGINE_GLOBAL_INDEX, -1);
    d->graph = part(engine, ENGINE_OPERATION_GRAPH, OPERATIONGRAPH);
    if (!d->graph)
        return because(BAD, "a plan without a graph", 0);
    if (is_convolution(d->graph)) {
        int64_t list[ENGINES], known = 0;
        convolution c;
        for (int mode = HEUR_MODE_FALLBACK; mode <= HEUR_MODE_A; mode++)
            for (int i = engines_for(d->graph, mode, list); i-- > 0;)
                known |= list[i] == index;
        if (!known || !knobs || knob(knobs, 0, KNOB_CHOICE_KNOB_TYPE) != KNOB_SPLIT_K_SLC || knob(knobs, 0, KNOB_CHOICE_KNOB_VALUE) != (index == SPLITS_SUMS ? 4 : 1))
            return because(BAD, "engines or knobs of a convolution:", (int)index);
        read_convolution(d->graph, &c);
        if (setting("FAKE_CUDNN_REFUSE", -1) == -2 || (ints(c.x, TENSOR_DIMENSIONS)[0] > 1 && !setting("FAKE_CUDNN_BATCHES", 1)))
            return because(REFUSED, "a convolution by engine", (int)index);
        size_t both = sizeof(int64_t) * (size_t)number(c.how, CONVOLUTION_SPATIAL_DIMS, 0);
        if (memcmp(ints(c.how, CONVOLUTION_PRE_PADDINGS), ints(c.how, CONVOLUTION_POST_PADDINGS), both))
            return because(REFUSED_PADDING, "padding that differs before and after by engine", (int)index);
        note("compiled\n");
        return 0;
    }
    if (index != ATTENTION || !knobs || knobs->count != 2 || knob(knobs, 0, KNOB_CHOICE_KNOB_TYPE) != 40 || knob(knobs, 0, KNOB_CHOICE_KNOB_VALUE) != 3)
        return because(BAD, "engines or knobs of attention:", (int)index);
    int status = compile(d->graph, d->program);
    if (!status && d->program[1] == setting("FAKE_CUDNN_REFUSE", -1))
        return because(REFUSED, "rows of a bucket:", (int)d->program[1]);
    note("compiled\n");
    return status;
}

static int finalize_pack(const descriptor *d)
{
    const attribute *ids = find(d, VARIANT_PACK_UNIQUE_IDS), *pointers = find(d, VARIANT_PACK_DATA_POINTERS);
    return ids->count == pointers->count ? 0 : because(BAD_COUNT, "addresses of tensors:", (int)pointers->count);
}

int cudnnBackendFinalize(void *p)
{
    descriptor *d = p;
    if (!d || d->finalized)
        return because(BAD, "finalised twice", 0);
    for (int i = 0; i < RULES; i++)
        if (rules[i].descriptor == d->type && rules[i].flags & NEEDED && !find(d, rules[i].name))
            return because(BAD, "missing attribute", rules[i].name);
    int status = 0;
    switch (d->type) {
    case TENSOR: status = finalize_tensor(d); break;
    case CONVOLUTION: status = finalize_convolution(d); break;
    case OPERATIONGRAPH: status = finalize_graph(d); break;
    case EXECUTION_PLAN: status = finalize_plan(d); break;
    case VARIANT_PACK: status = finalize_pack(d); break;
    case ENGINEHEUR: {
        int64_t list[ENGINES], mode = number(d, ENGINEHEUR_MODE, -1);
        const descriptor *graph = part(d, ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH);
        status = mode != HEUR_MODE_A && mode != HEUR_MODE_FALLBACK ? BAD : compile(graph, d->program);
        if (!status && engines_for(graph, mode, list) == 0)
            status = because(REFUSED, "no engine in mode", (int)mode);
    }
    }
    d->finalized = !status;
    return status;
}

static int read_plan(const descriptor *d, int name, int64_t capacity, int64_t *count, void *elements)
{
    if (name == EXECUTION_PLAN_WORKSPACE_SIZE) {
        *(int64_t *)elements = setting("FAKE_CUDNN_WORKSPACE", 512);
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
    int i = d ? rule_of(d->type, name) : -1;
    if (i < 0 || rules[i].type != type)
        return because(BAD_TYPE, "no attribute to read, or of another type:", name);
    if (!d->finalized)
        return because(BAD_NOT_FINALIZED, "not finalised, and to be read: attribute", name);
    if (d->type == EXECUTION_PLAN)
        return read_plan(d, name, capacity, count, elements);
    if (d->type == ENGINEHEUR && name == ENGINEHEUR_RESULTS)
        return read_results(d, capacity, count, elements);
    if (d->type == ENGINECFG)
        return read_config(d, name, capacity, count, elements);
    if (name == ENGINE_NUMERICAL_NOTE) {
        int64_t index = number(d, ENGINE_GLOBAL_INDEX, -1);
        *count = index == TENSOR_CORES || index == WINOGRAD || index == ATTENTION;
        if (*count > capacity)
            return BAD_COUNT;
        if (*count)
            *(int32_t *)elements = index == WINOGRAD ? NOTE_WINOGRAD : NOTE_TENSOR_CORE;
        return 0;
    }
    const attribute *a = find(d, name);
    if (!a || capacity < 1)
        return BAD;
    memcpy(elements, a->data, size_of(type));
    return *count = 1, 0;
}

/* Whether the pack has each tensor of the plan's graph that lies in memory, where it may lie. */
static int complete(const descriptor *plan, void *const *at)
{
    const descriptor *by[UIDS_MOST] = {0};
    if (!plan->graph) /* restored */
        return 0;
    tensors_of(plan->graph, by);
    for (int i = 0; i < UIDS_MOST; i++) {
        int wanted = by[i] && !number(by[i], TENSOR_IS_VIRTUAL, 0);
        if (wanted != (at[i] != NULL))
            return because(BAD_NULL, "an address too few or too many: of tensor", i);
        int64_t alignment = wanted && !number(by[i], TENSOR_IS_BY_VALUE, 0) ? number(by[i], TENSOR_BYTE_ALIGNMENT, 1) : 1;
        if ((uintptr_t)at[i] % (uintptr_t)alignment)
            return because(BAD_ALIGNMENT, "the address of tensor", i);
    }
    return 0;
}

/* Makes results wrong as FAKE_CUDNN_WRONG wants it. */
static void spoil(const descriptor *plan, void *const *at)
{
    convolution c;
    int64_t how = setting("FAKE_CUDNN_WRONG", 0);
    if (!how || read_convolution(plan->graph, &c))
        return;
    const descriptor *to = c.backward ? c.x : c.fused ? part(c.after[c.fused - 1], OPERATION_POINTWISE_YDESC, TENSOR) : c.y;
    int64_t last[8];
    for (int i = 0; i < dims_of(to); i++)
        last[i] = ints(to, TENSOR_DIMENSIONS)[i] - 1;
    float *changed = element(to, at, last);
    if (how == 1)
        *changed += 1 + fabsf(*changed);
    else if (how == 2 && last[2] > 5)
        *changed *= 1 + 0x1p-20f;
}

int cudnnBackendExecute(void *handle, void *p, void *pack)
{
    descriptor *plan = p;
    const attribute *ids = find(pack, VARIANT_PACK_UNIQUE_IDS), *pointers = find(pack, VARIANT_PACK_DATA_POINTERS);
    void *at[UIDS_MOST] = {0};
    int status = (int)setting("FAKE_CUDNN_EXECUTE", 0);
    if (!handle || !plan->finalized || !((descriptor *)pack)->finalized)
        return because(BAD_NOT_FINALIZED, "a plan or pack that is not finalised", 0);
    if (setting("FAKE_CUDNN_WORKSPACE", 512) && !*(void **)find(pack, VARIANT_PACK_WORKSPACE)->data)
        return because(BAD_NULL, "no workspace", 0);
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t id = ((int64_t *)ids->data)[i];
        if (id < 0 || id >= UIDS_MOST || !((void **)pointers->data)[i])
            return because(BAD_NULL, "no address of tensor", (int)id);
        at[id] = ((void **)pointers->data)[i];
    }
    if (!status)
        status = complete(plan, at);
    static int64_t runs;
    runs = setting("FAKE_CUDNN_FAILS_AFTER", 0) ? runs + 1 : 0;
    if (!status && runs > setting("FAKE_CUDNN_FAILS_AFTER", runs))
        status = because(5000, "failures after", (int)runs);
    if (status)
        return status;
    note("ran\n");
    if (!plan->graph || !is_convolution(plan->graph))
        return run_attention(plan, at);
    status = run_convolution(plan, at);
    spoil(plan, at);
    return status;
}
