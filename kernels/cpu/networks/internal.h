// What the sources of networks share: the functions of one instruction set, and prepared programs.
#ifndef PREFILLONLY_NETWORKS_INTERNAL_H
#define PREFILLONLY_NETWORKS_INTERNAL_H

#include "networks.h"

// Operations in the order of kernels.ElementOp, and then those that programs are made of beside them.
typedef enum pn_op {
	PN_CONSTANT, PN_COPY, PN_ADD, PN_SUB, PN_MUL, PN_DIV, PN_MIN, PN_MAX, PN_POW, PN_LESS, PN_LESS_EQUAL, PN_EQUAL,
	PN_SELECT, PN_NEG, PN_ABS, PN_SQRT, PN_EXP, PN_LOG, PN_SIN, PN_COS, PN_TANH, PN_SIGMOID, PN_ERF, PN_FLOOR,
	PN_CEIL, PN_ROUND, PN_HALF, PN_BRAIN,
	PN_SILU,       // a * sigmoid(a)
	PN_SILU_SLOPE, // of which the derivative is (1 + a * (1 - sigmoid(a))) * sigmoid(a)
	PN_OPS,
} pn_op;

// pn_element_op sets n elements of d; d may be an operand itself.
typedef void (*pn_element_op)(float *d, const float *a, const float *b, const float *c, size_t n);

// pn_strip is a run of outputs along the last axis, of which all have the same taps of the other axes.
typedef struct pn_strip {
	const pn_axis *axis;
	int from[2], to[2];   // taps of the outer axes that lie in the input
	int64_t place[2];     // of their tap 0
	int x0, x1, channels; // outputs [x0, x1)
	float *dst;           // of output 0
	const float *src;     // of place 0 of all axes
} pn_strip;

// pn_weights is kernels.Taps.
typedef struct pn_weights {
	const int32_t *start, *index;
	const float *weight;
} pn_weights;

// pn_ending is what becomes of sums while they are in registers: they are multiplied by `scale` and `shift` is added, a row
// for all, or shift alone, `add` is added and then `times` multiplied with, whose rows are so far apart, unless they are NULL, and then they
// are held between low and high. With silu they become products with their sigmoids once they are in memory, and
// `after` is added.
typedef struct pn_ending {
	int silu;
	float low, high;
	const float *scale, *shift, *add, *times, *after;
	ptrdiff_t add_row, times_row, after_row;
	int holds; // whether low or high is finite
} pn_ending;

// pn_kernels are the functions of an instruction set.
struct pn_kernels {
	int lanes, rows; // floats of a vector; rows of the tallest tile
	pn_element_op element[PN_OPS];
	void (*fill)(float *d, float x, size_t n);
	void (*copy)(float *d, const float *s, size_t n);
	// silu_both sets n elements to PN_SILU and PN_SILU_SLOPE; d may be a itself.
	void (*silu_both)(float *d, float *slope, const float *a, size_t n);

	// tile sets c [rows][cols], whose rows are ldc apart, to a times the panel b [runs*k][ldb] plus init: a row for all,
	// or c itself, or NULL for 0. Rows of a are made of runs of k elements: run j of row i is at a[j] + i*lda. cols is at
	// most two vectors; b has whole vectors. The ending may be NULL.
	void (*tile)(int rows, int cols, int runs, size_t k, const float *const *a, ptrdiff_t lda, const float *b,
	             ptrdiff_t ldb, float *c, ptrdiff_t ldc, const float *init, const pn_ending *ending);

	// silu makes elements of rows, `to` apart, their products with their sigmoids, and adds those of `add`, unless it is NULL,
	// whose rows are `row` apart.
	void (*silu)(float *d, ptrdiff_t to, int64_t rows, size_t cols, const float *add, ptrdiff_t row);

	// gather copies the inputs of the taps [from, to) of an output at `at`, row-major, to d; those outside are 0. src is
	// place 0 of all axes, and has so many channels.
	void (*gather)(float *d, const pn_axis *axes, const int64_t *at, const float *src, size_t channels, int from, int to);

	// interleave makes rows, `to` apart, of 2 to 4 columns whose elements are 1 or 2 apart, as `from` says, and which begin
	// `apart`.
	void (*interleave)(float *d, ptrdiff_t to, const float *s, ptrdiff_t from, ptrdiff_t apart, int cols, int64_t rows);

	// every_second sets n elements, at least one, to those of s that lie 2 apart.
	void (*every_second)(float *d, const float *s, size_t n);

