// The kernels of ../src compiled for the host, launched by name with words as arguments.
#define PF_SIMT
#include "../src/attention.cu"
#include "../src/convolution.cu"
#include "../src/elementwise.cu"
#include "../src/gather.cu"
#include "../src/logits.cu"
#include "../src/map.cu"
#include "../src/pooling.cu"
#include "../src/quantise.cu"
#include "../src/random.cu"
#include "../src/store_kv.cu"
#include "../src/sums.cu"

#include "launch.h"

// An argument word as the type a kernel declares.
struct argument {
    uint64_t word;
    template <class T>
    operator T *() const { return (T *)word; }
    operator int64_t() const { return (int64_t)word; }
    operator uint64_t() const { return word; }
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

// A kernel that takes one structure of words.
template <class T>
static entry make_of_words(const char *name, void (*kernel)(T))
{
    return {name, sizeof(T) / sizeof(uint64_t), [=](const uint64_t *words) {
                std::remove_const_t<T> argument;
                memcpy(&argument, words, sizeof argument);
                kernel(argument);
            }};
}

// Two sums and two maxima of a block, one right after the other, into every thread's four values.
static void reductions(float *out, const float *in)
{
    float v = in[threadIdx.x], *mine = out + 4 * threadIdx.x;
    mine[0] = block_sum(v);
    mine[1] = block_sum(2 * v);
    mine[2] = block_max(v);
    mine[3] = block_max(-v);
}

static const entry entries[] = {
    make("reductions", reductions),
#define KERNEL(name) make(#name, name)
    KERNEL(pf_add_bias), KERNEL(pf_add_norm), KERNEL(pf_attention), KERNEL(pf_dequantise_fp8), KERNEL(pf_embed),
    KERNEL(pf_fill_random), KERNEL(pf_fill_random_fp8), KERNEL(pf_fill_random_int8), KERNEL(pf_gather_kv), KERNEL(pf_label_logits),
    KERNEL(pf_label_logits_int8), KERNEL(pf_label_logits_int8_alone),
    KERNEL(pf_norm_heads), KERNEL(pf_quantise_fp8), KERNEL(pf_quantise_int8), KERNEL(pf_norm), KERNEL(pf_norm_fp8), KERNEL(pf_norm_int8),
    KERNEL(pf_store_kv), KERNEL(pf_sum), KERNEL(pf_sum_bf16), KERNEL(pf_activate), KERNEL(pf_activate_fp8), KERNEL(pf_activate_int8), KERNEL(pf_widen_int8),
#undef KERNEL
#define KERNEL(name) make_of_words(#name, name)
    KERNEL(pf_add_scaled_sums), KERNEL(pf_add_scaled_sums_i32), KERNEL(pf_conv), KERNEL(pf_conv_backward), KERNEL(pf_interpolate),
    KERNEL(pf_map), KERNEL(pf_matmul), KERNEL(pf_pool_backward), KERNEL(pf_pool_largest), KERNEL(pf_pool_max), KERNEL(pf_pool_mean),
    KERNEL(pf_reduce_few), KERNEL(pf_reduce_many), KERNEL(pf_scale_sums), KERNEL(pf_scale_sums_f32), KERNEL(pf_scale_sums_i32),
    KERNEL(pf_scale_sums_i32_f32),
#undef KERNEL
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

// The value of a code of FP8 E4M3 other than NaN.
static float from_e4m3(uint8_t code)
{
    int exponent = code >> 3 & 15, fraction = code & 7;
    float v = exponent ? ldexpf(8 + fraction, exponent - 10) : ldexpf(fraction, -9);
    return code & 0x80 ? -v : v;
}

// The sum over k of an element of a product in bfloat16 or FP8.
static float sum_of(const simt_gemm_args *g, int64_t i, int64_t j)
{
    float sum = 0;
    if (g->type == SIMT_BF16) {
        const bf16 *a = (const bf16 *)g->a + i * g->a_stride, *w = (const bf16 *)g->w + j * g->k;
        for (int64_t k = 0; k < g->k; k++)
            sum += __bfloat162float(a[k]) * __bfloat162float(w[k]);
        return sum;
    }
    static float values[256];
    if (values[1] == 0)
        for (int c = 0; c < 256; c++)
            values[c] = from_e4m3((uint8_t)c);
    const uint8_t *a = (const uint8_t *)g->a + i * g->a_stride, *w = (const uint8_t *)g->w + j * g->k;
    for (int64_t k = 0; k < g->k; k++)
        sum += values[a[k]] * values[w[k]];
    return g->a_scale ? sum * ((const float *)g->a_scale)[i] * ((const float *)g->w_scale)[j] : sum;
}

// The sum over k of an element of a product in int8.
static int32_t exact_sum_of(const simt_gemm_args *g, int64_t i, int64_t j)
{
    const int8_t *a = (const int8_t *)g->a + i * g->a_stride, *w = (const int8_t *)g->w + j * g->k;
    int32_t sum = 0;
    for (int64_t k = 0; k < g->k; k++)
        sum += a[k] * w[k];
    return sum;
}

void simt_gemm(const simt_gemm_args *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            if (g->type == SIMT_INT8) {
                ((int32_t *)g->d)[i * g->d_stride + j] = exact_sum_of(g, i, j);
                continue;
            }
            float sum = sum_of(g, i, j);
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

// The dot product of a float and a bfloat16 vector; dim is a multiple of 8.
static float dot(const float *a, const bf16 *b, int64_t dim)
{
    float sums[8] = {};
    for (int64_t i = 0; i < dim; i += 8)
        for (int j = 0; j < 8; j++)
            sums[j] += a[i + j] * __bfloat162float(b[i + j]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// One query of one head over so many keys.
static void attend(const simt_flash_args *f, const bf16 *query, bf16 *out, int64_t kv, int64_t keys, std::vector<float> &weights)
{
    const bf16 *k = (const bf16 *)f->k + kv * f->kv_head_stride, *v = (const bf16 *)f->v + kv * f->kv_head_stride;
    std::vector<float> q(f->dim), sums(f->dim);
    for (int64_t i = 0; i < f->dim; i++)
        q[i] = __bfloat162float(query[i]) * f->scale;
    float top = -INFINITY, total = 0;
    for (int64_t j = 0; j < keys; j++)
        top = fmaxf(top, weights[j] = dot(q.data(), k + j * f->key_stride, f->dim));
    for (int64_t j = 0; j < keys; j++) {
        float weight = expf(weights[j] - top);
        total += weight;
        for (int64_t i = 0; i < f->dim; i++)
            sums[i] += weight * __bfloat162float(v[j * f->key_stride + i]);
    }
    for (int64_t i = 0; i < f->dim; i++)
        out[i] = __float2bfloat16(sums[i] / total);
}

void simt_flash(const simt_flash_args *f)
{
    std::vector<float> weights(f->keys);
    for (int64_t row = 0; row < f->rows; row++)
        for (int64_t h = 0; h < f->q_heads; h++)
            attend(f, (const bf16 *)f->q + row * f->q_stride + h * f->dim, (bf16 *)f->o + row * f->o_stride + h * f->dim,
                   h / (f->q_heads / f->kv_heads), f->keys - f->rows + row + 1, weights);
}

// The keys, or the values, of sequence s, one after another for each head.
static std::vector<bf16> in_order(const simt_paged_args *p, uint64_t from, int64_t s, int64_t keys)
{
    std::vector<bf16> all((size_t)(p->kv_heads * keys * p->dim));
    const int32_t *table = (const int32_t *)p->table + s * p->table_width;
    for (int64_t h = 0; h < p->kv_heads; h++)
        for (int64_t i = 0; i < keys; i++) {
            const bf16 *block = (const bf16 *)from + table[i / p->block_tokens] * 2 * p->kv_heads * p->block_tokens * p->dim;
            const bf16 *token = block + (h * p->block_tokens + i % p->block_tokens) * p->dim;
            std::copy(token, token + p->dim, all.begin() + (h * keys + i) * p->dim);
        }
    return all;
}

void simt_paged(const simt_paged_args *p)
{
    for (int64_t s = 0; s < p->batch; s++) {
        int64_t rows = ((const int32_t *)p->rows)[s], keys = ((const int32_t *)p->keys)[s];
        std::vector<bf16> k = in_order(p, p->k, s, keys), v = in_order(p, p->v, s, keys);
        std::vector<float> weights((size_t)keys);
        for (int64_t row = 0; row < rows; row++) {
            int64_t seen = keys - rows + row + 1, first = p->window > 0 && seen > p->window ? seen - p->window : 0;
            simt_flash_args f = {};
            f.k = (uint64_t)(k.data() + first * p->dim);
            f.v = (uint64_t)(v.data() + first * p->dim);
            f.key_stride = f.dim = p->dim;
            f.kv_head_stride = keys * p->dim;
            f.scale = p->scale;
            for (int64_t h = 0; h < p->q_heads; h++)
                attend(&f, (const bf16 *)p->q + ((const int64_t *)p->q_offset)[s] + row * p->q_stride + h * p->dim,
                       (bf16 *)p->o + ((const int64_t *)p->o_offset)[s] + row * p->o_stride + h * p->dim,
                       h / (p->q_heads / p->kv_heads), seen - first, weights);
        }
    }
}
