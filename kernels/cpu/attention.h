// What the sources of attention share: a tile of rows, a tile of keys, and the functions of one
// instruction set.
//
// The rows of one KV head are its queries, token by token, the heads of its group side by side, so
// that every key and value that is loaded serves them all. Keys are taken in tiles that lie at
// multiples of their size. The scores of a block of rows with a tile of keys stay in L1;
// the softmax is rescaled from tile to tile (Milakov and Gimelshein, Online normalizer calculation
// for softmax, 2018; Dao et al., FlashAttention, 2022, algorithm 1). Since tiles lie at absolute
// positions, and a key that a row may not see adds exactly nothing, a row's bits do not depend on
// where its chunk began, on the other rows, or on what was cached.
#ifndef PREFILLONLY_ATTENTION_H
#define PREFILLONLY_ATTENTION_H

#include "internal.h"

enum {
	PF_KEY_TILE = 256, // keys of a tile, at most
	PF_KEY_GROUPS = PF_KEY_TILE / PF_KV_GROUP,
	PF_ROW_BLOCK = 32, // rows whose scores are held at once, at most
	PF_MAX_LANES = 16,
};

// pf_attention_rows is a block of rows and their running softmax.
typedef struct pf_attention_rows {
	int count, padded; // padded is the head dimension in memory
	float scale;       // of the scores, times log2(e); positive
	float cap, inner;  // not 0: scores become cap * tanh(inner * score) first
	// The matrices have room for a whole block of rows. Each instruction set lays queries, scores and out
	// out as it likes.
	void *queries; // [count][padded] operands
	float *scores; // [count][PF_KEY_TILE]
	float *top;    // [count]: the score that sums are relative to, before scaling
	float *total;  // [count][PF_MAX_LANES]: sums of probabilities
	float *out;    // [count][padded]: sums of probabilities times values
	void *copy;    // room for the values of a tile
	int masked;    // whether some row does not see all keys of the steps that are looked at
	int first[PF_ROW_BLOCK], last[PF_ROW_BLOCK]; // row i sees keys [first, last) of the tile
} pf_attention_rows;

// pf_attention_keys is a tile of keys, of which groups [group, ceil(end/16)) are looked at.
typedef struct pf_attention_keys {
	int group, end; // keys at or past end may be garbage
	int low;        // no row sees keys below it
	const pf_bf16 *keys[PF_KEY_GROUPS], *values[PF_KEY_GROUPS];
	int value_stride[PF_KEY_GROUPS]; // of a group, as pf_v_stride
} pf_attention_keys;

typedef struct pf_attention_ops {
	size_t operand; // bytes of an element of a query
	int keys;       // of a tile, a multiple of step
	int step;       // keys that are looked at together, a multiple of PF_KV_GROUP
	int block;      // rows that attend takes at once
	int blocks;     // of a task, at most
	// A thread calls begin before its first and end after its last attend of a task; NULL where an
	// instruction set has no state to set up.
	void (*begin)(void);
	void (*end)(void);
	// load sets the queries of a block of rows, padded with zeros.
	void (*load)(const pf_attention_rows *rows, const pf_bf16 *const *queries, int dim);
	// attend adds a tile of keys to the rows' softmax.
	void (*attend)(const pf_attention_rows *rows, const pf_attention_keys *keys);
	// move sets the sums of a row in a block to those of one in another block; NULL where rows lie one after the other, so that
	// attend may take any run of a task's rows.
	void (*move)(const pf_attention_rows *to, int row, const pf_attention_rows *from, int old);
	// finish sets each row's dst [dim] = out / sum of total.
	void (*finish)(pf_bf16 *const *dst, const pf_attention_rows *rows, int dim);
} pf_attention_ops;

extern const pf_attention_ops pf_attention_avx2, pf_attention_avx512, pf_attention_avx512_bf16, pf_attention_amx;

// Scores that a row may not see, and the largest score before there is one: what the first leaves of
// the second is exactly nothing, and neither overflows when scaled.
#define PF_HIDDEN_SCORE -0x1p120f
#define PF_LOWEST_TOP -0x1p100f

#endif
