/* CUDA's execution model on one CPU thread, enough to run elementwise kernels from their own source:
   blocks run one after another, the threads of a block are fibers that give way at barriers and
   shuffles. Which warp goes on, and the order of its lanes, is drawn each time, so that a missing
   barrier shows.

   Every lane of a warp must meet the same barriers and shuffles, and end together, which is stricter
   than CUDA is about the end. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#define __device__
#define __shared__ static thread_local

struct dim3 {
    unsigned x, y, z;
};
static thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace simt {

#ifdef __x86_64__
/* A suspended fiber is its stack pointer; the registers that calls preserve are on its stack. */
typedef void *context;
extern "C" void simt_switch(context *save, context load);
__asm__(".text\n.type simt_switch,@function\nsimt_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size simt_switch, .-simt_switch\n");

static inline void switch_context(context *save, context *load) { simt_switch(save, *load); }

static inline void make_context(context *c, char *stack, size_t bytes, void (*entry)())
{
    void **top = (void **)((uintptr_t)(stack + bytes) & ~(uintptr_t)15);
    top[-2] = (void *)entry;
    *c = top - 8;
}
#else
typedef ucontext_t context;

static inline void switch_context(context *save, context *load) { swapcontext(save, load); }

static inline void make_context(context *c, char *stack, size_t bytes, void (*entry)())
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = bytes;
    c->uc_link = nullptr;
    makecontext(c, entry, 0);
}
#endif

struct fiber {
    std::vector<char> stack;
    context self;
    bool done;
};

static thread_local std::vector<fiber> fibers;
static thread_local context scheduler;
static thread_local unsigned current;
static thread_local std::function<void()> kernel;

/* What lanes offer each other, by the parity of the shuffle: the next shuffle writes to the other half,
   and the one after it comes only when all have read. */
static thread_local uint32_t exchanged[2][1024];
static thread_local unsigned parity[1024];

/* Whether the lanes that gave way last did so at a barrier. */
static thread_local bool at_barrier;

static inline void give_way(bool barrier)
{
    at_barrier = barrier;
    switch_context(&fibers[current].self, &scheduler);
}

/* A fiber's life: one block's thread after another. */
static void enter()
{
    for (;;) {
        kernel();
        fibers[current].done = true;
        give_way(false);
    }
}

/* Runs fiber t until it gives way. */
static inline void resume(unsigned t)
{
    current = t;
    switch_context(&scheduler, &fibers[t].self);
}

static inline void create(unsigned t)
{
    fiber &f = fibers[t];
    f.stack.resize(64 << 10);
    make_context(&f.self, f.stack.data(), f.stack.size(), enter);
}

/* A warp's lanes run up to their next shuffle or barrier together; warps run apart up to barriers. */
struct warp {
    std::vector<unsigned> lanes; /* that have not ended */
    bool waits;                  /* at a barrier */
};

static inline void step(warp &w, std::minstd_rand &order)
{
    std::swap(w.lanes[order() % w.lanes.size()], w.lanes[order() % w.lanes.size()]);
    for (unsigned t : w.lanes) {
        threadIdx = {t, 0, 0};
        resume(t);
    }
    w.waits = at_barrier;
    if (fibers[w.lanes[0]].done)
        w.lanes.clear();
}

static inline void run_block(unsigned threads, std::minstd_rand &order)
{
    static thread_local std::vector<warp> warps;
    warps.assign((threads + 31) / 32, {});
    for (unsigned t = 0; t < threads; t++) {
        warps[t / 32].lanes.push_back(t);
        fibers[t].done = false;
    }
    for (warp &w : warps)
        std::shuffle(w.lanes.begin(), w.lanes.end(), order);
    for (;;) {
        unsigned first = order() % warps.size(), tried = 0;
        for (; tried < warps.size(); tried++) {
            warp &w = warps[(first + tried) % warps.size()];
            if (!w.lanes.empty() && !w.waits) {
                step(w, order);
                break;
            }
        }
        if (tried < warps.size())
            continue;
        bool live = false; /* every warp has ended or waits: the barrier opens */
        for (warp &w : warps) {
            w.waits = false;
            live |= !w.lanes.empty();
        }
        if (!live)
            return;
    }
}

/* Runs k over a grid of (x, y) blocks of so many threads each. */
static inline void launch(unsigned x, unsigned y, unsigned threads, std::function<void()> k)
{
    static thread_local std::minstd_rand order; /* each launch goes another way, each run of a test the same */
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

static inline void __syncthreads() { simt::give_way(true); }

/* The value of v in the lane that differs by mask. */
template <class T>
static inline T __shfl_xor_sync(uint32_t, T v, int mask)
{
    static_assert(sizeof v == 4, "one word");
    unsigned me = simt::current;
    uint32_t *offered = simt::exchanged[simt::parity[me]++ & 1];
    memcpy(&offered[me], &v, 4);
    simt::give_way(false);
    T other;
    memcpy(&other, &offered[(me & ~31u) | ((me ^ (unsigned)mask) & 31u)], 4);
    return other;
}

/* sum and the products of four int8 in a word each. */
static inline int __dp4a(int a, int b, int sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (int8_t)(a >> i) * (int8_t)(b >> i);
    return sum;
}

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

/* Of each step's own rounding: the target of this shim has no instruction that joins them. */
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }

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
