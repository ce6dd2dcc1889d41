// The C side of networks on a processor: what the Go binding calls, and what the sources share.
//
// Strides count elements, and may be of any sign unless something else is said. No operation allocates. Every
// sum over taps and channels is one chain of fused multiply-adds in rising order, whatever the tile, the task
// or the thread that computes it: that is why bits depend on nothing else than an element's own operands.
#ifndef PREFILLONLY_NETWORKS_H
#define PREFILLONLY_NETWORKS_H

#include <stddef.h>
#include <stdint.h>

// pn_threads is a pool of threads, as kernels/cpu has: parallel runs task(arg, 0..tasks-1, thread) and returns
// when all have ended; scratch is PN_SCRATCH_BYTES of a thread for the time of a task; shared is memory for the
// time of an operation, or NULL.
typedef void (*pn_task)(void *arg, int task, int thread);
typedef struct pn_threads {
	void *pool;
	int count;
	void (*parallel)(void *pool, pn_task task, void *arg, int tasks);
	void *(*scratch)(void *pool, int thread);
	void *(*shared)(void *pool, size_t bytes);
} pn_threads;

#define PN_SCRATCH_BYTES ((size_t)4 << 20)

typedef struct pn_kernels pn_kernels;
typedef struct pn_program pn_program;
extern const pn_kernels pn_kernels_avx2, pn_kernels_avx512;

typedef struct pn_device {
	pn_threads threads;
	const pn_kernels *kernels;
	pn_program *program; // of the operation that runs
} pn_device;

// pn_program_new is room for any program, from malloc; NULL when there is no memory.
pn_program *pn_program_new(void);

// pn_instruction is laid out as kernels.Instruction; the operations are those of kernels.ElementOp.
typedef struct pn_instruction {
	uint8_t op;
	int64_t a, b, c;
	float x;
} pn_instruction;

enum { PN_MAX_OPERANDS = 32, PN_MAX_INSTRUCTIONS = 4096, PN_MAX_DIMS = 8 };

// pn_axis is a spatial dimension of a convolution or a pool: tap j of output i is at place
// base + i*step + j*dilation of the input. dst and src are strides of outputs and inputs.
typedef struct pn_axis {
	int out, in, taps, step, dilation;
	int64_t base;
	ptrdiff_t dst, src;
	int weight, weight_step; // tap j has the kernel's weight number weight + j*weight_step
} pn_axis;

// pn_image is a tensor [images, three spatial dimensions, channels].
typedef struct pn_image {
	float *at;
	ptrdiff_t image, axis[3], channel;
} pn_image;

// pn_filter is packed weights. Those of a depthwise convolution are [taps][channels rounded up to lanes];
// others are, for each group, panels of [taps][in][lanes], of two vectors or, the last one, as many halves of one as it needs.
typedef struct pn_filter {
	int groups, in, out; // channels of a group
	int kernel[3];
	int depthwise;
	float *weights;
} pn_filter;

// pn_filter_floats is how many floats the weights of f take.
size_t pn_filter_floats(const pn_device *d, const pn_filter *f);
// pn_filter_pack packs weights [groups][out][in][three of the kernel], whose strides are these.
void pn_filter_pack(const pn_device *d, const pn_filter *f, const float *weights, const ptrdiff_t *stride);

typedef struct pn_convolution {
	int images;
	pn_axis axis[3];
	float *dst;
	const float *src;
	const float *scale, *shift; // of each output; NULL for none, and without a shift there is no scale
	ptrdiff_t dst_image, src_image;
} pn_convolution;

// pn_convolve computes a convolution, its scale and shift, and then, unless code is NULL, a program with so many operands beside the sum, and
// after them its results beside the last register, which are those of `also`.
void pn_convolve(const pn_device *d, const pn_convolution *c, const pn_filter *f, const pn_instruction *code,
                 int instructions, const pn_image *operands, int count, const int64_t *also, int results);
// pn_convolve_backward is the same with inputs and outputs of f exchanged: src has f's outputs, dst its inputs,
// and there is neither scale nor shift. It fails for want of memory.
int pn_convolve_backward(const pn_device *d, const pn_convolution *c, const pn_filter *f);

// pn_pool is the shape of a pool; a mean divides by the places that it counts: those from base of each axis to
// `end`, exclusive, or without `counted` those inside of the input.
typedef struct pn_pool {
	int images, channels, maximum, counted;
	int64_t end[3];
	pn_axis axis[3];
	ptrdiff_t dst_image, src_image;
} pn_pool;

void pn_pool_forward(const pn_device *d, const pn_pool *p, float *dst, const float *src);
// pn_pool_backward sets dst, which lies as src does in p, from grad, which lies as dst does in p; a maximum
// reads src at x, whose strides are apart.
void pn_pool_backward(const pn_device *d, const pn_pool *p, float *dst, const float *grad, const pn_image *x);

// pn_tensor is dimensions in common and a base with strides.
typedef struct pn_tensor {
	float *at;
	ptrdiff_t stride[PN_MAX_DIMS];
} pn_tensor;

// pn_map computes elements of shape [dims]; t[0] is the result, then come the operands.
void pn_map(const pn_device *d, const pn_instruction *code, int instructions, int operands, int dims,
            const int64_t *shape, const pn_tensor *t);

// pn_interpolate makes outputs of inputs along a dimension whose strides are those of `dst` and `src`; t[0] and
// t[1] are result and operand over the other dimensions. Of the taps see kernels.Taps.
void pn_interpolate(const pn_device *d, int outputs, ptrdiff_t dst, ptrdiff_t src, const int32_t *start,
                    const int32_t *index, const float *weight, int dims, const int64_t *shape, const pn_tensor *t);

// pn_product is dst[m][n] = a[m][k] b[k][n], of so many batches.
typedef struct pn_product {
	int m, n, k;
	ptrdiff_t dst[2], a[2], b[2]; // strides of rows and of columns
} pn_product;

// pn_multiply computes a product for each element of [dims]; t is dst, a and b. It fails for want of memory.
int pn_multiply(const pn_device *d, const pn_product *p, int dims, const int64_t *shape, const pn_tensor *t);

// pn_reduce makes elements one, as kernels.Reduction says: of each element of the kept dimensions those of the
// reduced ones. t[0] is the result, t[1] the operand; both cover kept and then reduced dimensions, of which
// the result's strides are 0.
void pn_reduce(const pn_device *d, int how, int kept, int reduced, const int64_t *shape, const pn_tensor *t);

#endif
