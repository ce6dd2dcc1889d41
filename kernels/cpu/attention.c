//go:build cgo && linux && amd64

// Attention: cuts the work into tasks of some rows of one KV head, orders them longest
// first so that the threads end together, and walks each task through the tiles of keys that its rows
// see. Segments of few rows that begin in the same blocks are a family, whose rows share tasks: they walk through the
// tiles that all of them see together, and then through those of each. Where rows of a block are interleaved, those of a
// segment move to blocks of their own in between.

#include "attention.h"

#include <string.h>

// A task is some rows from `row` on of one KV head of a family, of which segment is the first.
typedef struct task {
	int segment, head, row;
} task;

enum {
	TASKS = 1 << 16, // in one run of the pool
	TASKS_PER_THREAD = 4,
	COST_CLASSES = 256,
	MOST_ROWS = 12 * PF_ROW_BLOCK, // of a task
	MOST_FAMILY_DIM = 256,         // up to which there is room for a task's rows twice
};

// A run is rows [first, first+count) of a task, which are those of a segment from `row` on.
typedef struct run {
	const pf_segment *segment;
	int first, count, row;
} run;

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

static inline int most_rows(const attention *at) { return at->ops->blocks * at->ops->block; }

// can_join says that there may be families: behind a task's rows there is room for as many that have moved.
static inline int can_join(const attention *at)
{
	return at->padded <= MOST_FAMILY_DIM && !at->args->window && !at->args->both_ways;
}

