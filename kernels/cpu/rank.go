//go:build cgo && linux && amd64

package cpu

/*
#include "prefillonly_kernels.h"
*/
import "C"

import (
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.Rank = (*Backend)(nil)

// PartialTypes is float32: what stays in this machine's memory need not be small.
func (b *Backend) PartialTypes() []kernels.DType { return []kernels.DType{kernels.F32} }

// AddSum reads the parts where they are; those of other CPU ranks are in the same memory.
func (b *Backend) AddSum(x kernels.Mat, parts []kernels.Mat) { b.sumParts("AddSum", x, parts, 1) }

// SetSum is AddSum that does not read x.
func (b *Backend) SetSum(x kernels.Mat, parts []kernels.Mat) { b.sumParts("SetSum", x, parts, 0) }

func (b *Backend) sumParts(op string, x kernels.Mat, parts []kernels.Mat, add C.int) {
	for _, p := range parts {
		if !b.fits(op, "part", p, x.Rows, x.Cols, kernels.F32) {
			return
		}
	}
	rows, ok := b.residual(op, x, kernels.Norm{})
	if !ok {
		return
	}
	addresses, strides := make([]*C.float, len(parts)), make([]C.size_t, len(parts))
	for i, p := range parts {
		addresses[i], strides[i] = float32s(p), C.size_t(p.Stride)
	}
	C.pf_sum(b.pool, &rows, (**C.float)(unsafe.SliceData(addresses)), unsafe.SliceData(strides), C.int(len(parts)), add)
}
