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

var _ kernels.Mixtures = (*Backend)(nil)

// PickRows copies rows by all threads.
func (b *Backend) PickRows(dst, x kernels.Mat, rows []int32) {
	if some, all, ok := b.listedRows("PickRows", dst, x, rows); ok {
		C.pf_pick_rows(b.pool, &some, &all, (*C.int32_t)(unsafe.SliceData(rows)))
	}
}

// AddScaledRows adds rows by all threads.
func (b *Backend) AddScaledRows(x, src kernels.Mat, rows []int32, scale []float32) {
	if len(scale) != len(rows) {
		b.fail("AddScaledRows: got %d factors, want %d", len(scale), len(rows))
		return
	}
	if some, all, ok := b.listedRows("AddScaledRows", src, x, rows); ok {
		C.pf_add_scaled_rows(b.pool, &all, &some, (*C.int32_t)(unsafe.SliceData(rows)), (*C.float)(unsafe.SliceData(scale)))
	}
}

// listedRows are a matrix of some rows, and that of all which the list counts.
func (b *Backend) listedRows(op string, some, all kernels.Mat, rows []int32) (s, a C.pf_rows, ok bool) {
	if !b.fits(op, "rows", some, len(rows), all.Cols, kernels.F32) {
		return s, a, false
	}
	for _, r := range rows {
		if r < 0 || int(r) >= all.Rows {
			b.fail("%s: row %d of %d", op, r, all.Rows)
			return s, a, false
		}
	}
	if s, ok = b.residual(op, some, kernels.Norm{}); ok {
		a, ok = b.residual(op, all, kernels.Norm{})
	}
	return s, a, ok
}
