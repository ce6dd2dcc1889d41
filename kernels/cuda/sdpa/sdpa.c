#define _GNU_SOURCE
#include "sdpa.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"cudnnGetVersion", offsetof(cudnn_functions, version)},
    {"cudnnGetCudartVersion", offsetof(cudnn_functions, cudart_version)},
    {"cudnnCreate", offsetof(cudnn_functions, create)},
    {"cudnnDestroy", offsetof(cudnn_functions, destroy)},
    {"cudnnSetStream", offsetof(cudnn_functions, set_stream)},
    {"cudnnGetErrorString", offsetof(cudnn_functions, error_string)},
    {"cudnnGetLastErrorString", offsetof(cudnn_functions, last_error_string)},
    {"cudnnBackendCreateDescriptor", offsetof(cudnn_functions, create_descriptor)},
    {"cudnnBackendDestroyDescriptor", offsetof(cudnn_functions, destroy_descriptor)},
    {"cudnnBackendSetAttribute", offsetof(cudnn_functions, set_attribute)},
    {"cudnnBackendGetAttribute", offsetof(cudnn_functions, get_attribute)},
    {"cudnnBackendFinalize", offsetof(cudnn_functions, finalize)},
    {"cudnnBackendExecute", offsetof(cudnn_functions, execute)},
};

static void say(char *error, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
}

/* Whether the version is another, or cuBLASLt is missing: without it cuDNN ends the process. */
static int unfit(pf_sdpa *s, char *error, size_t error_size)
{
    int64_t version = pf_sdpa_version(s);
    if (version < CUDNN_OLDEST || version >= 100000) {
        say(error, error_size, "cuDNN is version %d.%d, and 9.19 or newer of 9 is wanted", (int)(version / 10000), (int)(version / 100 % 100));
        return 1;
    }
    char name[64];
    snprintf(name, sizeof name, "libcublasLt.so.%d", (int)(s->f.cudart_version() / 1000));
    s->cublas = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!s->cublas)
        say(error, error_size, "cuDNN needs %s, which cannot be opened: %s", name, dlerror());
    return s->cublas == NULL;
}

/* Describes the device of which no GPU is at hand. */
static int describe_device(pf_sdpa *s, const char *properties, char *error, size_t error_size)
{
    int status = s->f.create_descriptor(DEVICEPROP, &s->device);
    if (!status)
        status = s->f.set_attribute(s->device, DEVICEPROP_JSON_REPRESENTATION, TYPE_CHAR, (int64_t)strlen(properties) + 1, properties);
    if (!status)
        status = s->f.finalize(s->device);
    if (status)
        say(error, error_size, "cuDNN does not take the device's properties: %s", s->f.error_string(status));
    return status;
}

static int prepare(pf_sdpa *s, void *stream, char *error, size_t error_size)
{
    int status = s->f.create(&s->handle);
    if (status)
        s->handle = NULL;
    else
        status = s->f.set_stream(s->handle, stream);
    if (status)
        say(error, error_size, "cudnnCreate: %s", s->f.error_string(status));
    return status;
}

pf_sdpa *pf_sdpa_open(const char *library, void *stream, const char *properties, char *error, size_t error_size)
{
    pf_sdpa *s = calloc(1, sizeof *s);
    /* Once in, it stays: cuDNN is not made for being unloaded. */
    s->library = dlopen(library ? library : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!s->library) {
        say(error, error_size, "cuDNN cannot be opened: %s", dlerror());
        free(s);
        return NULL;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(s->library, symbols[i].name);
        if (!address) {
            say(error, error_size, "cuDNN has no %s; version 9.19 or newer is wanted", symbols[i].name);
            pf_sdpa_close(s);
            return NULL;
        }
        memcpy((char *)&s->f + symbols[i].offset, &address, sizeof address);
    }
    int failed = unfit(s, error, error_size);
    if (!failed)
        failed = properties ? describe_device(s, properties, error, error_size) : prepare(s, stream, error, error_size);
    if (failed) {
        pf_sdpa_close(s);
        return NULL;
    }
    return s;
}

void pf_sdpa_close(pf_sdpa *s)
{
    if (s->device)
        s->f.destroy_descriptor(s->device);
    if (s->handle)
        s->f.destroy(s->handle);
    if (s->cublas)
        dlclose(s->cublas);
    dlclose(s->library);
    free(s);
}

int64_t pf_sdpa_version(const pf_sdpa *s) { return (int64_t)s->f.version(); }

