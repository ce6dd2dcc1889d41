// Package cublas multiplies matrices on the current CUDA context by cuBLASLt, opened at run time, such
// that the bits of a row do not depend on how many rows there are.
// It is apart because it is cgo that a test runs without a GPU, with a library of the same interface.
package cublas

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "blas.h"
import "C"

import (
	"errors"
	"unsafe"
)

// Library is an open cuBLASLt with the algorithms chosen so far. One goroutine uses it at a time, on a
// thread with the context current.
type Library struct{ c *C.pf_blas }

// Operands are what a product multiplies.
type Operands int

// The types of A and W.
const (
	BFloat16 Operands = C.PF_BFLOAT16
	FP8      Operands = C.PF_FP8 // E4M3; N, K, strides and addresses are multiples of 16
	Int8     Operands = C.PF_INT8
)

// Int8Rows is what M of Int8 is a multiple of; N, K, strides and addresses are multiples of 4, better of 16.
const Int8Rows = C.PF_INT8_ROWS

// Product describes D = A W^T + bias (+ D): A is [M, K] and W [N, K], dense, sums are float32. Addresses
// are the device's; strides are in elements.
type Product struct {
	M, N, K    int
	Operands   Operands
	A          uint64
	AStride    int
	W          uint64
	Bias       uint64 // [N] bfloat16, with a bfloat16 D alone, or 0
	D          uint64
	DStride    int
	Float32    bool // D is float32, else bfloat16; of Int8 it is int32, and the exact sums alone
	Accumulate bool // D += ...

	AScale, WScale uint64 // of FP8: float32 [M] and [N] by which sums are multiplied, or both 0
}

// messageBytes is room for the longest message.
const messageBytes = 512

// Open opens the library by its path, or by its usual names if that is empty. The error says what the
// loader or cuBLASLt says.
func Open(path string) (*Library, error) {
	var name *C.char
	if path != "" {
		name = C.CString(path)
		defer C.free(unsafe.Pointer(name))
	}
	var message [messageBytes]C.char
	l := &Library{C.pf_blas_open(name, nil, &message[0], messageBytes)}
	if l.c == nil {
		return nil, errors.New(C.GoString(&message[0]))
	}
	return l, nil
}

// Close gives all back.
func (l *Library) Close() { C.pf_blas_close(l.c) }

// Multiply enqueues a product on the default stream. The error names the shape, and where no algorithm
// is fit for it, why.
func (l *Library) Multiply(p Product) error {
	args := p.args()
	return failure(func(message *C.char) C.int { return C.pf_blas_gemm(l.c, &args, message, messageBytes) })
}

// Choose takes the algorithm for products as p, of any M and of addresses as well aligned, or says why there is none.
func (l *Library) Choose(p Product) error {
	args := p.args()
	return failure(func(message *C.char) C.int { return C.pf_blas_choose(l.c, &args, message, messageBytes) })
}

func failure(call func(message *C.char) C.int) error {
	var message [messageBytes]C.char
	if call(&message[0]) != 0 {
		return errors.New(C.GoString(&message[0]))
	}
	return nil
}

func (p Product) args() C.pf_gemm {
	return C.pf_gemm{
		a: C.uint64_t(p.A), w: C.uint64_t(p.W), bias: C.uint64_t(p.Bias), d: C.uint64_t(p.D),
		a_scale: C.uint64_t(p.AScale), w_scale: C.uint64_t(p.WScale),
		m: C.int64_t(p.M), n: C.int64_t(p.N), k: C.int64_t(p.K), a_stride: C.int64_t(p.AStride), d_stride: C.int64_t(p.DStride),
		operands: uint32(p.Operands), is_float: flag(p.Float32), accumulate: flag(p.Accumulate),
	}
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
