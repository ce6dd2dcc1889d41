// The C ABI of the CPU backend: instruction sets, the thread pool, the layout of keys and values,
// and the operations that the Go binding calls.
//
// Conventions. Matrices are row-major; strides count elements. bf16 is a uint16_t holding the upper
// half of a float32, rounded to nearest even. No operation allocates except pf_pool_new and
// pf_pool_shared. The bits of a row's result depend on that row's inputs and the instruction set
// alone, never on the number of rows, on the row's place or on the threads.
#ifndef PREFILLONLY_KERNELS_H
#define PREFILLONLY_KERNELS_H

#include <stddef.h>
#include <stdint.h>

typedef uint16_t pf_bf16;

// Instruction sets, each a superset of the one before.
typedef enum pf_isa {
	PF_NONE = -1,   // the machine has less than PF_AVX2
	PF_AVX2,        // AVX2, FMA and F16C
	PF_AVX512,      // AVX-512 F, BW, DQ, VL
	PF_AVX512_BF16, // and AVX-512 BF16
	PF_AMX,         // and AMX-BF16, with the tile state permitted by the kernel
} pf_isa;

// pf_isa_detect is the best instruction set of this machine.
pf_isa pf_isa_detect(void);

// pf_isa_products is the set that products are fastest with on a machine of this best one. Intel's cores end a vdpbf16ps of
// 512 bits every other cycle and two vfmadd a cycle: on two CPUs of an Emerald Rapids VM without AMX 167 and 290 GFLOP/s,
// a layer of 512 rows of Qwen2.5-0.5B 163 and 247. Attention is faster with the former all the same.
pf_isa pf_isa_products(pf_isa isa);

// Thread pool: the calling thread and threads-1 persistent workers, which spin briefly after a job
// and then sleep. One thread calls at a time.
typedef struct pf_pool pf_pool;
typedef void (*pf_task)(void *arg, int task, int thread);

// pf_pool_new is NULL when memory or threads cannot be had.
pf_pool *pf_pool_new(int threads);
void pf_pool_free(pf_pool *pool);
int pf_pool_threads(const pf_pool *pool);

// pf_parallel runs fn(arg, 0..tasks-1, thread) and returns when all have ended; tasks are taken in
// rising order by whichever thread is free. thread is in [0, pf_pool_threads).
void pf_parallel(pf_pool *pool, pf_task fn, void *arg, int tasks);

// pf_copy is memcpy by all threads.
void pf_copy(pf_pool *pool, void *dst, const void *src, size_t bytes);

// pf_pool_scratch is memory of one thread for the time of one task: PF_SCRATCH_BYTES, aligned to a
// page, with undefined contents. Untouched pages cost nothing.
#define PF_SCRATCH_BYTES ((size_t)4 << 20)
void *pf_pool_scratch(pf_pool *pool, int thread);

// pf_pool_shared is memory for the time of one operation, shared by all threads, aligned to a page,
// with undefined contents; NULL when it cannot be had.
void *pf_pool_shared(pf_pool *pool, size_t bytes);

// Layout of one layer's keys and values of one block of tokens (a multiple of 16). The head
// dimension is padded with zeros to a multiple of 32. KV heads follow one another; of each its keys,
// then its values, in one of two layouts: in PF_KV_PAIRS, for vector registers,
//   K as [tokens/16][padded/2][16][2]: groups of 16 tokens, pairs along the dimension adjacent;
//   V as [tokens/2][padded][2]: pairs of tokens adjacent;
// in PF_KV_TILES, where both are the first operand of AMX,
//   K as [tokens/16][padded/32][16][32]: tiles of 16 tokens by 32 of the dimension;
//   V as [tokens/32][padded][32]: groups of 32 tokens (the last may have 16), transposed.
typedef enum pf_kv_layout { PF_KV_PAIRS, PF_KV_TILES } pf_kv_layout;

static inline pf_kv_layout pf_kv_layout_of(pf_isa isa) { return isa == PF_AMX ? PF_KV_TILES : PF_KV_PAIRS; }

#define PF_KV_GROUP 16

static inline int pf_kv_padded(int dim) { return (dim + 31) / 32 * 32; }

