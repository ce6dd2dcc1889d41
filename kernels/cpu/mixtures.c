// Rows of the residual stream on their way to experts and back. A list names each row once, so that tasks write to different ones.

#include "internal.h"

#include <string.h>

// Rows of a task.
enum { ROWS = 16 };

typedef struct listed {
	const pf_rows *some, *all;
	const int32_t *rows; // of all, one for each of some
	const float *scale;
} listed;

static void pick_task(void *arg, int task, int thread)
{
	(void)thread;
	const listed *l = arg;
	for (int r = task * ROWS; r < pf_min(l->some->rows, (task + 1) * ROWS); r++)
		memcpy(l->some->x + r * l->some->stride, l->all->x + l->rows[r] * l->all->stride, (size_t)l->all->cols * sizeof(float));
}

void pf_pick_rows(pf_pool *pool, const pf_rows *dst, const pf_rows *x, const int32_t *rows)
{
	pf_parallel(pool, pick_task, &(listed){dst, x, rows, NULL}, pf_ceil(dst->rows, ROWS));
}

static void add_scaled_task(void *arg, int task, int thread)
{
	(void)thread;
	const listed *l = arg;
	for (int r = task * ROWS; r < pf_min(l->some->rows, (task + 1) * ROWS); r++) {
		float *restrict x = l->all->x + l->rows[r] * l->all->stride;
		const float *restrict src = l->some->x + r * l->some->stride;
		float scale = l->scale[r];
		for (int i = 0; i < l->all->cols; i++)
			x[i] += scale * src[i];
	}
}

void pf_add_scaled_rows(pf_pool *pool, const pf_rows *x, const pf_rows *src, const int32_t *rows, const float *scale)
{
	pf_parallel(pool, add_scaled_task, &(listed){src, x, rows, scale}, pf_ceil(src->rows, ROWS));
}
