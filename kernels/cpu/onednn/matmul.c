//go:build cgo && linux && amd64

#include "matmul.h"

#include <dnnl.h>
#include <stdlib.h>

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t desc_ref;
#else
typedef const dnnl_memory_desc_t *desc_ref;
#endif

struct pf_matmul {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t primitive;
	dnnl_memory_t src, weights, dst;
};

#if DNNL_VERSION_MAJOR >= 3

static dnnl_memory_desc_t plain(int rows, int cols, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t d = NULL;
	dnnl_memory_desc_create_with_tag(&d, 2, (dnnl_dims_t){rows, cols}, dnnl_bf16, tag);
	return d;
}

static int describe(pf_matmul *p, int m, int n, int k)
{
	dnnl_memory_desc_t src = plain(m, k, dnnl_ab), w = plain(k, n, dnnl_format_tag_any), dst = plain(m, n, dnnl_ab);
	int failed = dnnl_matmul_primitive_desc_create(&p->desc, p->engine, src, w, NULL, dst, NULL);
	dnnl_memory_desc_destroy(src);
	dnnl_memory_desc_destroy(w);
	dnnl_memory_desc_destroy(dst);
	return failed;
}

static int new_plain_memory(dnnl_memory_t *memory, dnnl_engine_t engine, int rows, int cols, dnnl_format_tag_t tag, void *data)
{
	dnnl_memory_desc_t d = plain(rows, cols, tag);
	int failed = dnnl_memory_create(memory, d, engine, data);
	dnnl_memory_desc_destroy(d);
	return failed;
}

static int new_reorder(dnnl_primitive_desc_t *desc, dnnl_engine_t engine, dnnl_memory_t from, desc_ref to)
{
	const_dnnl_memory_desc_t source;
	return dnnl_memory_get_memory_desc(from, &source) || dnnl_reorder_primitive_desc_create(desc, source, engine, to, engine, NULL);
}

#else

static dnnl_memory_desc_t plain(int rows, int cols, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t d;
	dnnl_memory_desc_init_by_tag(&d, 2, (dnnl_dims_t){rows, cols}, dnnl_bf16, tag);
	return d;
}

static int describe(pf_matmul *p, int m, int n, int k)
{
	dnnl_memory_desc_t src = plain(m, k, dnnl_ab), w = plain(k, n, dnnl_format_tag_any), dst = plain(m, n, dnnl_ab);
	dnnl_matmul_desc_t d;
	return dnnl_matmul_desc_init(&d, &src, &w, NULL, &dst) || dnnl_primitive_desc_create(&p->desc, &d, NULL, p->engine, NULL);
}

static int new_plain_memory(dnnl_memory_t *memory, dnnl_engine_t engine, int rows, int cols, dnnl_format_tag_t tag, void *data)
{
	dnnl_memory_desc_t d = plain(rows, cols, tag);
	return dnnl_memory_create(memory, &d, engine, data);
}

static int new_reorder(dnnl_primitive_desc_t *desc, dnnl_engine_t engine, dnnl_memory_t from, desc_ref to)
{
	const dnnl_memory_desc_t *source;
	return dnnl_memory_get_memory_desc(from, &source) || dnnl_reorder_primitive_desc_create(desc, source, engine, to, engine, NULL);
}

#endif

static int execute(pf_matmul *p, dnnl_primitive_t primitive, int count, const dnnl_exec_arg_t *args)
{
	return dnnl_primitive_execute(primitive, p->stream, count, args) || dnnl_stream_wait(p->stream);
}

// pack reorders w into p->weights.
static int pack(pf_matmul *p, int n, int k, const uint16_t *w)
{
	dnnl_memory_t from = NULL;
	dnnl_primitive_desc_t desc = NULL;
	dnnl_primitive_t reorder = NULL;
	desc_ref to = dnnl_primitive_desc_query_md(p->desc, dnnl_query_weights_md, 0);
	int failed = dnnl_memory_create(&p->weights, to, p->engine, DNNL_MEMORY_ALLOCATE) ||
	             new_plain_memory(&from, p->engine, k, n, dnnl_ba, (void *)w) ||
	             new_reorder(&desc, p->engine, from, to) || dnnl_primitive_create(&reorder, desc) ||
	             execute(p, reorder, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, p->weights}});
	dnnl_primitive_destroy(reorder);
	dnnl_primitive_desc_destroy(desc);
	dnnl_memory_destroy(from);
	return failed;
}

pf_matmul *pf_matmul_new(int m, int n, int k, const uint16_t *w)
{
	pf_matmul *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	if (dnnl_engine_create(&p->engine, dnnl_cpu, 0) || dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags) ||
	    describe(p, m, n, k) || pack(p, n, k, w) || dnnl_primitive_create(&p->primitive, p->desc) ||
	    new_plain_memory(&p->src, p->engine, m, k, dnnl_ab, DNNL_MEMORY_NONE) ||
	    new_plain_memory(&p->dst, p->engine, m, n, dnnl_ab, DNNL_MEMORY_NONE)) {
		pf_matmul_free(p);
		return NULL;
	}
	return p;
}

static int set_data(dnnl_memory_t memory, const void *data, dnnl_stream_t stream)
{
#if DNNL_VERSION_MAJOR >= 3
	(void)stream;
	return dnnl_memory_set_data_handle(memory, (void *)data);
#else
	return dnnl_memory_set_data_handle_v2(memory, (void *)data, stream);
#endif
}

int pf_matmul_run(pf_matmul *p, const uint16_t *src, uint16_t *dst)
{
	if (set_data(p->src, src, p->stream) || set_data(p->dst, dst, p->stream))
		return -1;
	return execute(p, p->primitive, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, p->src}, {DNNL_ARG_WEIGHTS, p->weights}, {DNNL_ARG_DST, p->dst}});
}


void pf_matmul_free(pf_matmul *p)
{
	dnnl_memory_destroy(p->src);
	dnnl_memory_destroy(p->weights);
	dnnl_memory_destroy(p->dst);
	dnnl_primitive_destroy(p->primitive);
	dnnl_primitive_desc_destroy(p->desc);
	dnnl_stream_destroy(p->stream);
	dnnl_engine_destroy(p->engine);
	free(p);
}