// Elements of one KV head's keys; its values take as many again and follow.
static inline size_t pf_kv_elems(int tokens, int dim) { return (size_t)tokens * pf_kv_padded(dim); }

static inline size_t pf_kv_bytes(int tokens, int dim, int kv_heads)
{
	return pf_kv_elems(tokens, dim) * 2 * kv_heads * sizeof(pf_bf16);
}

// Index of element d of token t among a head's keys.
static inline size_t pf_k_index(pf_kv_layout layout, int t, int d, int padded)
{
	size_t group = (size_t)(t / PF_KV_GROUP) * PF_KV_GROUP * padded;
	if (layout == PF_KV_TILES)
		return group + (size_t)(d / 32) * PF_KV_GROUP * 32 + t % PF_KV_GROUP * 32 + d % 32;
	return group + (size_t)(d / 2) * PF_KV_GROUP * 2 + t % PF_KV_GROUP * 2 + d % 2;
}

// pf_v_stride is how far apart the elements of token t's values are, in a block of `tokens`.
static inline int pf_v_stride(pf_kv_layout layout, int t, int tokens)
{
	if (layout == PF_KV_PAIRS)
		return 2;
	return t / 32 * 32 + 32 <= tokens ? 32 : PF_KV_GROUP;
}

// Index of the first element of token t among a head's values.
static inline size_t pf_v_index(pf_kv_layout layout, int t, int padded)
{
	if (layout == PF_KV_TILES)
		return (size_t)(t / 32) * 32 * padded + t % 32;
	return (size_t)(t / 2) * padded * 2 + t % 2;
}

// pf_segment is one sequence's part of a chunk: rows [row, row+rows) are its positions
// [pos, pos+rows); blocks[i] holds positions [i*block_tokens, (i+1)*block_tokens).
// Attention that looks both ways sees positions up to len. pf_attention sets what stands behind blocks.
typedef struct pf_segment {
	int row, rows, pos, len;
	void **blocks;
	int family, family_rows; // of the first of a family: its segments, side by side, and their rows
	int shared;              // the leading positions whose keys all of these see, in the same blocks
} pf_segment;

typedef struct pf_store_kv_args {
	pf_bf16 *qkv;     // [rows][stride]: q_heads, then kv_heads keys, then kv_heads values, dim each
	size_t qkv_stride;
	int q_heads, kv_heads, dim;
	const float *q_norm, *k_norm; // [dim], or NULL for no normalisation before the rotation
	int whole_norms;              // of all heads together: [q_heads*dim] and [kv_heads*dim]
	float eps;
	const float *cosines, *sines; // [position][rope_dim/2]
	int rope_dim;                 // rotated are pairs (i, i+rope_dim/2) of the first rope_dim elements; 0 = none
	int block_tokens;
	const pf_segment *segments;
	int segment_count;
} pf_store_kv_args;

typedef struct pf_attention_args {
	const pf_bf16 *qkv; // as above; the queries are read
	size_t qkv_stride;
	pf_bf16 *dst; // [rows][dst_stride], q_heads*dim wide
	size_t dst_stride;
	int q_heads, kv_heads, dim;
	float scale, cap; // scores are capped by tanh, but for a cap of 0
	int window;    // 0 = all positions up to the row's own
	int both_ways; // else those behind it, too; a window reaches to both sides
	int block_tokens;
	pf_segment *segments;
	int segment_count;
} pf_attention_args;

// pf_store_kv normalises (if asked) and rotates queries in place and keys, and writes keys and
// values into the blocks, zero padding included.
void pf_store_kv(pf_pool *pool, pf_isa isa, const pf_store_kv_args *args);

// pf_attention sets dst to softmax(q k^T scale) v, causal or both ways.
void pf_attention(pf_pool *pool, pf_isa isa, const pf_attention_args *args);


// Element types of checkpoints, numbered as kernels.DType is.
typedef enum pf_type { PF_F32, PF_BF16, PF_F16, PF_F8E4M3, PF_I8 } pf_type;