/* Ends a graph's use: what failed in it goes into error. */
static int finish(graph *g, char *error, size_t error_size)
{
    if (g->status) {
        char last[512] = "";
        g->s->f.last_error_string(last, sizeof last);
        say(error, error_size, "%s: %s (%d)%s%s", g->failed, g->s->f.error_string(g->status), g->status, *last ? ": " : "", last);
    }
    return g->status ? -1 : 0;
}

/* Reads the engine of a configuration that the heuristic gave. */
static void read_engine(graph *g, void *config, pf_sdpa_engine *e)
{
    void *engine = graph_make(g, ENGINE), *knobs[PF_SDPA_KNOBS];
    graph_get(g, config, ENGINECFG_ENGINE, TYPE_DESCRIPTOR, 1, &engine);
    graph_get(g, engine, ENGINE_GLOBAL_INDEX, TYPE_INT64, 1, &e->index);
    for (int i = 0; i < PF_SDPA_KNOBS; i++)
        knobs[i] = graph_make(g, KNOB_CHOICE);
    e->knobs = graph_get(g, config, ENGINECFG_KNOB_CHOICES, TYPE_DESCRIPTOR, PF_SDPA_KNOBS, knobs);
    for (int i = 0; i < e->knobs; i++) {
        int32_t knob = 0;
        graph_get(g, knobs[i], KNOB_CHOICE_KNOB_TYPE, TYPE_KNOB_TYPE, 1, &knob);
        graph_get(g, knobs[i], KNOB_CHOICE_KNOB_VALUE, TYPE_INT64, 1, &e->value[i]);
        e->knob[i] = knob;
    }
}

int pf_sdpa_choose(pf_sdpa *s, const pf_sdpa_shape *shape, pf_sdpa_engine *engine, char *error, size_t error_size)
{
    graph g = {.s = s};
    int32_t mode = HEUR_MODE_A;
    void *operations = graph_attention(&g, shape), *heuristic = graph_make(&g, ENGINEHEUR);
    graph_set(&g, heuristic, ENGINEHEUR_OPERATION_GRAPH, TYPE_DESCRIPTOR, 1, &operations);
    graph_set(&g, heuristic, ENGINEHEUR_MODE, TYPE_HEUR_MODE, 1, &mode);
    if (s->device)
        graph_set(&g, heuristic, ENGINEHEUR_DEVICEPROP, TYPE_DESCRIPTOR, 1, &s->device);
    graph_finalize(&g, heuristic);
    void *config = graph_make(&g, ENGINECFG);
    if (graph_get(&g, heuristic, ENGINEHEUR_RESULTS, TYPE_DESCRIPTOR, 1, &config) > 0)
        read_engine(&g, config, engine);
    else if (!g.status)
        graph_fail(&g, "cuDNN's heuristic knows no engine", STATUS_NOT_SUPPORTED);
    int failed = finish(&g, error, error_size);
    graph_free(&g);
    return failed;
}

/* The configuration of this engine and these knobs. */
static void *configure(graph *g, void *operations, const pf_sdpa_engine *e)
{
    void *engine = graph_make(g, ENGINE), *config = graph_make(g, ENGINECFG), *knobs[PF_SDPA_KNOBS];
    graph_set(g, engine, ENGINE_OPERATION_GRAPH, TYPE_DESCRIPTOR, 1, &operations);
    graph_set(g, engine, ENGINE_GLOBAL_INDEX, TYPE_INT64, 1, &e->index);
    if (g->s->device)
        graph_set(g, engine, ENGINE_DEVICEPROP, TYPE_DESCRIPTOR, 1, &g->s->device);
    graph_finalize(g, engine);
    for (int i = 0; i < e->knobs; i++) {
        int32_t knob = (int32_t)e->knob[i];
        knobs[i] = graph_make(g, KNOB_CHOICE);
        graph_set(g, knobs[i], KNOB_CHOICE_KNOB_TYPE, TYPE_KNOB_TYPE, 1, &knob);
        graph_set(g, knobs[i], KNOB_CHOICE_KNOB_VALUE, TYPE_INT64, 1, &e->value[i]);
        graph_finalize(g, knobs[i]);
    }
    graph_set(g, config, ENGINECFG_ENGINE, TYPE_DESCRIPTOR, 1, &engine);
    if (e->knobs > 0)
        graph_set(g, config, ENGINECFG_KNOB_CHOICES, TYPE_DESCRIPTOR, e->knobs, knobs);
    graph_finalize(g, config);
    return config;
}

