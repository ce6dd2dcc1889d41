// A CUDA driver and a cuBLASLt on the host, for tests of what calls them: libcuda.so.1 and
// libcublasLt.so.13 in one. Device memory is the host's, kernels are run by ../simt, products by loops.
// It refuses what the real ones refuse: calls without a current context, launches of nothing, copies past the end.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "../../simt/launch.cc"

#define API extern "C" __attribute__((visibility("default"))) int

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, NOT_FOUND = 500 };

static bool initialized;
static int context;                    // the primary one is its address
static thread_local void *current;
static std::map<uint64_t, size_t> live; // addresses that cuMemAlloc gave
static const size_t total = (size_t)8 << 30;

#define IN_CONTEXT                  \
    if (current != &context)        \
        return initialized ? INVALID_CONTEXT : NOT_INITIALIZED

// injected is what a call shall answer by the environment, or else SUCCESS.
static int injected(const char *variable) { return getenv(variable) ? atoi(getenv(variable)) : SUCCESS; }

API cuInit(unsigned flags)
{
    if (int status = injected("FAKE_CUINIT"))
        return status;
    initialized = flags == 0;
    return initialized ? SUCCESS : INVALID_VALUE;
}
API cuDeviceGetCount(int *count) { return initialized ? (*count = 1, SUCCESS) : NOT_INITIALIZED; }
API cuDeviceGet(int *device, int ordinal) { return ordinal == 0 ? (*device = 0, SUCCESS) : 101; }
API cuDeviceGetName(char *name, int bytes, int) { return strncpy(name, "fake", (size_t)bytes), SUCCESS; }
API cuDeviceGetAttribute(int *value, int attribute, int) { return *value = attribute == 75 ? 8 : 1, SUCCESS; } // capability 8
API cuDevicePrimaryCtxRetain(void **c, int) { return *c = &context, SUCCESS; }
API cuCtxSetCurrent(void *c) { return current = c, c == &context ? SUCCESS : INVALID_CONTEXT; }
API cuCtxSynchronize() { IN_CONTEXT; return SUCCESS; }

// The default stream does all at once. Any other keeps what it is given until the default stream waits
// for an event behind it, or the host for the stream, so that a wait that is missing shows.
struct stream {
    std::deque<std::function<void()>> pending;
    uint64_t done;
    void run(uint64_t until)
    {
        for (; done < until; done++, pending.pop_front())
            pending.front()();
    }
};
struct event { double time; stream *on; uint64_t behind; };

API cuStreamCreate(stream **s, unsigned flags) { IN_CONTEXT; return flags == 1 ? (*s = new stream{}, SUCCESS) : INVALID_VALUE; } // non-blocking
API cuStreamDestroy_v2(stream *s) { IN_CONTEXT; return delete s, SUCCESS; }
API cuStreamSynchronize(stream *s)
{
    IN_CONTEXT;
    if (s)
        s->run(s->done + s->pending.size());
    return SUCCESS;
}
API cuStreamWaitEvent(stream *s, event *e, unsigned flags)
{
    IN_CONTEXT;
    if (flags || e->time < 0 || (s && e->on))
        return INVALID_VALUE;
    if (!s && e->on)
        e->on->run(e->behind);
    return SUCCESS;
}
static int enqueue(stream *s, std::function<void()> copy)
{
    if (!s)
        return INVALID_VALUE;
    s->pending.push_back(copy);
    return SUCCESS;
}

API cuMemGetInfo_v2(size_t *free, size_t *all)
{
    IN_CONTEXT;
    *free = *all = total;
    for (auto &m : live)
        *free -= m.second;
    return SUCCESS;
}
API cuMemAlloc_v2(uint64_t *p, size_t bytes)
{
    IN_CONTEXT;
    if (bytes == 0)
        return INVALID_VALUE;
    void *memory = bytes <= total ? aligned_alloc(512, (bytes + 511) / 512 * 512) : nullptr;
    if (!memory)
        return OUT_OF_MEMORY;
    memset(memory, 0xff, bytes); // what was not written is NaN
    live[*p = (uint64_t)memory] = bytes;
    return SUCCESS;
}
API cuMemFree_v2(uint64_t p)
{
    IN_CONTEXT;
    if (!live.erase(p))
        return INVALID_VALUE;
    free((void *)p);
    return SUCCESS;
}
API cuMemHostAlloc(void **p, size_t bytes, unsigned) { IN_CONTEXT; return *p = malloc(bytes), SUCCESS; }
API cuMemFreeHost(void *p) { IN_CONTEXT; return free(p), SUCCESS; }

