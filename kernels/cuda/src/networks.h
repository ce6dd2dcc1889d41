/* What the kernels of networks take, as words: each takes one of these structures, which host code writes word by
   word (kernels/cuda/networks.go), and computes one element a thread, so that an element's bits depend on nothing
   beside it. Sums are float32, by fmaf where they are of products, in one order. */
#pragma once
#include "device.h"

/* A strided tensor, of as many dimensions as the element's place has. */
#define PF_DIMS 8
struct pf_view {
    float *data;
    int64_t stride[PF_DIMS];
};

/* Where the element at a place, of the shape row-major, lies. */
static __device__ inline int64_t offset_of(const pf_view &v, const int64_t (&shape)[PF_DIMS], uint32_t element)
{
    int64_t offset = 0;
    for (int i = PF_DIMS - 1; i >= 0; i--) {
        if (shape[i] == 1)
            continue;
        offset += (int64_t)(element % (uint32_t)shape[i]) * v.stride[i];
        element /= (uint32_t)shape[i];
    }
    return offset;
}

/* [n, size..., c] with three spatial dimensions; strides of n and of spatial dimensions. */
struct pf_image {
    float *data;
    int64_t n, size[3], c, next, stride[3];
};

/* Where the taps of an output lie. */
struct pf_window {
    int64_t kernel[3], stride[3], dilation[3], origin[3];
};

/* The element of a grid that this thread computes. */
static __device__ inline int64_t element_of_thread() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }

/* A place in an image. */
struct pf_place {
    int64_t n, at[3], c;
};

static __device__ inline pf_place place_of(const pf_image &m, int64_t element)
{
    pf_place p;
    uint32_t rest = (uint32_t)element; /* host code refuses more */
    p.c = rest % (uint32_t)m.c, rest /= (uint32_t)m.c;
    for (int i = 2; i >= 0; i--)
        p.at[i] = rest % (uint32_t)m.size[i], rest /= (uint32_t)m.size[i];
    p.n = rest;
    return p;
}

static __device__ inline float *pixel_of(const pf_image &m, int64_t n, int64_t z, int64_t y, int64_t x)
{
    return m.data + n * m.next + z * m.stride[0] + y * m.stride[1] + x * m.stride[2];
}

/* A maximum that NaN takes, and that the first of equals keeps. */
static __device__ inline bool above(float v, float top) { return v > top || (v != v && top == top); }

/* The range [from, to) of taps of one dimension that lie in [begin, end), for an output at a place. */
struct pf_range {
    int64_t from, to;
};

static __device__ inline pf_range taps_within(const pf_window &w, int dim, int64_t output, int64_t begin, int64_t end)
{
    int64_t first = output * w.stride[dim] + w.origin[dim], step = w.dilation[dim];
    pf_range r = {0, w.kernel[dim]};
    if (first < begin)
        r.from = (begin - first + step - 1) / step;
    if (first + (r.to - 1) * step >= end)
        r.to = end > first ? (end - first + step - 1) / step : 0;
    if (r.from > r.to)
        r.from = r.to;
    return r;
}
