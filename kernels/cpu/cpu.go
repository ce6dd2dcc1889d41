//go:build cgo && linux && amd64

package cpu

/*
#cgo CFLAGS: -std=gnu11 -O3 -Wall -Wextra
#cgo amx_emulated CFLAGS: -DPF_AMX_EMULATED
#cgo vnni_emulated CFLAGS: -DPF_INT8_EMULATED=pf_ops_int8_avx_vnni -Wno-psabi
#cgo vnni512_emulated CFLAGS: -DPF_INT8_EMULATED=pf_ops_int8_avx512_vnni -Wno-psabi
#cgo amx_int8_emulated CFLAGS: -DPF_INT8_EMULATED=pf_ops_int8_amx -DPF_AMX_EMULATED -Wno-psabi
#cgo LDFLAGS: -lpthread -lm
#include "prefillonly_kernels.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu/networks"
)

// Backend is a kernels.Backend on this machine's cores.
type Backend struct {
	*networks.Networks

	pool *C.pf_pool
	isa  C.pf_isa
	err  error // first since the last Sync

	populator *populator

	products C.pf_isa // of matrix products and of norms, isa or one below it

	segments segmentArena
	lowRank  lowRankMemory
}

var (
	_ kernels.Networks  = (*Backend)(nil)
	_ kernels.Populator = (*Backend)(nil)
)

// New makes a backend. It fails when the machine lacks AVX2, FMA and F16C, or the instruction set
// that config asks for.
func New(config Config) (*Backend, error) {
	best := C.pf_isa_detect()
	if best == C.PF_NONE {
		return nil, fmt.Errorf("kernels/cpu: this processor has no AVX2, FMA and F16C; use the reference backend")
	}
	isa, products := best, C.pf_isa_products(best)
	if config.ISA != "" {
		index := isaIndex(config.ISA)
		if index < 0 {
			return nil, fmt.Errorf("kernels/cpu: unknown instruction set %q; known: %v", config.ISA, ISAs)
		}
		isa = C.pf_isa(index)
		products = isa
	}
	if isa > best {
		return nil, fmt.Errorf("kernels/cpu: this processor has no %s, only %s", config.ISA, ISAs[best])
	}
	threads := config.Threads
	if threads <= 0 {
		threads = DefaultThreads()
	}
	pool := C.pf_pool_new(C.int(threads))
	if pool == nil {
		return nil, fmt.Errorf("kernels/cpu: cannot start %d threads", threads)
	}
	b := &Backend{pool: pool, isa: isa, products: products}
	var err error
	b.Networks, err = networks.New(networks.Threads{
		Pool: unsafe.Pointer(pool), Count: threads,
		Parallel: C.pf_parallel, Scratch: C.pf_pool_scratch, Shared: C.pf_pool_shared,
	}, isa >= C.PF_AVX512, b.Alloc, func(err error) { b.fail("%w", err) })
	if err != nil {
		C.pf_pool_free(pool)
		return nil, fmt.Errorf("kernels/cpu: %w", err)
	}
	b.populator = newPopulator()
	return b, nil
}

// Name is "cpu" and the instruction set, and that of products if it is another.
func (b *Backend) Name() string {
	if b.products != b.isa {
		return "cpu " + ISAs[b.isa] + " with products of " + ISAs[b.products]
	}
	return "cpu " + ISAs[b.isa]
}

// ActType is bfloat16.
func (b *Backend) ActType() kernels.DType { return kernels.BF16 }

// Threads is the number of threads that compute, the caller's included.
func (b *Backend) Threads() int { return int(C.pf_pool_threads(b.pool)) }

// Close stops the threads. Buffers and matrices of the backend stay valid until freed.
func (b *Backend) Close() {
	b.populator.close()
	C.pf_pool_free(b.pool)
	b.pool = nil
	b.segments.free()
	b.lowRank.free()
	b.Networks.Free()
}

// Sync returns the first error since the last Sync; every call has taken effect when it returns.
func (b *Backend) Sync() error {
	err := b.err
	b.err = nil
	return err
}

func (b *Backend) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("kernels/cpu: "+format, args...)
	}
}

// check records the failure of a C operation, which is always want of memory.
func (b *Backend) check(op string, code C.int) {
	if code != 0 {
		b.fail("%s: cannot allocate intermediates", op)
	}
}

// ScratchBytes bounds the memory for intermediates: packed activations, and each thread's scratch.
func (b *Backend) ScratchBytes(rows, maxIn, maxOut int, _ kernels.LargestCodes) int64 {
	shared := C.pf_shared_bytes(b.products, C.int(rows), C.int(maxIn), C.int(maxOut))
	return int64(shared) + int64(b.Threads())*C.PF_SCRATCH_BYTES
}

// DefaultThreads is one for each core that the process may use. GOMAXPROCS follows the affinity mask
// and the cgroup's quota; hyper-threads of one core count once, since they share its vector units.
func DefaultThreads() int {
	return max(1, min(runtime.GOMAXPROCS(0), physicalCores()))
}