// Whether bytes from p on lie in one allocation.
static bool inside(uint64_t p, size_t bytes)
{
    auto after = live.upper_bound(p);
    return after != live.begin() && (--after, p + bytes <= after->first + after->second);
}
API cuMemsetD8_v2(uint64_t p, unsigned char value, size_t bytes)
{
    IN_CONTEXT;
    return inside(p, bytes) ? (memset((void *)p, value, bytes), SUCCESS) : INVALID_VALUE;
}
API cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    IN_CONTEXT;
    return inside(to, bytes) ? (memcpy((void *)to, from, bytes), SUCCESS) : INVALID_VALUE;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, stream *s) { return s ? INVALID_VALUE : cuMemcpyHtoD_v2(to, from, bytes); }
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, stream *s)
{
    IN_CONTEXT;
    return !s && inside(to, bytes) && inside(from, bytes) ? (memmove((void *)to, (const void *)from, bytes), SUCCESS) : INVALID_VALUE;
}
struct rectangle { // CUDA_MEMCPY2D
    size_t from_x, from_y; unsigned from_type; const void *from_host; uint64_t from_device; void *from_array; size_t from_pitch;
    size_t to_x, to_y; unsigned to_type; void *to_host; uint64_t to_device; void *to_array; size_t to_pitch;
    size_t width, height;
};
API cuMemcpy2DAsync_v2(const rectangle *given, stream *s)
{
    IN_CONTEXT;
    if (int status = injected("FAKE_COPY"))
        return status;
    rectangle r = *given; // types: 1 is host memory, 2 the device's
    uint64_t device = r.from_type == 2 ? r.from_device : r.to_device;
    size_t pitch = r.from_type == 2 ? r.from_pitch : r.to_pitch;
    if (r.from_type + r.to_type != 3 || r.from_x || r.from_y || r.to_x || r.to_y || r.width > r.from_pitch || r.width > r.to_pitch ||
        !inside(device, (r.height - 1) * pitch + r.width))
        return INVALID_VALUE;
    return enqueue(s, [=] {
        const char *from = r.from_type == 2 ? (const char *)r.from_device : (const char *)r.from_host;
        char *to = r.to_type == 2 ? (char *)r.to_device : (char *)r.to_host;
        for (size_t i = 0; i < r.height; i++)
            memcpy(to + i * r.to_pitch, from + i * r.from_pitch, r.width);
    });
}
API cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    IN_CONTEXT;
    return inside(from, bytes) ? (memcpy(to, (void *)from, bytes), SUCCESS) : INVALID_VALUE;
}

// A module is anything that begins as a fatbin does; a function is the name of a kernel.
API cuModuleLoadData(void **module, const void *image)
{
    IN_CONTEXT;
    return *(const uint32_t *)image == 0xba55ed50u ? (*module = &context, SUCCESS) : INVALID_VALUE;
}
API cuModuleUnload(void *) { IN_CONTEXT; return SUCCESS; }
API cuModuleGetFunction(void **function, void *, const char *name)
{
    IN_CONTEXT;
    for (const entry &e : entries)
        if (!strcmp(e.name, name))
            return *function = (void *)&e, SUCCESS;
    return NOT_FOUND;
}
API cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared, void *stream,
                   void **parameters, void **extra)
{
    IN_CONTEXT;
    if (!x || !y || y > 65535 || z != 1 || !threads || threads > 1024 || ty != 1 || tz != 1 || shared || stream || extra)
        return INVALID_VALUE;
    const entry &e = *(const entry *)function;
    std::vector<uint64_t> words;
    for (size_t i = 0; i < e.arity; i++)
        words.push_back(*(const uint64_t *)parameters[i]);
    return simt_launch(e.name, x, y, threads, words.data(), words.size()) == -1 ? SUCCESS : INVALID_VALUE;
}

