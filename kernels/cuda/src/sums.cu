/* Interpolation, products of matrices and reductions of strided tensors. */
#include "networks.h"

struct pf_interpolation {
    int64_t elements, shape[PF_DIMS];
    pf_view dst, src;             /* src by places of dst, of which it is the first input */
    int64_t after, outputs, step; /* elements after the dimension, its outputs, and from one of its inputs to the next */
    const int32_t *start, *index;
    const float *weight;
};

/* threads: elements of dst. */
PF_KERNEL PF_FOUR_BLOCKS pf_interpolate(const PF_ARGUMENT pf_interpolation p)
{
    int64_t element = element_of_thread();
    if (element >= p.elements)
        return;
    const float *from = p.src.data + offset_of(p.src, p.shape, (uint32_t)element);
    uint32_t output = (uint32_t)element / (uint32_t)p.after % (uint32_t)p.outputs;
    float sum = 0;
    for (int32_t j = p.start[output]; j < p.start[output + 1]; j++)
        sum = fmaf(p.weight[j], from[p.index[j] * p.step], sum);
    p.dst.data[offset_of(p.dst, p.shape, (uint32_t)element)] = sum;
}

#define PF_TILE 16

struct pf_product {
    int64_t m, n, k, shape[PF_DIMS]; /* of the leading dimensions */
    pf_view dst, a, b;               /* strides of the leading dimensions, */
    int64_t dst_row, dst_column, a_row, a_column, b_row, b_column;
};

/* A block computes a tile of 16 x 16. grid: tiles of each product. */
PF_KERNEL PF_FOUR_BLOCKS pf_matmul(const PF_ARGUMENT pf_product p)
{
    __shared__ float left[PF_TILE][PF_TILE + 1], right[PF_TILE][PF_TILE + 1];
    uint32_t columns = (uint32_t)((p.n + PF_TILE - 1) / PF_TILE), tiles = columns * (uint32_t)((p.m + PF_TILE - 1) / PF_TILE);
    uint32_t product = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    int row = threadIdx.x / PF_TILE, column = threadIdx.x % PF_TILE;
    int64_t i = (int64_t)(tile / columns) * PF_TILE + row, j = (int64_t)(tile % columns) * PF_TILE + column;
    const float *a = p.a.data + offset_of(p.a, p.shape, product), *b = p.b.data + offset_of(p.b, p.shape, product);
    float sum = 0;
    for (int64_t from = 0; from < p.k; from += PF_TILE) {
        if (i < p.m && from + column < p.k)
            left[row][column] = a[i * p.a_row + (from + column) * p.a_column];
        if (j < p.n && from + row < p.k)
            right[row][column] = b[(from + row) * p.b_row + j * p.b_column];
        __syncthreads();
        int terms = p.k - from < PF_TILE ? (int)(p.k - from) : PF_TILE;
        if (i < p.m && j < p.n)
            for (int l = 0; l < terms; l++)
                sum = fmaf(left[row][l], right[l][column], sum);
        __syncthreads();
    }
    if (i < p.m && j < p.n)
        p.dst.data[offset_of(p.dst, p.shape, product) + i * p.dst_row + j * p.dst_column] = sum;
}

enum { SUM, LARGEST, SMALLEST, PRODUCT };

struct pf_reduction {
    int64_t how, results, kept[PF_DIMS], terms, made[PF_DIMS]; /* shapes of the results and of what becomes one */
    pf_view dst, src;                                          /* src by the results' places, */
    pf_view term;                                              /* and by those of what becomes one */
};

static __device__ inline float nothing(int64_t how)
{
    return how == SUM ? 0.0f : how == PRODUCT ? 1.0f : how == LARGEST ? -INFINITY : INFINITY;
}

static __device__ inline float join(int64_t how, float a, float b)
{
    switch (how) {
    case SUM: return a + b;
    case PRODUCT: return a * b;
    case LARGEST: return a > b || a != a ? a : b;
    default: return a < b || a != a ? a : b;
    }
}

/* A thread makes each result. threads: results. */
PF_KERNEL PF_FOUR_BLOCKS pf_reduce_few(const PF_ARGUMENT pf_reduction r)
{
    int64_t element = element_of_thread();
    if (element >= r.results)
        return;
    const float *from = r.src.data + offset_of(r.src, r.kept, (uint32_t)element);
    float total = nothing(r.how);
    for (int64_t i = 0; i < r.terms; i++)
        total = join(r.how, total, from[offset_of(r.term, r.made, (uint32_t)i)]);
    r.dst.data[offset_of(r.dst, r.kept, (uint32_t)element)] = total;
}

/* A block makes each result. grid: results; threads: PF_BLOCK. */
PF_KERNEL PF_FOUR_BLOCKS pf_reduce_many(const PF_ARGUMENT pf_reduction r)
{
    __shared__ float parts[PF_BLOCK / 32];
    const float *from = r.src.data + offset_of(r.src, r.kept, blockIdx.x);
    float total = nothing(r.how);
    for (int64_t i = threadIdx.x; i < r.terms; i += PF_BLOCK)
        total = join(r.how, total, from[offset_of(r.term, r.made, (uint32_t)i)]);
    for (int lane = 16; lane > 0; lane >>= 1)
        total = join(r.how, total, __shfl_xor_sync(0xffffffffu, total, lane));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < PF_BLOCK / 32; i++)
            total = join(r.how, total, parts[i]);
        r.dst.data[offset_of(r.dst, r.kept, blockIdx.x)] = total;
    }
}
