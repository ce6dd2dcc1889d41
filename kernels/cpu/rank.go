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

// Product adds to zeros.
func (b *Backend) Product(dst, src kernels.Mat, l kernels.Linear) {
	if b.clear("Product", dst, dst.Rows, l.Out()) {
		b.AddLinear(dst, src, l)
	}
}

// MLPProduct adds to zeros.
func (b *Backend) MLPProduct(dst, x kernels.Mat, w kernels.Vector, eps float32, act kernels.Activation, gated, down kernels.Linear) {
	if b.clear("MLPProduct", dst, x.Rows, x.Cols) {
		b.mlp("MLPProduct", dst, x, w, eps, act, gated, down)
	}
}

func (b *Backend) clear(op string, dst kernels.Mat, rows, cols int) bool {
	if !b.fits(op, "dst", dst, rows, cols, kernels.F32) {
		return false
	}
	if all, ok := b.residual(op, dst, nil, 0); ok {
		C.pf_clear(b.pool, &all)
	}
	return true
}

// AddSum reads the parts where they are; those of other CPU ranks are in the same memory.
func (b *Backend) AddSum(x kernels.Mat, parts []kernels.Mat) {
	for _, p := range parts {
		if !b.fits("AddSum", "part", p, x.Rows, x.Cols, kernels.F32) {
			return
		}
	}
	rows, ok := b.residual("AddSum", x, nil, 0)
	if !ok {
		return
	}
	addresses, strides := make([]*C.float, len(parts)), make([]C.size_t, len(parts))
	for i, p := range parts {
		addresses[i], strides[i] = float32s(p), C.size_t(p.Stride)
	}
	C.pf_add_sum(b.pool, &rows, (**C.float)(unsafe.SliceData(addresses)), unsafe.SliceData(strides), C.int(len(parts)))
}
