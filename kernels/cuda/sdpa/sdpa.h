/* Causal attention over pages by cuDNN's graph interface (cudnnBackend*), which is opened at run time:
   nothing of cuDNN is linked, and a binary built here starts on machines that have none. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct pf_sdpa pf_sdpa;
typedef struct pf_sdpa_plan pf_sdpa_plan;

/* What a plan is for. Queries and outputs of a sequence are rows of one matrix each; keys and values
   lie in pages [kv_heads][page_tokens][dim] of keys and then of values. bfloat16; strides in elements. */
typedef struct {
    int64_t batch, rows, keys; /* sequences, and the most rows and keys of one; keys is a multiple of page_tokens */
    int64_t q_heads, kv_heads, dim;
    int64_t q_stride, o_stride; /* from row to row; heads lie side by side */
    int64_t page_tokens;
    int64_t window; /* a query sees itself and the window - 1 keys before it; 0: all before it */
} pf_sdpa_shape;

enum { PF_SDPA_KNOBS = 16, PF_SDPA_PAGES = 1 << 30 };

/* A kernel of cuDNN: its engine and the choices that make one kernel of it (tiles, splits). */
typedef struct {
    int64_t index, knobs;
    int64_t knob[PF_SDPA_KNOBS], value[PF_SDPA_KNOBS];
} pf_sdpa_engine;

/* Device addresses, but for scale. Sequence i has rows[i] queries from element q_offset[i] of q on,
   its outputs from o_offset[i] of o on, and keys[i] keys, the last of which belongs to its last
   query. Page p of it is the table[i * (shape.keys / page_tokens) + p]th page from k and v on. */
typedef struct {
    const void *q, *k, *v;
    void *o;
    const int32_t *rows, *keys, *table;           /* [batch], [batch], [batch][shape.keys / page_tokens] */
    const int64_t *q_offset, *o_offset;           /* [batch + 1] */
    void *workspace;
    float scale;
    int32_t window; /* the shape's */
} pf_sdpa_call;

/* Opens the library (null: by its usual name) for the current context and this stream. With
   properties, a device as cuDNN describes it in JSON, plans are made for that device without a GPU
   and cannot run. Returns null with a message in error on failure. */
pf_sdpa *pf_sdpa_open(const char *library, void *stream, const char *properties, char *error, size_t error_size);
void pf_sdpa_close(pf_sdpa *s); /* after its plans */

/* The library's version: 92100 is 9.21.0. */
int64_t pf_sdpa_version(const pf_sdpa *s);

/* The engine that cuDNN's heuristic puts first for the shape. Returns 0, or -1 with a message. */
int pf_sdpa_choose(pf_sdpa *s, const pf_sdpa_shape *shape, pf_sdpa_engine *engine, char *error, size_t error_size);

/* Compiles a plan with this engine; restore takes one that serialise wrote. Null with a message. */
pf_sdpa_plan *pf_sdpa_build(pf_sdpa *s, const pf_sdpa_shape *shape, const pf_sdpa_engine *engine, char *error, size_t error_size);
pf_sdpa_plan *pf_sdpa_restore(pf_sdpa *s, const char *text, size_t size, char *error, size_t error_size);
void pf_sdpa_free(pf_sdpa_plan *p);

/* The bytes of the plan's text, of which at most size are written; 0 on failure. */
size_t pf_sdpa_serialise(const pf_sdpa_plan *p, char *text, size_t size);
int64_t pf_sdpa_workspace(const pf_sdpa_plan *p); /* bytes of device memory that a run needs */

/* Enqueues; returns 0, or -1 with a message. */
int pf_sdpa_run(const pf_sdpa_plan *p, const pf_sdpa_call *call, char *error, size_t error_size);
