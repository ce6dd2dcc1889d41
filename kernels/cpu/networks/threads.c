//go:build cgo && linux && amd64

// How tasks run: on which threads, and in which mode of their arithmetic.

#include "internal.h"

#include <immintrin.h>

void pn_run(const pn_device *d, pn_task task, void *arg, int tasks, double work)
{
	enum { WAKE_NANOSECONDS = 4000 };
	if (work >= WAKE_NANOSECONDS) {
		d->threads.parallel(d->threads.pool, task, arg, tasks);
		return;
	}
	for (int i = 0; i < tasks; i++)
		task(arg, i, 0);
}

// flushing is a task that takes numbers below the normal range for 0.
typedef struct flushing {
	pn_task task;
	void *arg;
} flushing;

static void flushing_task(void *arg, int task, int thread)
{
	enum { FLUSH_RESULTS = 0x8000, FLUSH_OPERANDS = 0x40 };
	const flushing *f = arg;
	unsigned before = _mm_getcsr();
	_mm_setcsr(before | FLUSH_RESULTS | FLUSH_OPERANDS);
	f->task(f->arg, task, thread);
	_mm_setcsr(before);
}

void pn_run_flushing(const pn_device *d, pn_task task, void *arg, int tasks, double work)
{
	flushing f = {task, arg};
	pn_run(d, flushing_task, &f, tasks, work);
}
