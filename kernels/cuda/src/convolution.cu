/* Convolutions, directly: one thread for a few outputs of one channel, so that threads side by side read weights
   side by side, and the same input. */
#include "program.h"

struct pf_convolution {
    pf_image out, in;
    pf_window window;
    int64_t group_in, group_out; /* channels of a group */
    const float *weight;         /* forward [tap][input of the group][output]; backward [tap][output of the group][input] */
    const float *scale, *shift;  /* [output] or null */
    pf_program then;             /* of the sum, which is given; nothing if it has no code */
};

/* Channels that are loaded at once where they lie so. */
struct alignas(16) four {
    float v[4];
};

/* The number of an element of the place's row. */
static __device__ inline uint32_t element_at(const pf_image &m, const pf_place &p, int64_t x)
{
    return (uint32_t)((((p.n * m.size[0] + p.at[0]) * m.size[1] + p.at[1]) * m.size[2] + x) * m.c + p.c);
}

/* Outputs along the last spatial dimension that one thread computes. */
#define PF_STRIP 4

/* out = then(conv(in) * scale + shift). threads: the elements of out, with strips of pixels in place of pixels. */
PF_KERNEL PF_FOUR_BLOCKS pf_conv(const PF_ARGUMENT pf_convolution c)
{
    pf_image strips = c.out;
    strips.size[2] = (c.out.size[2] + PF_STRIP - 1) / PF_STRIP;
    int64_t element = element_of_thread();
    if (element >= strips.n * strips.size[0] * strips.size[1] * strips.size[2] * strips.c)
        return;
    pf_place p = place_of(strips, element);
    const pf_window &w = c.window;
    int64_t x = p.at[2] * PF_STRIP, first = p.c / c.group_out * c.group_in;
    float sum[PF_STRIP] = {};
    bool fours = ((uint64_t)c.in.data % sizeof(four) | c.group_in % 4 | c.in.next % 4 | c.in.stride[0] % 4 | c.in.stride[1] % 4 | c.in.stride[2] % 4) == 0;
    pf_range rz = taps_within(w, 0, p.at[0], 0, c.in.size[0]), ry = taps_within(w, 1, p.at[1], 0, c.in.size[1]);
    for (int64_t kz = rz.from; kz < rz.to; kz++)
        for (int64_t ky = ry.from; ky < ry.to; ky++) {
            const float *row = pixel_of(c.in, p.n, p.at[0] * w.stride[0] + w.origin[0] + kz * w.dilation[0],
                                        p.at[1] * w.stride[1] + w.origin[1] + ky * w.dilation[1], 0) + first;
            for (int64_t kx = 0; kx < w.kernel[2]; kx++) {
                const float *weight = c.weight + ((kz * w.kernel[1] + ky) * w.kernel[2] + kx) * c.group_in * c.out.c + p.c;
                int32_t pixel[PF_STRIP]; /* from the row's beginning, -1 outside */
                for (int i = 0; i < PF_STRIP; i++) {
                    int64_t at = (x + i) * w.stride[2] + w.origin[2] + kx * w.dilation[2];
                    pixel[i] = x + i < c.out.size[2] && at >= 0 && at < c.in.size[2] ? (int32_t)(at * c.in.stride[2]) : -1;
                }
                int32_t j = 0;
#pragma unroll 1
                for (; fours && j < (int32_t)c.group_in; j += 4) {
                    float v[4];
                    for (int l = 0; l < 4; l++, weight += c.out.c)
                        v[l] = *weight;
                    for (int i = 0; i < PF_STRIP; i++)
                        if (pixel[i] >= 0) {
                            four in = *(const four *)(row + pixel[i] + j);
                            for (int l = 0; l < 4; l++)
                                sum[i] = fmaf(in.v[l], v[l], sum[i]);
                        }
                }
#pragma unroll 1
                for (; j < (int32_t)c.group_in; j++, weight += c.out.c)
                    for (int i = 0; i < PF_STRIP; i++)
                        if (pixel[i] >= 0)
                            sum[i] = fmaf(row[pixel[i] + j], *weight, sum[i]);
            }
        }
    __shared__ float slots[PF_SHARED_SLOTS * PF_BLOCK];
    float scale = c.scale ? c.scale[p.c] : 1, shift = c.shift ? c.shift[p.c] : 0;
#pragma unroll 1
    for (int i = 0; i < PF_STRIP; i++)
        if (x + i < c.out.size[2]) {
            float value = sum[0];
#pragma unroll
            for (int j = 0; j + 1 < PF_STRIP; j++) /* the next one comes first: sums have no address */
                sum[j] = sum[j + 1];
            value = c.scale ? value * scale : value;
            value = c.shift ? value + shift : value;
            if (c.then.count)
                value = interpret(c.then, element_at(c.out, p, x + i), value, slots + threadIdx.x, PF_BLOCK);
            pixel_of(c.out, p.n, p.at[0], p.at[1], x + i)[p.c] = value;
        }
}

/* The output that has an input at a tap in one dimension, or -1. */
static __device__ inline int64_t output_of(const pf_window &w, int dim, int64_t input, int64_t tap, int64_t size)
{
    int64_t from = input - w.origin[dim] - tap * w.dilation[dim];
    return from >= 0 && from % w.stride[dim] == 0 && from / w.stride[dim] < size ? from / w.stride[dim] : -1;
}

/* in = the gradient of in, of out's: gathered from the outputs that have an input as a tap. threads: elements of in. */
PF_KERNEL PF_FOUR_BLOCKS pf_conv_backward(const PF_ARGUMENT pf_convolution c)
{
    int64_t element = element_of_thread();
    if (element >= c.in.n * c.in.size[0] * c.in.size[1] * c.in.size[2] * c.in.c)
        return;
    pf_place p = place_of(c.in, element);
    const pf_window &w = c.window;
    int64_t first = p.c / c.group_in * c.group_out;
    float sum = 0;
    for (int64_t kz = 0; kz < w.kernel[0]; kz++) {
        int64_t z = output_of(w, 0, p.at[0], kz, c.out.size[0]);
        for (int64_t ky = 0; z >= 0 && ky < w.kernel[1]; ky++) {
            int64_t y = output_of(w, 1, p.at[1], ky, c.out.size[1]);
            for (int64_t kx = 0; y >= 0 && kx < w.kernel[2]; kx++) {
                int64_t x = output_of(w, 2, p.at[2], kx, c.out.size[2]);
                if (x < 0)
                    continue;
                const float *grad = pixel_of(c.out, p.n, z, y, x) + first;
                const float *weight = c.weight + ((kz * w.kernel[1] + ky) * w.kernel[2] + kx) * c.group_out * c.in.c + p.c;
                for (int64_t j = 0; j < c.group_out; j++)
                    sum = fmaf(grad[j], weight[j * c.in.c], sum);
            }
        }
    }
    pixel_of(c.in, p.n, p.at[0], p.at[1], p.at[2])[p.c] = sum;
}
