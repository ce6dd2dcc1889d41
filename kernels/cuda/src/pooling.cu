/* Pools and their gradients: one thread for one element. */
#include "networks.h"

struct pf_pooling {
    pf_image out, in; /* of gradients: out is that of the output, in that of the input */
    pf_window window;
    int64_t begin[3], end[3]; /* the places that a mean counts */
    const float *source;      /* the input of a maximum's gradient, */
    int64_t source_next, source_stride[3];
    int32_t *largest; /* and the tap of each output's maximum, -1 without one */
};

static __device__ inline bool is_pool_element(const pf_image &m, int64_t element)
{
    return element < m.n * m.size[0] * m.size[1] * m.size[2] * m.c;
}

/* The number of taps that an output's mean counts; 1 if there is none. */
static __device__ inline float divisor(const pf_pooling &p, int64_t z, int64_t y, int64_t x)
{
    pf_range rz = taps_within(p.window, 0, z, p.begin[0], p.end[0]), ry = taps_within(p.window, 1, y, p.begin[1], p.end[1]),
             rx = taps_within(p.window, 2, x, p.begin[2], p.end[2]);
    int64_t taps = (rz.to - rz.from) * (ry.to - ry.from) * (rx.to - rx.from);
    return taps > 0 ? (float)taps : 1.0f;
}

/* The value and the tap of the maximum, or, where the tap is not asked for, the sum, of an output's taps. */
static __device__ inline float pooled(const pf_pooling &p, const pf_image &in, const pf_place &at, int32_t *tap)
{
    const pf_window &w = p.window;
    pf_range rz = taps_within(w, 0, at.at[0], 0, in.size[0]), ry = taps_within(w, 1, at.at[1], 0, in.size[1]),
             rx = taps_within(w, 2, at.at[2], 0, in.size[2]);
    float value = tap ? -INFINITY : 0;
    for (int64_t kz = rz.from; kz < rz.to; kz++)
        for (int64_t ky = ry.from; ky < ry.to; ky++) {
            const float *row = pixel_of(in, at.n, at.at[0] * w.stride[0] + w.origin[0] + kz * w.dilation[0],
                                        at.at[1] * w.stride[1] + w.origin[1] + ky * w.dilation[1], 0) + at.c;
#pragma unroll 1
            for (int64_t kx = rx.from; kx < rx.to; kx++) {
                float v = row[(at.at[2] * w.stride[2] + w.origin[2] + kx * w.dilation[2]) * in.stride[2]];
                if (!tap) {
                    value += v;
                } else if (*tap < 0 || above(v, value)) {
                    value = v;
                    *tap = (int32_t)((kz * w.kernel[1] + ky) * w.kernel[2] + kx);
                }
            }
        }
    return value;
}

/* threads: elements of out. */
PF_KERNEL PF_FOUR_BLOCKS pf_pool_max(const PF_ARGUMENT pf_pooling p)
{
    int64_t element = element_of_thread();
    if (!is_pool_element(p.out, element))
        return;
    pf_place at = place_of(p.out, element);
    int32_t tap = -1;
    pixel_of(p.out, at.n, at.at[0], at.at[1], at.at[2])[at.c] = pooled(p, p.in, at, &tap);
}

/* threads: elements of out. */
PF_KERNEL PF_FOUR_BLOCKS pf_pool_mean(const PF_ARGUMENT pf_pooling p)
{
    int64_t element = element_of_thread();
    if (!is_pool_element(p.out, element))
        return;
    pf_place at = place_of(p.out, element);
    pixel_of(p.out, at.n, at.at[0], at.at[1], at.at[2])[at.c] = pooled(p, p.in, at, nullptr) / divisor(p, at.at[0], at.at[1], at.at[2]);
}

/* Sets largest, dense, one for each element of out. threads: elements of out. */
PF_KERNEL PF_FOUR_BLOCKS pf_pool_largest(const PF_ARGUMENT pf_pooling p)
{
    int64_t element = element_of_thread();
    if (!is_pool_element(p.out, element))
        return;
    pf_image source = p.in;
    source.data = (float *)p.source;
    source.next = p.source_next;
    for (int i = 0; i < 3; i++)
        source.stride[i] = p.source_stride[i];
    int32_t tap = -1;
    pooled(p, source, place_of(p.out, element), &tap);
    p.largest[element] = tap;
}

/* in = the gradient of in: what each output that has it as a tap gives to it. With largest, all or nothing; else
   the part of a mean. threads: elements of in. */
PF_KERNEL PF_FOUR_BLOCKS pf_pool_backward(const PF_ARGUMENT pf_pooling p)
{
    int64_t element = element_of_thread();
    if (!is_pool_element(p.in, element))
        return;
    pf_place at = place_of(p.in, element);
    const pf_window &w = p.window;
    float sum = 0;
    /* Backwards over the taps is forwards over the outputs. */
    for (int64_t tap = w.kernel[0] * w.kernel[1] * w.kernel[2] - 1; tap >= 0; tap--) {
        int64_t k[3] = {tap / w.kernel[2] / w.kernel[1], tap / w.kernel[2] % w.kernel[1], tap % w.kernel[2]}, o[3];
        bool is = true;
        for (int i = 0; i < 3; i++) {
            int64_t from = at.at[i] - w.origin[i] - k[i] * w.dilation[i];
            o[i] = from / w.stride[i];
            is = is && from >= 0 && from % w.stride[i] == 0 && o[i] < p.out.size[i];
        }
        if (!is)
            continue;
        float grad = pixel_of(p.out, at.n, o[0], o[1], o[2])[at.c];
        if (!p.largest)
            sum += grad / divisor(p, o[0], o[1], o[2]);
        else if (p.largest[(((at.n * p.out.size[0] + o[0]) * p.out.size[1] + o[1]) * p.out.size[2] + o[2]) * p.out.c + at.c] == tap)
            sum += grad;
    }
    pixel_of(p.in, at.n, at.at[0], at.at[1], at.at[2])[at.c] = sum;
}
