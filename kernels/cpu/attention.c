//go:build cgo && linux && amd64

// Attention: cuts the work into tasks of some rows of one KV head, orders them longest
// first so that the threads end together, and walks each task through the tiles of keys that its rows
// see.

#include "attention.h"

#include <string.h>

// A task is some rows from `row` on of one KV head of one segment.
typedef struct task {
	int segment, head, row;
} task;

enum {
	TASKS = 1 << 16, // in one run of the pool
	TASKS_PER_THREAD = 4,
	COST_CLASSES = 256,
};

typedef struct attention {
	const pf_attention_args *args;
	const pf_attention_ops *ops;
	pf_pool *pool;
	pf_kv_layout layout;
	int padded, group; // group is queries to a KV head
	int rows;          // of a task
	const task *tasks;
} attention;

static const pf_attention_ops *ops_of(pf_isa isa)
{
	switch (isa) {
	case PF_AMX:
		return &pf_attention_amx;
	case PF_AVX512_BF16:
		return &pf_attention_avx512_bf16;
	case PF_AVX512:
		return &pf_attention_avx512;
	default:
		return &pf_attention_avx2;
	}
}

// first_key is the first position that the query at pos sees.
static inline int first_key(const pf_attention_args *a, int pos)
{
	return a->window > 0 ? pf_max(0, pos - a->window + 1) : 0;
}

// key_end is the position behind the last that the query at pos sees.
static inline int key_end(const pf_attention_args *a, const pf_segment *s, int pos)
{
	if (!a->both_ways)
		return pos + 1;
	return a->window > 0 ? pf_min(s->len, pos + a->window) : s->len;
}

// set_block sets block i of a task's rows in the thread's scratch; what they see is not set.
static void set_block(const attention *at, int thread, int i, int rows, pf_attention_rows *r)
{
	size_t most = (size_t)at->ops->blocks * at->ops->block;
	float *scores = pf_pool_scratch(at->pool, thread);
	float *out = scores + PF_ROW_BLOCK * PF_KEY_TILE;
	float *total = out + most * at->padded;
	float *top = total + most * PF_MAX_LANES;
	char *queries = (char *)(top + most);
	size_t row = (size_t)i * at->ops->block;
	r->count = pf_min(at->ops->block, rows - (int)row);
	r->padded = at->padded;
	r->scale = at->args->scale * 1.44269504088896341f;
	r->queries = queries + row * at->padded * at->ops->operand;
	r->scores = scores;
	r->top = top + row;
	r->total = total + row * PF_MAX_LANES;
	r->out = out + row * at->padded;
	r->copy = queries + most * at->padded * at->ops->operand;
}

// find_keys points at the groups of the tile that begins at position start, up to end.
static void find_keys(const attention *at, const pf_segment *s, int head, int start, int end, pf_attention_keys *k)
{
	const pf_attention_args *a = at->args;
	size_t elements = pf_kv_elems(a->block_tokens, a->dim);
	for (int g = 0, pos = start; pos < end; g++, pos += PF_KV_GROUP) {
		size_t inside = (size_t)(pos % a->block_tokens) * at->padded;
		k->keys[g] = (const pf_bf16 *)s->blocks[pos / a->block_tokens] + 2 * elements * head + inside;
		k->values[g] = (const pf_bf16 *)s->blocks[pos / a->block_tokens] + 2 * elements * head + elements +
		               pf_v_index(at->layout, pos % a->block_tokens, at->padded);
		k->value_stride[g] = pf_v_stride(at->layout, pos % a->block_tokens, a->block_tokens);
	}
}

// see_keys sets which keys of the tile at start the rows see, the first being row `row` of the
// segment; it returns 0 when there are none.
static int see_keys(const attention *at, const pf_segment *s, int row, int start, pf_attention_rows *r, pf_attention_keys *k)
{
	int begin = s->pos + row / at->group, end = s->pos + (row + r->count - 1) / at->group;
	int low = pf_max(0, first_key(at->args, begin) - start);
	k->end = pf_min(at->ops->keys, key_end(at->args, s, end) - start);
	k->low = low;
	k->group = low / PF_KV_GROUP;
	if (low >= k->end)
		return 0;
	r->masked = key_end(at->args, s, begin) - start < k->end || first_key(at->args, end) - start > low / at->ops->step * at->ops->step ||
	            k->end % at->ops->step != 0;
	for (int i = 0; r->masked && i < PF_ROW_BLOCK; i++) {
		int pos = s->pos + (row + pf_min(i, r->count - 1)) / at->group;
		r->first[i] = first_key(at->args, pos) - start;
		r->last[i] = key_end(at->args, s, pos) - start;
	}
	return 1;
}

static void load_rows(const attention *at, const pf_segment *s, const task *t, int row, const pf_attention_rows *r)
{
	const pf_attention_args *a = at->args;
	const pf_bf16 *queries[PF_ROW_BLOCK];
	for (int i = 0; i < r->count; i++, row++)
		queries[i] = a->qkv + (size_t)(s->row + row / at->group) * a->qkv_stride +
		             (size_t)(t->head * at->group + row % at->group) * a->dim;
	at->ops->load(r, queries, a->dim);
	for (int i = 0; i < at->ops->block; i++)
		r->top[i] = PF_LOWEST_TOP;
	memset(r->out, 0, (size_t)at->ops->block * at->padded * sizeof *r->out);
	memset(r->total, 0, (size_t)at->ops->block * PF_MAX_LANES * sizeof *r->total);
}