struct pf_sdpa_plan {
    graph g; /* keeps what the plan is made of */
    void *plan;
    int64_t workspace;
};

static pf_sdpa_plan *new_plan(pf_sdpa *s)
{
    pf_sdpa_plan *p = calloc(1, sizeof *p);
    p->g.s = s;
    p->plan = graph_make(&p->g, EXECUTION_PLAN);
    if (s->device)
        graph_set(&p->g, p->plan, EXECUTION_PLAN_DEVICEPROP, TYPE_DESCRIPTOR, 1, &s->device);
    else
        graph_set(&p->g, p->plan, EXECUTION_PLAN_HANDLE, TYPE_HANDLE, 1, &s->handle);
    return p;
}

/* Returns the plan, or frees it and returns null with what failed. */
static pf_sdpa_plan *ready(pf_sdpa_plan *p, char *error, size_t error_size)
{
    graph_finalize(&p->g, p->plan);
    graph_get(&p->g, p->plan, EXECUTION_PLAN_WORKSPACE_SIZE, TYPE_INT64, 1, &p->workspace);
    if (finish(&p->g, error, error_size)) {
        pf_sdpa_free(p);
        return NULL;
    }
    return p;
}

pf_sdpa_plan *pf_sdpa_build(pf_sdpa *s, const pf_sdpa_shape *shape, const pf_sdpa_engine *engine, char *error, size_t error_size)
{
    pf_sdpa_plan *p = new_plan(s);
    void *config = configure(&p->g, graph_attention(&p->g, shape), engine);
    graph_set(&p->g, p->plan, EXECUTION_PLAN_ENGINE_CONFIG, TYPE_DESCRIPTOR, 1, &config);
    return ready(p, error, error_size);
}

pf_sdpa_plan *pf_sdpa_restore(pf_sdpa *s, const char *text, size_t size, char *error, size_t error_size)
{
    pf_sdpa_plan *p = new_plan(s);
    graph_set(&p->g, p->plan, EXECUTION_PLAN_JSON_REPRESENTATION, TYPE_CHAR, (int64_t)size, text);
    return ready(p, error, error_size);
}

void pf_sdpa_free(pf_sdpa_plan *p)
{
    graph_free(&p->g);
    free(p);
}

size_t pf_sdpa_serialise(const pf_sdpa_plan *p, char *text, size_t size)
{
    int64_t written = 0;
    int status = p->g.s->f.get_attribute(p->plan, EXECUTION_PLAN_JSON_REPRESENTATION, TYPE_CHAR, (int64_t)size, &written, size ? text : NULL);
    return status || written < 0 ? 0 : (size_t)written;
}

int64_t pf_sdpa_workspace(const pf_sdpa_plan *p) { return p->workspace; }

int pf_sdpa_run(const pf_sdpa_plan *p, const pf_sdpa_call *c, char *error, size_t error_size)
{
    graph g = {.s = p->g.s};
    float scale = c->scale, masked = MASKED_SCORE;
    int64_t ids[UID_WINDOW + 1];
    const void *addresses[UID_WINDOW + 1] = {
        [UID_Q] = c->q, [UID_K] = c->k, [UID_V] = c->v, [UID_O] = c->o, [UID_SCALE] = &scale, [UID_ROWS] = c->rows,
        [UID_KEYS] = c->keys, [UID_TABLE] = c->table, [UID_Q_OFFSET] = c->q_offset, [UID_O_OFFSET] = c->o_offset,
        [UID_MASKED] = &masked, [UID_WINDOW] = &c->window,
    };
    int64_t count = c->window > 0 ? UID_WINDOW : UID_WINDOW - 1;
    for (int64_t i = 0; i <= count; i++)
        ids[i] = i;
    void *pack = graph_make(&g, VARIANT_PACK);
    graph_set(&g, pack, VARIANT_PACK_UNIQUE_IDS, TYPE_INT64, count, ids + UID_Q);
    graph_set(&g, pack, VARIANT_PACK_DATA_POINTERS, TYPE_VOID_PTR, count, addresses + UID_Q);
    graph_set(&g, pack, VARIANT_PACK_WORKSPACE, TYPE_VOID_PTR, 1, &c->workspace);
    graph_finalize(&g, pack);
    if (!g.status && (g.status = g.s->f.execute(g.s->handle, p->plan, pack)))
        g.failed = "cudnnBackendExecute";
    int failed = finish(&g, error, error_size);
    graph_free(&g);
    return failed;
}
