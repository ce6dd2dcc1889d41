/* CUDA's execution model on one CPU thread, enough to run elementwise kernels from their own source:
   blocks run one after another, the threads of a block are fibers that give way at barriers and
   shuffles. The order in which they run drifts from round to round, so that a missing barrier shows.

   Every thread of a block must meet the same barriers and shuffles, which is also what CUDA asks. */
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __shared__ static

struct dim3 {
    unsigned x, y, z;
};
static thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace simt {

struct fiber {
    std::vector<char> stack;
    jmp_buf resume;
    bool done;
};

static thread_local std::vector<fiber> fibers;
static thread_local ucontext_t scheduler_context;
static thread_local jmp_buf scheduler;
static thread_local unsigned current;
static thread_local std::function<void()> kernel;
static thread_local uint32_t exchanged[1024];

/* Fibers switch by _setjmp and _longjmp, which make no system call; makecontext only gives each its stack. */
static inline void give_way()
{
    if (!_setjmp(fibers[current].resume))
        _longjmp(scheduler, 1);
}

/* A fiber's life: one block's thread after another. */
static void enter()
{
    for (;;) {
        give_way();
        kernel();
        fibers[current].done = true;
    }
}

/* Runs fiber t until it gives way. */
static inline void resume(unsigned t)
{
    current = t;
    if (!_setjmp(scheduler))
        _longjmp(fibers[t].resume, 1);
}

static inline void create(unsigned t)
{
    fiber &f = fibers[t];
    f.stack.resize(64 << 10);
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = f.stack.data();
    context.uc_stack.ss_size = f.stack.size();
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
    current = t;
    if (!_setjmp(scheduler))
        swapcontext(&scheduler_context, &context);
}

static inline void run_block(unsigned threads, std::minstd_rand &order)
{
    std::vector<unsigned> turns(threads);
    for (unsigned t = 0; t < threads; t++) {
        turns[t] = t;
        fibers[t].done = false;
    }
    for (bool live = true; live;) {
        live = false;
        std::swap(turns[order() % threads], turns[order() % threads]);
        for (unsigned t : turns) {
            if (fibers[t].done)
                continue;
            live = true;
            threadIdx = {t, 0, 0};
            resume(t);
        }
    }
}

/* Runs k over a grid of (x, y) blocks of so many threads each. */
static inline void launch(unsigned x, unsigned y, unsigned threads, std::function<void()> k)
{
    std::minstd_rand order(x * 31 + y * 7 + threads);
    gridDim = {x, y, 1};
    blockDim = {threads, 1, 1};
    kernel = k;
    if (fibers.size() < threads) {
        fibers = std::vector<fiber>(1024);
        for (unsigned t = 0; t < 1024; t++)
            create(t);
    }
    for (unsigned j = 0; j < y; j++)
        for (unsigned i = 0; i < x; i++) {
            blockIdx = {i, j, 0};
            run_block(threads, order);
        }
}

}

static inline void __syncthreads() { simt::give_way(); }

/* The value of v in the lane that differs by mask. */
static inline float __shfl_xor_sync(uint32_t, float v, int mask)
{
    unsigned me = simt::current;
    memcpy(&simt::exchanged[me], &v, 4);
    simt::give_way();
    float other;
    memcpy(&other, &simt::exchanged[(me & ~31u) | ((me ^ (unsigned)mask) & 31u)], 4);
    simt::give_way();
    return other;
}

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

static inline uint32_t __float_as_uint(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float __uint_as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

struct __nv_bfloat16 {
    uint16_t bits;
};

static inline float __bfloat162float(__nv_bfloat16 v) { return __uint_as_float((uint32_t)v.bits << 16); }

/* Round to nearest even; NaN stays NaN. */
static inline __nv_bfloat16 __float2bfloat16(float f)
{
    uint32_t u = __float_as_uint(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return {(uint16_t)(u >> 16 | 0x40)};
    return {(uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
