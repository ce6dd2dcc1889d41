// The kernels of ../src compiled for the host, launched by name with words as arguments.
#define PF_SIMT
#include "../src/attention.cu"
#include "../src/elementwise.cu"
#include "../src/logits.cu"
#include "../src/store_kv.cu"

#include "launch.h"

// An argument word as the type a kernel declares.
struct argument {
    uint64_t word;
    template <class T>
    operator T *() const { return (T *)word; }
    operator int64_t() const { return (int64_t)word; }
    operator float() const { return __uint_as_float((uint32_t)word); }
};

// Calls kernel with the first sizeof...(T) words.
template <class... T, size_t... I>
static void call(void (*kernel)(T...), const uint64_t *words, std::index_sequence<I...>)
{
    kernel(T(argument{words[I]})...);
}

struct entry {
    const char *name;
    size_t arity;
    std::function<void(const uint64_t *)> run;
};

template <class... T>
static entry make(const char *name, void (*kernel)(T...))
{
    return {name, sizeof...(T), [=](const uint64_t *words) { call(kernel, words, std::index_sequence_for<T...>{}); }};
}

static const entry entries[] = {
    make("pf_attention", pf_attention),           make("pf_dequantise_fp8", pf_dequantise_fp8),
    make("pf_embed", pf_embed),                   make("pf_label_logits", pf_label_logits),
    make("pf_log_softmax", pf_log_softmax),       make("pf_rms_norm", pf_rms_norm),
    make("pf_rms_norm_fp8", pf_rms_norm_fp8),     make("pf_store_kv", pf_store_kv),
    make("pf_swiglu", pf_swiglu),                 make("pf_swiglu_fp8", pf_swiglu_fp8),
};

int simt_launch(const char *name, unsigned x, unsigned y, unsigned threads, const uint64_t *words, size_t count)
{
    for (const entry &e : entries) {
        if (strcmp(e.name, name) != 0)
            continue;
        if (e.arity != count)
            return (int)e.arity;
        simt::launch(x, y, threads, [&] { e.run(words); });
        return -1;
    }
    return -2;
}

void simt_gemm(const simt_gemm_args *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const bf16 *a = (const bf16 *)g->a + i * g->a_stride, *w = (const bf16 *)g->w + j * g->k;
            float sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += __bfloat162float(a[k]) * __bfloat162float(w[k]);
            if (g->bias)
                sum += __bfloat162float(((const bf16 *)g->bias)[j]);
            if (g->is_float) {
                float *d = (float *)g->d + i * g->d_stride + j;
                *d = g->accumulate ? *d + sum : sum;
            } else {
                ((bf16 *)g->d)[i * g->d_stride + j] = __float2bfloat16(sum);
            }
        }
}