	// depthwise convolves a strip; weights of a tap are `stride` floats, and sums begin with init, or 0. Of the ending `add` and
	// `times` are none.
	void (*depthwise)(const pn_strip *s, const float *weights, const int *kernel, size_t stride, const float *init,
	                  const pn_ending *ending);
	void (*maxima)(const pn_strip *s);
	// means of a strip; scale holds what the sum of each output is multiplied by.
	void (*means)(const pn_strip *s, const float *scale);

	// route adds grad [outputs], laid out as g says, to the place of the first of the largest taps of each output of a
	// strip; at is place 0 of the last axis and the others' tap 0 in the input's gradient.
	void (*route)(const pn_strip *s, const pn_axis *g, const float *grad, float *at);

	// weigh sets outputs [first, last), n elements each and `to` apart, to sums of inputs that lie `from` apart.
	void (*weigh)(float *d, ptrdiff_t to, const float *s, ptrdiff_t from, const pn_weights *w, int first, int last, size_t n);

	// fold makes d[i] one with s[i], and reduce all of s one, in a way that depends on n alone: to a sum, the largest
	// and the smallest.
	void (*fold[3])(float *d, const float *s, size_t n);
	float (*reduce[3])(const float *s, size_t n);
};

static inline int64_t pn_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t pn_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t pn_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

// pn_run runs tasks on the pool, or all on this thread where the work, in nanoseconds, would not repay waking others.
void pn_run(const pn_device *d, pn_task task, void *arg, int tasks, double work);

// pn_run_flushing is pn_run with numbers below the normal range taken for 0: on many processors each operation on one
// takes as long as a hundred others, and weights that training has let decay are such numbers.
void pn_run_flushing(const pn_device *d, pn_task task, void *arg, int tasks, double work);

// pn_copy_matrix copies rows x cols elements whose rows and columns are s0 and s1 apart to rows that are `to` apart.
void pn_copy_matrix(const pn_kernels *k, float *d, ptrdiff_t to, const float *s, ptrdiff_t s0, ptrdiff_t s1, int rows, int cols);

// pn_locate finds, in each of some tensors, the element of a number, row-major, of dimensions that they have in common; of those
// there are pn_product_of elements.
void pn_locate(int64_t index, int dims, const int64_t *shape, const pn_tensor *t, int tensors, float **at);
int64_t pn_product_of(int dims, const int64_t *shape);

// pn_inside sets [*from, *to) to the taps of output i that lie in the input, and returns the place of tap 0.
int64_t pn_inside(const pn_axis *a, int64_t i, int *from, int *to);

// pn_step is an instruction on places: [0, operands) are operands, then come registers.
typedef struct pn_step {
	pn_op op;
	int dst, in[3];
	float x;
} pn_step;

// pn_program is a program made ready: dead instructions are gone, registers are shared by results that live
// one after another.
struct pn_program {
	int operands, steps, constants, registers; // of the steps the first ones are constants
	int results, result[PN_MAX_OPERANDS];      // beside the last step's: their places
	int straight[PN_MAX_OPERANDS];             // whether a step can write that result where it belongs
	double work;                               // nanoseconds an element, about
	int ends, silu, addend, factor;            // whether it is an ending, and then which, and the operands that it adds and multiplies with, or 0
	int both;                                  // whether it is SiLU, and its slope the only other result
	int first;                                 // the operand that is added to operand 0 before anything else is done, or 0
	float low, high;
	pn_step step[PN_MAX_INSTRUCTIONS];

	// For pn_prepare.
	pn_step given[PN_MAX_INSTRUCTIONS];
	int last[PN_MAX_OPERANDS + PN_MAX_INSTRUCTIONS], place[PN_MAX_OPERANDS + PN_MAX_INSTRUCTIONS];
	int spare[PN_MAX_INSTRUCTIONS];
};

// pn_prepare makes a program ready that also has the registers `also` as results. Of the operands of the mask `rows` it may leave
// one, `first`, to be added by what computes operand 0.
void pn_prepare(pn_program *p, const pn_instruction *code, int instructions, int operands, const int64_t *also, int results, uint32_t rows);

// pn_matrix is a view: element (i, j) at at[i*row + j*col].
typedef struct pn_matrix {
	float *at;
	ptrdiff_t row, col;
} pn_matrix;

// pn_execute computes rows x cols elements; after the operands come the results beside dst. room is for PN_PROGRAM_BYTES.
void pn_execute(const pn_kernels *k, const pn_program *p, pn_matrix dst, const pn_matrix *operands, int64_t rows,
                int64_t cols, float *room);

// A program is run on so many elements at a time, or fewer where it has very many registers: they stay in the
// first-level cache.
enum { PN_BLOCK = 512 };
#define PN_PROGRAM_BYTES ((size_t)512 << 10)

#endif
