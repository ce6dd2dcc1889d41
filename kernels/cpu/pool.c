//go:build cgo && linux && amd64

// The thread pool. A job is published as one 64-bit ticket (generation, next task); a task is taken
// by a compare-and-swap of the whole ticket, so that a worker that wakes late can neither take a task
// of a job it has not seen nor hold up one that is over.

#include "prefillonly_kernels.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLOSED = 0x7fffffff }; // next task of a ticket from which none may be taken
enum { SPIN_NANOSECONDS = 50000 };

typedef struct worker {
	pf_pool *pool;
	pthread_t thread;
	int index;
} worker;

struct pf_pool {
	// guarded by the ticket's generation: written only while it is closed
	_Atomic(pf_task) fn;
	_Atomic(void *) arg;
	_Atomic int tasks;

	_Alignas(64) _Atomic uint64_t ticket; // generation << 32 | next task
	_Alignas(64) _Atomic uint32_t done;   // tasks ended; a futex on which the caller sleeps
	_Atomic uint32_t caller_sleeps;
	_Alignas(64) _Atomic uint32_t wake; // rises with every job; a futex on which workers sleep
	_Atomic uint32_t sleepers;
	_Atomic int stop;

	// set once
	_Alignas(64) int threads;
	int started; // workers running
	worker *workers;
	char *scratch;

	// owned by the calling thread
	void *shared;
	size_t shared_bytes;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// spin_changed waits a short while for *word to differ from value.
static int spin_changed(_Atomic uint32_t *word, uint32_t value)
{
	int64_t end = now() + SPIN_NANOSECONDS;
	do {
		for (int i = 0; i < 64; i++) {
			if (atomic_load_explicit(word, memory_order_acquire) != value)
				return 1;
			__builtin_ia32_pause();
		}
	} while (now() < end);
	return 0;
}

// work runs tasks of the current job until none is left.
static void work(pf_pool *p, int thread)
{
	for (;;) {
		uint64_t ticket = atomic_load_explicit(&p->ticket, memory_order_acquire);
		pf_task fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
		void *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
		int tasks = atomic_load_explicit(&p->tasks, memory_order_relaxed);
		int task = (int)(ticket & 0xffffffff);
		if (task >= tasks)
			return;
		// Success means that the job read above is the one open now.
		if (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket + 1))
			continue;
		fn(arg, task, thread);
		if (atomic_fetch_add(&p->done, 1) + 1 == (uint32_t)tasks && atomic_load(&p->caller_sleeps))
			futex_wake(&p->done, 1);
	}
}

static void *worker_main(void *arg)
{
	worker *w = arg;
	pf_pool *p = w->pool;
	uint32_t seen = 0;
	for (;;) {
		if (!spin_changed(&p->wake, seen)) {
			atomic_fetch_add(&p->sleepers, 1);
			while (atomic_load(&p->wake) == seen)
				futex_wait(&p->wake, seen);
			atomic_fetch_sub(&p->sleepers, 1);
		}
		seen = atomic_load(&p->wake);
		if (atomic_load(&p->stop))
			return NULL;
		work(p, w->index);
	}
}

static void wait_done(pf_pool *p, uint32_t tasks)
{
	for (;;) {
		uint32_t done = atomic_load_explicit(&p->done, memory_order_acquire);
		if (done == tasks)
			return;
		if (spin_changed(&p->done, done))
			continue;
		atomic_store(&p->caller_sleeps, 1);
		while ((done = atomic_load(&p->done)) != tasks)
			futex_wait(&p->done, done);
		atomic_store(&p->caller_sleeps, 0);
		return;
	}
}

void pf_parallel(pf_pool *p, pf_task fn, void *arg, int tasks)
{
	if (tasks <= 0)
		return;
	if (tasks == 1 || p->threads == 1) {
		for (int i = 0; i < tasks; i++)
			fn(arg, i, 0);
		return;
	}
	uint64_t generation = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
	atomic_store(&p->ticket, generation << 32 | CLOSED);
	atomic_store(&p->fn, fn);
	atomic_store(&p->arg, arg);
	atomic_store(&p->tasks, tasks);
	atomic_store(&p->done, 0);
	atomic_store(&p->ticket, (generation + 1) << 32);
	atomic_fetch_add(&p->wake, 1);
	if (atomic_load(&p->sleepers))
		futex_wake(&p->wake, p->threads - 1);
	work(p, 0);
	wait_done(p, (uint32_t)tasks);
}

typedef struct copying {
	char *dst;
	const char *src;
	size_t bytes;
} copying;

enum { COPIED = 64 << 10 }; // bytes of a task

static void copy_task(void *arg, int task, int thread)
{
	(void)thread;
	const copying *c = arg;
	size_t from = (size_t)task * COPIED, left = c->bytes - from;
	memcpy(c->dst + from, c->src + from, left < COPIED ? left : COPIED);
}

void pf_copy(pf_pool *p, void *dst, const void *src, size_t bytes)
{
	copying c = {dst, src, bytes};
	pf_parallel(p, copy_task, &c, (int)((bytes + COPIED - 1) / COPIED));
}

static void *map_pages(size_t bytes)
{
	void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return m == MAP_FAILED ? NULL : m;
}

// start_workers blocks all signals in the workers: they are for the Go runtime's threads.
static int start_workers(pf_pool *p)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (int i = 1; i < p->threads; i++) {
		p->workers[i] = (worker){.pool = p, .index = i};
		if (pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]))
			break;
		p->started++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return p->started == p->threads - 1;
}

pf_pool *pf_pool_new(int threads)
{
	pf_pool *p = aligned_alloc(64, sizeof *p);
	if (!p)
		return NULL;
	memset(p, 0, sizeof *p);
	p->threads = threads;
	p->workers = calloc((size_t)threads, sizeof *p->workers);
	p->scratch = map_pages((size_t)threads * PF_SCRATCH_BYTES);
	if (!p->workers || !p->scratch) {
		pf_pool_free(p);
		return NULL;
	}
	if (!start_workers(p)) {
		pf_pool_free(p);
		return NULL;
	}
	return p;
}

void pf_pool_free(pf_pool *p)
{
	atomic_store(&p->stop, 1);
	atomic_fetch_add(&p->wake, 1);
	futex_wake(&p->wake, p->threads);
	for (int i = 1; i <= p->started; i++)
		pthread_join(p->workers[i].thread, NULL);
	free(p->workers);
	if (p->scratch)
		munmap(p->scratch, (size_t)p->threads * PF_SCRATCH_BYTES);
	if (p->shared)
		munmap(p->shared, p->shared_bytes);
	free(p);
}

int pf_pool_threads(const pf_pool *p) { return p->threads; }

void *pf_pool_scratch(pf_pool *p, int thread) { return p->scratch + (size_t)thread * PF_SCRATCH_BYTES; }

void *pf_pool_shared(pf_pool *p, size_t bytes)
{
	if (bytes > p->shared_bytes) {
		if (p->shared)
			munmap(p->shared, p->shared_bytes);
		p->shared = map_pages(bytes);
		p->shared_bytes = p->shared ? bytes : 0;
		if (p->shared)
			madvise(p->shared, bytes, MADV_HUGEPAGE); // slower without, not wrong
	}
	return p->shared;
}