// set_block sets a task's rows [row, end), or the first of them, in the thread's scratch; what they see is not set.
static void set_block(const attention *at, int thread, int row, int end, pf_attention_rows *r)
{
	size_t most = (size_t)most_rows(at) * (can_join(at) ? 2 : 1);
	float *scores = pf_pool_scratch(at->pool, thread);
	float *out = scores + PF_ROW_BLOCK * PF_KEY_TILE;
	float *total = out + most * at->padded;
	float *top = total + most * PF_MAX_LANES;
	char *queries = (char *)(top + most);
	r->count = pf_min(at->ops->block, end - row);
	r->padded = at->padded;
	r->cap = at->args->cap;
	r->inner = r->cap > 0 ? at->args->scale / r->cap : 0;
	r->scale = (r->cap > 0 ? 1 : at->args->scale) * 1.44269504088896341f;
	r->queries = queries + (size_t)row * at->padded * at->ops->operand;
	r->scores = scores;
	r->top = top + row;
	r->total = total + (size_t)row * PF_MAX_LANES;
	r->out = out + (size_t)row * at->padded;
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

// find_runs lists the runs of a task's rows, and returns how many there are.
static int find_runs(const attention *at, const task *t, int rows, run *runs)
{
	const pf_segment *s = &at->args->segments[t->segment];
	int count = 0, row = t->row;
	for (int first = 0; first < rows; s++) {
		int left = s->rows * at->group - row;
		if (left > 0) {
			runs[count] = (run){s, first, pf_min(left, rows - first), row};
			first += runs[count++].count;
		}
		row = pf_max(0, -left);
	}
	return count;
}

// row_offset is where a row of a run has its query, counted from a head's first, and its result.
static inline size_t row_offset(const attention *at, const task *t, const run *of, int row, size_t stride)
{
	int query = of->row + row - of->first;
	return (size_t)(of->segment->row + query / at->group) * stride + (size_t)(t->head * at->group + query % at->group) * at->args->dim;
}

static void load_rows(const attention *at, const task *t, const run *of, int row, const pf_attention_rows *r)
{
	const pf_bf16 *queries[PF_ROW_BLOCK];
	for (int i = 0; i < r->count; i++, row++) {
		for (; row >= of->first + of->count; of++)
			;
		queries[i] = at->args->qkv + row_offset(at, t, of, row, at->args->qkv_stride);
	}
	at->ops->load(r, queries, at->args->dim);
	for (int i = 0; i < at->ops->block; i++)
		r->top[i] = PF_LOWEST_TOP;
	memset(r->out, 0, (size_t)at->ops->block * at->padded * sizeof *r->out);
	memset(r->total, 0, (size_t)at->ops->block * PF_MAX_LANES * sizeof *r->total);
}

static void store_rows(const attention *at, const task *t, const run *of, int row, const pf_attention_rows *r)
{
	pf_bf16 *dst[PF_ROW_BLOCK];
	for (int i = 0; i < r->count; i++, row++) {
		for (; row >= of->first + of->count; of++)
			;
		dst[i] = at->args->dst + row_offset(at, t, of, row, at->args->dst_stride);
	}
	at->ops->finish(dst, r, at->args->dim);
}

// walk_shared takes a task's rows through the tiles of keys that all of its family see.
static void walk_shared(const attention *at, const task *t, int rows, int thread)
{
	const pf_segment *s = &at->args->segments[t->segment];
	int tile = at->ops->keys;
	for (int start = 0; start < s->shared; start += tile) {
		pf_attention_keys k = {.end = tile};
		find_keys(at, s, t->head, start, start + tile, &k);
		for (int row = 0; row < rows; row += at->ops->block) {
			pf_attention_rows r = {.masked = 0};
			set_block(at, thread, row, rows, &r);
			at->ops->attend(&r, &k);
		}
	}
}

// walk takes a run of a task's rows, the first of which is at row `place`, through the tiles that they see from position `from` on.
static void walk(const attention *at, const task *t, const run *of, int place, int from, int thread)
{
	const pf_segment *s = of->segment;
	int tile = at->ops->keys, last = of->row + of->count - 1;
	int end = key_end(at->args, s, s->pos + last / at->group);
	int begin = pf_max(from, first_key(at->args, s->pos + of->row / at->group) / tile * tile);
	for (int start = begin; start < end; start += tile) {
		pf_attention_keys k;
		find_keys(at, s, t->head, start, pf_min(end, start + tile), &k);
		for (int row = 0; row < of->count; row += at->ops->block) {
			pf_attention_rows r;
			set_block(at, thread, place + row, place + of->count, &r);
			if (see_keys(at, s, of->row + row, start, &r, &k))
				at->ops->attend(&r, &k);
		}
	}
}

// walk_apart takes a run's rows through the tiles that not all of the family see in blocks of their own, where they go on with
// the sums they have, and stores them.
static void walk_apart(const attention *at, const task *t, const run *of, int from, int thread)
{
	int room = most_rows(at), block = at->ops->block;
	for (int row = 0; row < of->count; row += block) {
		pf_attention_rows r, before;
		set_block(at, thread, room + row, room + of->count, &r);
		load_rows(at, t, of, of->first + row, &r);
		for (int i = 0; i < r.count; i++) {
			int old = of->first + row + i;
			set_block(at, thread, old / block * block, room, &before);
			at->ops->move(&r, i, &before, old % block);
		}
	}
	walk(at, t, of, room, from, thread);
	for (int row = 0; row < of->count; row += block) {
		pf_attention_rows r;
		set_block(at, thread, room + row, room + of->count, &r);
		store_rows(at, t, of, of->first + row, &r);
	}
}

static void run_task(void *arg, int index, int thread)
{
	const attention *at = arg;
	const task *t = &at->tasks[index];
	const pf_segment *s = &at->args->segments[t->segment];
	int rows = pf_min(at->rows, s->family_rows * at->group - t->row);
	run runs[MOST_ROWS];
	int count = find_runs(at, t, rows, runs), apart = count > 1 && at->ops->move;
	for (int row = 0; row < rows; row += at->ops->block) {
		pf_attention_rows r;
		set_block(at, thread, row, rows, &r);
		load_rows(at, t, runs, row, &r);
	}
	if (at->ops->begin)
		at->ops->begin();
	walk_shared(at, t, rows, thread);
	for (int i = 0; i < count; i++) {
		if (apart)
			walk_apart(at, t, &runs[i], s->shared, thread);
		else
			walk(at, t, &runs[i], runs[i].first, s->shared, thread);
	}
	if (at->ops->end)
		at->ops->end();
	for (int row = 0; row < rows && !apart; row += at->ops->block) {
		pf_attention_rows r;
		set_block(at, thread, row, rows, &r);
		store_rows(at, t, runs, row, &r);
	}
}

// keys_of is about how many keys the task's rows see.
static int64_t keys_of(const attention *at, const task *t)
{
	const pf_segment *s = &at->args->segments[t->segment];
	int rows = pf_min(at->rows, s->family_rows * at->group - t->row);
	int pos = s->pos + pf_min(s->rows - 1, (t->row + rows - 1) / at->group);
	return (int64_t)rows * (key_end(at->args, s, pos) - first_key(at->args, pos));
}

// next moves t on to the following task, and returns 0 after the last.
static int next(const attention *at, task *t)
{
	const pf_attention_args *a = at->args;
	t->row += at->rows;
	while (t->segment < a->segment_count && t->row >= a->segments[t->segment].family_rows * at->group) {
		t->row = 0;
		if (++t->head == a->kv_heads) {
			t->head = 0;
			t->segment += a->segments[t->segment].family;
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
	int rows = most_rows(at), wanted = pf_pool_threads(at->pool) * TASKS_PER_THREAD;
	for (; rows > at->ops->block; rows -= at->ops->block) {
		int64_t tasks = 0;
		const pf_segment *s = at->args->segments;
		for (int i = 0; i < at->args->segment_count && tasks < wanted; i += s[i].family)
			tasks += (int64_t)at->args->kv_heads * pf_ceil(s[i].family_rows * at->group, rows);
		if (tasks >= wanted)
			break;
	}
	return rows;
}

// shared is how many leading positions, in whole tiles, all rows of both segments see in the same blocks.
static int shared(const attention *at, const pf_segment *s, const pf_segment *o)
{
	int tokens = at->args->block_tokens, most = pf_min(s->pos, o->pos), same = 0;
	while (same < most && s->blocks[same / tokens] == o->blocks[same / tokens])
		same += tokens;
	return pf_min(same, most) / at->ops->keys * at->ops->keys;
}

// find_families joins segments that do not fill a task and share no less than those before them do.
static void find_families(const attention *at)
{
	const pf_attention_args *a = at->args;
	int joins = can_join(at), most = most_rows(at) / at->group;
	pf_segment *first = a->segments;
	for (pf_segment *s = a->segments; s < a->segments + a->segment_count; s++) {
		int same = joins && s > first && first->rows < most && s->rows < most ? shared(at, first, s) : 0;
		if (same == 0 || (first->family > 1 && same < first->shared)) {
			first = s;
			first->family = first->family_rows = first->shared = 0;
		} else if (first->family == 1) {
			first->shared = same;
		}
		first->family++;
		first->family_rows += s->rows;
	}
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
	find_families(&at);
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