static void store_rows(const attention *at, const pf_segment *s, const task *t, int row, const pf_attention_rows *r)
{
	const pf_attention_args *a = at->args;
	pf_bf16 *dst[PF_ROW_BLOCK];
	for (int i = 0; i < r->count; i++, row++)
		dst[i] = a->dst + (size_t)(s->row + row / at->group) * a->dst_stride +
		         (size_t)(t->head * at->group + row % at->group) * a->dim;
	at->ops->finish(dst, r, a->dim);
}

static void run_task(void *arg, int index, int thread)
{
	const attention *at = arg;
	const task *t = &at->tasks[index];
	const pf_segment *s = &at->args->segments[t->segment];
	int rows = pf_min(at->rows, s->rows * at->group - t->row), block = at->ops->block, tile = at->ops->keys;
	int blocks = pf_ceil(rows, block);
	for (int i = 0; i < blocks; i++) {
		pf_attention_rows r;
		set_block(at, thread, i, rows, &r);
		load_rows(at, s, t, t->row + i * block, &r);
	}
	int end = key_end(at->args, s, s->pos + (t->row + rows - 1) / at->group);
	if (at->ops->begin)
		at->ops->begin();
	for (int start = first_key(at->args, s->pos + t->row / at->group) / tile * tile; start < end; start += tile) {
		pf_attention_keys k;
		find_keys(at, s, t->head, start, pf_min(end, start + tile), &k);
		for (int i = 0; i < blocks; i++) {
			pf_attention_rows r;
			set_block(at, thread, i, rows, &r);
			if (see_keys(at, s, t->row + i * block, start, &r, &k))
				at->ops->attend(&r, &k);
		}
	}
	if (at->ops->end)
		at->ops->end();
	for (int i = 0; i < blocks; i++) {
		pf_attention_rows r;
		set_block(at, thread, i, rows, &r);
		store_rows(at, s, t, t->row + i * block, &r);
	}
}

// keys_of is about how many keys the task's rows see.
static int64_t keys_of(const attention *at, const task *t)
{
	const pf_segment *s = &at->args->segments[t->segment];
	int rows = pf_min(at->rows, s->rows * at->group - t->row);
	int pos = s->pos + (t->row + rows - 1) / at->group;
	return (int64_t)rows * (key_end(at->args, s, pos) - first_key(at->args, pos));
}

// next moves t on to the following task, and returns 0 after the last.
static int next(const attention *at, task *t)
{
	const pf_attention_args *a = at->args;
	t->row += at->rows;
	while (t->segment < a->segment_count && t->row >= a->segments[t->segment].rows * at->group) {
		t->row = 0;
		if (++t->head == a->kv_heads) {
			t->head = 0;
			t->segment++;
		}
	}
	return t->segment < a->segment_count;
}

// sort_tasks orders them by falling cost, to a class of 1/COST_CLASSES of the largest.
static void sort_tasks(const attention *at, const task *tasks, int count, task *sorted)
{
	int64_t largest = 1;
	int at_class[COST_CLASSES + 1] = {0};
	for (int i = 0; i < count; i++) {
		int64_t keys = keys_of(at, &tasks[i]);
		largest = keys > largest ? keys : largest;
	}
#define COST_CLASS(t) (COST_CLASSES - 1 - (int)(keys_of(at, t) * (COST_CLASSES - 1) / largest))
	for (int i = 0; i < count; i++)
		at_class[COST_CLASS(&tasks[i]) + 1]++;
	for (int c = 0; c < COST_CLASSES; c++)
		at_class[c + 1] += at_class[c];
	for (int i = 0; i < count; i++)
		sorted[at_class[COST_CLASS(&tasks[i])]++] = tasks[i];
#undef COST_CLASS
}

// rows_of_task is as many as the instruction set takes, or less where that leaves too few tasks for the threads: the fewer rows
// share a walk through the keys, the more often keys come from the outer caches.
static int rows_of_task(const attention *at)
{
	int rows = at->ops->blocks * at->ops->block, wanted = pf_pool_threads(at->pool) * TASKS_PER_THREAD;
	for (; rows > at->ops->block; rows -= at->ops->block) {
		int64_t tasks = 0;
		for (int i = 0; i < at->args->segment_count && tasks < wanted; i++)
			tasks += (int64_t)at->args->kv_heads * pf_ceil(at->args->segments[i].rows * at->group, rows);
		if (tasks >= wanted)
			break;
	}
	return rows;
}

void pf_attention(pf_pool *pool, pf_isa isa, const pf_attention_args *args)
{
	attention at = {
		.args = args,
		.ops = ops_of(isa),
		.pool = pool,
		.layout = pf_kv_layout_of(isa),
		.padded = pf_kv_padded(args->dim),
		.group = args->q_heads / args->kv_heads,
	};
	at.rows = rows_of_task(&at);
	// The list lies in the second half of the caller's scratch; a task's workspace is in the first.
	task *list = (task *)((char *)pf_pool_scratch(pool, 0) + PF_SCRATCH_BYTES / 2), *sorted = list + TASKS;
	_Static_assert(2 * TASKS * sizeof(task) <= PF_SCRATCH_BYTES / 2, "the task list fits");
	task t = {0, 0, -at.rows};
	at.tasks = sorted;
	for (int more = 1; more;) {
		int count = 0;
		while (count < TASKS && (more = next(&at, &t)))
			list[count++] = t;
		sort_tasks(&at, list, count, sorted);
		pf_parallel(pool, run_task, &at, count);
	}
}
