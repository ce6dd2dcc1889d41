//go:build cgo && linux && amd64

package networks

/*
#cgo CFLAGS: -std=gnu11 -O3 -Wall -Wextra
#cgo LDFLAGS: -lm
#include <stdlib.h>
#include "networks.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// Threads is a pool of threads in C: what networks.h says of pn_threads.
type Threads struct {
	Pool                      unsafe.Pointer
	Count                     int
	Parallel, Scratch, Shared unsafe.Pointer // functions
}

// Memory is a buffer that the processor reads and writes.
type Memory interface {
	kernels.Buffer
	At(off int64) unsafe.Pointer
}

// Networks has the methods that kernels.Networks adds to a Backend. One goroutine calls it at a time.
type Networks struct {
	device C.pn_device
	alloc  func(bytes int64) (kernels.Buffer, error)
	report func(error)

	// Arguments of the call that runs.
	convolution C.pn_convolution
	pool        C.pn_pool
	product     C.pn_product
	images      [C.PN_MAX_OPERANDS]C.pn_image
	also        [C.PN_MAX_OPERANDS]C.int64_t
	tensors     [C.PN_MAX_OPERANDS + 1]C.pn_tensor
	shape       [C.PN_MAX_DIMS]C.int64_t
	strides     [6]C.ptrdiff_t
}

// New makes networks on the threads of a backend: wide says whether they have AVX-512. alloc makes buffers
// that are a Memory; report hears of malformed calls.
func New(t Threads, wide bool, alloc func(bytes int64) (kernels.Buffer, error), report func(error)) (*Networks, error) {
	n := &Networks{alloc: alloc, report: report}
	n.device.threads = C.pn_threads{
		pool: t.Pool, count: C.int(t.Count),
		parallel: (*[0]byte)(t.Parallel), scratch: (*[0]byte)(t.Scratch), shared: (*[0]byte)(t.Shared),
	}
	n.device.kernels = &C.pn_kernels_avx2
	if wide {
		n.device.kernels = &C.pn_kernels_avx512
	}
	if n.device.program = C.pn_program_new(); n.device.program == nil {
		return nil, fmt.Errorf("cannot allocate programs")
	}
	return n, nil
}

// Free gives back what New took.
func (n *Networks) Free() {
	C.free(unsafe.Pointer(n.device.program))
	n.device.program = nil
}

// ok reports err, if there is one.
func (n *Networks) ok(err error) bool {
	if err != nil {
		n.report(err)
	}
	return err == nil
}

// memory checks the result of an operation that needs memory for intermediates.
func (n *Networks) memory(op string, code C.int) {
	if code != 0 {
		n.report(fmt.Errorf("%s: cannot allocate intermediates", op))
	}
}

func at(t kernels.Tensor) *C.float { return (*C.float)(t.Buf.(Memory).At(t.Off)) }

// fits says whether p and so many operands have room in the arguments.
func fits(p *kernels.Program, operands int) error {
	if len(p.Code) > C.PN_MAX_INSTRUCTIONS || operands > C.PN_MAX_OPERANDS {
		return fmt.Errorf("program has %d instructions, want at most %d, and %d operands, want at most %d", len(p.Code), C.PN_MAX_INSTRUCTIONS, operands, C.PN_MAX_OPERANDS)
	}
	return nil
}

// code is a program's first instruction. C reads instructions as Go lays them out.
func code(p *kernels.Program) (*C.pn_instruction, C.int) {
	if p == nil {
		return nil, 0
	}
	return (*C.pn_instruction)(unsafe.Pointer(unsafe.SliceData(p.Code))), C.int(len(p.Code))
}

// The lengths are negative, and the build fails, where the two differ.
var (
	_ [unsafe.Sizeof(C.pn_instruction{}) - unsafe.Sizeof(kernels.Instruction{})]struct{}
	_ [unsafe.Sizeof(kernels.Instruction{}) - unsafe.Sizeof(C.pn_instruction{})]struct{}
	_ [unsafe.Offsetof(C.pn_instruction{}.x) - unsafe.Offsetof(kernels.Instruction{}.X)]struct{}
	_ [unsafe.Offsetof(kernels.Instruction{}.X) - unsafe.Offsetof(C.pn_instruction{}.x)]struct{}
)

// setTensors sets the arguments of an operation on tensors that have the dimensions dims of shape in common.
func (n *Networks) setTensors(shape []int, dims []int, tensors ...kernels.Tensor) {
	for i, d := range dims {
		n.shape[i] = C.int64_t(shape[d])
	}
	for i, t := range tensors {
		n.tensors[i].at = at(t)
		for j, d := range dims {
			n.tensors[i].stride[j] = C.ptrdiff_t(t.Stride[d])
		}
	}
}