API cuEventCreate(event **e, unsigned) { IN_CONTEXT; return *e = new event{-1, nullptr, 0}, SUCCESS; }
API cuEventDestroy_v2(event *e) { IN_CONTEXT; return delete e, SUCCESS; }
API cuEventRecord(event *e, stream *s)
{
    IN_CONTEXT;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *e = {(double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6, s, s ? s->done + s->pending.size() : 0};
    return SUCCESS;
}
API cuEventSynchronize(event *e)
{
    IN_CONTEXT;
    if (e->time < 0)
        return INVALID_VALUE;
    if (e->on)
        e->on->run(e->behind);
    return SUCCESS;
}
API cuEventElapsedTime_v2(float *milliseconds, const event *from, const event *to)
{
    IN_CONTEXT;
    return from->time < 0 || to->time < 0 ? INVALID_VALUE : (*milliseconds = (float)(to->time - from->time), SUCCESS);
}
API cuEventElapsedTime(float *milliseconds, const event *from, const event *to) { return cuEventElapsedTime_v2(milliseconds, from, to); }

// cuBLASLt: column-major, the first operand transposed.
struct description { int compute; uint64_t bias, a_scale, b_scale; int epilogue, bias_type, modes; };
struct matrix { int type; uint64_t rows, cols; int64_t stride; };
struct answer { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; };

API cublasLtCreate(void **handle) { IN_CONTEXT; return *handle = &context, SUCCESS; }
API cublasLtDestroy(void *) { return SUCCESS; }
API cublasLtMatmulDescCreate(description **d, int compute, int scale)
{
    *d = new description{};
    (*d)->compute = compute;
    return (compute == 68 && scale == 0) || (compute == 72 && scale == 10) ? SUCCESS : INVALID_VALUE;
}
API cublasLtMatmulDescDestroy(description *d) { return delete d, SUCCESS; }
API cublasLtMatmulDescSetAttribute(description *d, int attribute, const void *value, size_t bytes)
{
    std::map<int, void *> fields = {{7, &d->epilogue}, {8, &d->bias}, {17, &d->a_scale}, {18, &d->b_scale}, {26, &d->bias_type}, {31, &d->modes}, {32, &d->modes}};
    if (attribute == 3)
        return *(const int *)value == 1 ? SUCCESS : INVALID_VALUE;
    return fields.count(attribute) ? (memcpy(fields[attribute], value, bytes), SUCCESS) : INVALID_VALUE;
}
API cublasLtMatrixLayoutCreate(matrix **m, int type, uint64_t rows, uint64_t cols, int64_t stride) { return *m = new matrix{type, rows, cols, stride}, SUCCESS; }
API cublasLtMatrixLayoutDestroy(matrix *m) { return delete m, SUCCESS; }
API cublasLtMatrixLayoutSetAttribute(matrix *m, int attribute, const void *value, size_t) { return attribute == 3 ? (m->cols = *(const uint64_t *)value, SUCCESS) : INVALID_VALUE; }
API cublasLtMatmulPreferenceCreate(void **p) { return *p = &context, SUCCESS; }
API cublasLtMatmulPreferenceDestroy(void *) { return SUCCESS; }
API cublasLtMatmulPreferenceSetAttribute(void *, int, const void *, size_t) { return SUCCESS; }
API cublasLtMatmulAlgoConfigGetAttribute(const void *, int, void *value, size_t bytes, size_t *written) { return memset(value, 0, bytes), *written = bytes, SUCCESS; }
// Whether there is an algorithm: for int8 by the documentation of cublasLtMatmul, and of few rows none, as on some GPUs.
static bool supported(const description *d, const matrix *w, const matrix *a, const matrix *result)
{
    if (w->type != 3)
        return d->compute == 68 && (d->epilogue != 4 || result->type == d->bias_type);
    return d->compute == 72 && d->epilogue != 4 && result->type == 10 && w->rows % 4 == 0 && w->cols % 4 == 0 && a->stride % 4 == 0 &&
           result->stride % 4 == 0 && a->cols > 16;
}

API cublasLtMatmulAlgoGetHeuristic(void *, description *d, matrix *w, matrix *a, matrix *, matrix *result, void *, int, answer *list, int *found)
{
    *found = supported(d, w, a, result);
    return *found ? (list[0] = answer{}, SUCCESS) : 15;
}
API cublasLtMatmulAlgoCheck(void *, description *d, matrix *w, matrix *a, matrix *, matrix *result, const void *, answer *out)
{
    *out = answer{};
    return supported(d, w, a, result) ? SUCCESS : 15;
}
API cublasLtMatmul(void *, description *d, const void *alpha, const void *wp, matrix *w, const void *ap, matrix *a, const void *beta, const void *cp, matrix *,
                   void *dp, matrix *result, const void *, void *, size_t, void *stream)
{
    IN_CONTEXT;
    bool whole = d->compute == 72;
    int added = whole ? *(const int32_t *)beta : (int)*(const float *)beta;
    if ((whole ? (float)*(const int32_t *)alpha : *(const float *)alpha) != 1 || cp != dp || stream || w->rows != a->rows || w->cols != result->rows ||
        a->cols != result->cols || w->stride != (int64_t)w->rows || !supported(d, w, a, result) || (whole && added))
        return INVALID_VALUE;
    simt_gemm_args g = {};
    g.a = (uint64_t)ap, g.w = (uint64_t)wp, g.d = (uint64_t)dp, g.bias = d->epilogue == 4 ? d->bias : 0;
    g.a_scale = d->b_scale, g.w_scale = d->a_scale;
    g.m = (int64_t)a->cols, g.n = (int64_t)w->cols, g.k = (int64_t)w->rows, g.a_stride = a->stride, g.d_stride = result->stride;
    g.type = whole ? SIMT_INT8 : w->type == 28 ? SIMT_FP8 : SIMT_BF16, g.is_float = result->type == 0, g.accumulate = added == 1;
    return simt_gemm(&g), SUCCESS;
}
