// Sums over several ranks. Rows are independent, and each element is summed in the order of the parts,
// so that threads do not matter.

#include "internal.h"

#include <string.h>

// Rows of a task.
enum { ROWS = 16 };

typedef struct sum {
	const pf_rows *x;
	const float *const *parts;
	const size_t *strides;
	int count, add;
} sum;

static void sum_task(void *arg, int task, int thread)
{
	(void)thread;
	const sum *s = arg;
	for (int r = task * ROWS; r < pf_min(s->x->rows, (task + 1) * ROWS); r++) {
		float *x = s->x->x + (size_t)r * s->x->stride;
		for (int i = 0; i < s->x->cols; i++) {
			float total = s->parts[0][(size_t)r * s->strides[0] + i];
			for (int p = 1; p < s->count; p++)
				total += s->parts[p][(size_t)r * s->strides[p] + i];
			x[i] = s->add ? x[i] + total : total;
		}
	}
}

void pf_sum(pf_pool *pool, const pf_rows *x, const float *const *parts, const size_t *strides, int count, int add)
{
	pf_parallel(pool, sum_task, &(sum){x, parts, strides, count, add}, pf_ceil(x->rows, ROWS));
}

static void clear_task(void *arg, int task, int thread)
{
	(void)thread;
	const pf_rows *x = arg;
	for (int r = task * ROWS; r < pf_min(x->rows, (task + 1) * ROWS); r++)
		memset(x->x + (size_t)r * x->stride, 0, (size_t)x->cols * sizeof *x->x);
}

void pf_clear(pf_pool *pool, const pf_rows *x)
{
	pf_parallel(pool, clear_task, (void *)x, pf_ceil(x->rows, ROWS));
}