// pf_linear is a matrix W [out][in] (and bias) packed for y = x W^T + bias: panels of PF_PANEL rows
// of W, each as [pairs][PF_PANEL][2], padded with zeros. A gated matrix has twice out rows: a panel
// holds 16 rows of the gate, then the same 16 of the up projection.
//
// Quantised, a panel holds codes in the same places, a byte each, and scale is what the code of each of its
// rows is worth. A product expands a panel of PF_FP8 or PF_INT8_WEIGHTS to bf16 in the thread's scratch, which
// bounds `in`. Of PF_INT8, codes are multiplied as they are with activations in int8; they lie in the groups of 2
// or 4 columns that the instruction set multiplies at once, as [in/group][PF_PANEL][group].
//
// Of PF_INT4 a code has four bits, and columns share scales and zero points by groups: it is worth (code - zero) * scale, rounded to
// bf16 as a product expands it. A byte has two of the 32 elements of 16 rows' pairs, elements i and i+16.
#define PF_PANEL 32
#define PF_EXPANDED_MAX_IN ((int)(PF_SCRATCH_BYTES / (PF_PANEL * sizeof(pf_bf16))))
typedef enum pf_kind { PF_DENSE, PF_FP8, PF_INT8_WEIGHTS, PF_INT8, PF_INT4 } pf_kind;
typedef struct pf_linear {
	pf_kind kind;
	int in, out, gated;
	int pairs;  // ceil(in/2), rounded up to a multiple of 16, of PF_INT8 of 32
	int panels; // of PF_PANEL rows
	pf_bf16 *weights; // of PF_DENSE, else NULL
	uint8_t *codes;   // of all others, else NULL
	float *scale;     // where there are codes, but of PF_INT4: [panels*PF_PANEL], else NULL
	int32_t *starts;  // of PF_INT8: [panels*PF_PANEL], what a sum of products of codes begins with
	float *bias;      // [panels*PF_PANEL], or NULL

	int group, groups;  // of PF_INT4: columns of a group, which are even, but for the last one's; how many there are
	float *group_scale; // [panels][groups][PF_PANEL]
	uint8_t *zeros;     // the same
} pf_linear;

static inline int pf_pairs(pf_kind kind, int in) { return kind == PF_INT8 ? (in + 63) / 64 * 32 : (in + 31) / 32 * 16; }

// pf_code_bytes is the size of the codes of a pair of columns of a panel.
static inline size_t pf_code_bytes(const pf_linear *l) { return l->kind == PF_INT4 ? PF_PANEL : PF_PANEL * 2; }

// pf_source is a stack of rows of a checkpoint's matrix.
typedef struct pf_source {
	const void *data;
	pf_type type;
	int rows;
} pf_source;

// pf_linear_pack fills weights or codes (zeroed memory of panels*pairs*PF_PANEL*2 elements), and starts, from the
// stacked sources, or from exactly two of them, gate and up, for a gated matrix. The matrix is for operations of
// this instruction set.
void pf_linear_pack(pf_pool *pool, pf_isa isa, const pf_linear *linear, const pf_source *sources, int count);

// pf_convert converts n elements to bf16, or to float32.
void pf_to_bf16(pf_bf16 *dst, const void *src, pf_type type, size_t n);
void pf_to_f32(float *dst, const void *src, pf_type type, size_t n);

// pf_rows is a view of rows of the residual stream with the normalisation that an operation applies
// to them first.
typedef enum pf_norm { PF_RMS_NORM, PF_LAYER_NORM, PF_NO_NORM } pf_norm;
typedef struct pf_rows {
	float *x;
	size_t stride;
	int rows, cols;
	pf_norm norm;
	const float *weight, *bias; // [cols]; bias of PF_LAYER_NORM may be NULL
	float eps;
} pf_rows;

// pf_activation is what stands between the matrices of an MLP. A matrix up that is gated has gate and up.
typedef enum pf_activation { PF_GELU_ERF, PF_GELU_TANH, PF_SILU } pf_activation;

// The operations of kernels.Backend of the same names. They return 0, or -1 when no memory for
// intermediates can be had; nothing has been written then.
int pf_norm_linear(pf_pool *pool, pf_isa isa, pf_bf16 *dst, size_t dst_stride, const pf_rows *x, const pf_linear *l);
int pf_add_linear(pf_pool *pool, pf_isa isa, const pf_rows *x, const pf_bf16 *src, size_t src_stride, const pf_linear *l);

// pf_mlp adds down(act(g) * u), or down(act(u)) if up is not gated, to rows of dst, which are those of x or others.
// PF_SILU is for gated matrices.
int pf_mlp(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, pf_activation act, const pf_linear *up,
           const pf_linear *down);

// What low-rank products are added to. pf_norm_wide adds the products of normalised rows, with the bias, to float dst [rows][stride], which has
// room for whole panels, those of gated matrices as they are packed. pf_linear_bf16 sets dst = src l^T. pf_activate sets rows of dst, which has
// room for whole panels, to the activation of what pf_norm_wide has made with up.
int pf_norm_wide(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, const pf_linear *l);
int pf_linear_bf16(pf_pool *pool, pf_isa isa, pf_bf16 *dst, size_t dst_stride, const pf_bf16 *src, size_t src_stride, int rows, const pf_linear *l);
void pf_activate(pf_pool *pool, pf_isa isa, pf_bf16 *dst, size_t dst_stride, const float *wide, size_t stride, int rows, pf_activation act, const pf_linear *up);

// pf_wide is the matrix with the rows of its panels as they are packed, gated or not.
static inline pf_linear pf_wide(const pf_linear *l)
{
	pf_linear wide = *l;
	wide.gated = 0;
	wide.out = l->panels * PF_PANEL;
	return wide;
}

// pf_layer_norm sets rows of dst, floats or bf16, to those of x normalised, which may be the same memory.
void pf_layer_norm(pf_pool *pool, pf_isa isa, void *dst, pf_type type, size_t dst_stride, const pf_rows *x);

// pf_add_norm adds rows of src, normalised by their PF_RMS_NORM, to those of dst.
void pf_add_norm(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *src);

// pf_logits dots every normalised row with the table's rows ids[0..count), or 0..count-1 when ids is
// NULL. The table is row-major bf16, x->cols wide.
int pf_logits(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, const pf_bf16 *table,
              const uint32_t *ids, int count);

// pf_coded_logits is pf_logits of a table of PF_INT8 or PF_INT8_WEIGHTS, whose rows are counted from `first`. It is
// at most PF_CODED_MAX_COLS wide.
#define PF_LISTED_BYTES ((size_t)64 << 10)
#define PF_CODED_MAX_COLS ((int)((PF_SCRATCH_BYTES - PF_LISTED_BYTES) / (PF_PANEL * sizeof(pf_bf16))))
int pf_coded_logits(pf_pool *pool, pf_isa isa, float *dst, size_t dst_stride, const pf_rows *x, const pf_linear *table, int first,
                    const uint32_t *ids, int count);

// pf_embed sets row i of x to scale times table row ids[i].
void pf_embed(pf_pool *pool, const pf_rows *x, const pf_bf16 *table, const uint32_t *ids, float scale);

// pf_add_embed adds table row ids[i] to row i of x.
void pf_add_embed(pf_pool *pool, const pf_rows *x, const pf_bf16 *table, const uint32_t *ids);

// pf_clear sets rows of x to zero.
void pf_clear(pf_pool *pool, const pf_rows *x);

// pf_pick_rows sets row i of dst to row rows[i] of x; pf_add_scaled_rows adds scale[i] times row i of src to row rows[i] of x,
// of which none comes twice.
void pf_pick_rows(pf_pool *pool, const pf_rows *dst, const pf_rows *x, const int32_t *rows);
void pf_add_scaled_rows(pf_pool *pool, const pf_rows *x, const pf_rows *src, const int32_t *rows, const float *scale);

// pf_sum sets x to parts[0] + parts[1] + ..., summed in this order, or adds that; rows of part i are strides[i]
// apart.
void pf_sum(pf_pool *pool, const pf_rows *x, const float *const *parts, const size_t *strides, int count, int add);

// pf_shared_bytes bounds what the operations ask of pf_pool_shared for so many rows and matrices of
// up to max_in x max_out.
size_t pf_shared_bytes(pf_isa isa, int rows, int max_in, int max_out);

#endif
