//go:build cgo && linux && amd64

package onednn

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldnnl
#include "matmul.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Matmul is dst[m][n] = src[m][k] w[n][k]^T in bfloat16 for one shape.
type Matmul struct {
	m, n, k int
	c       *C.pf_matmul
}

// New packs w, n*k elements of row-major bfloat16, in the library's preferred layout.
func New(m, n, k int, w []uint16) (*Matmul, error) {
	if len(w) != n*k {
		return nil, fmt.Errorf("onednn: %d weights for [%d, %d]", len(w), n, k)
	}
	c := C.pf_matmul_new(C.int(m), C.int(n), C.int(k), (*C.uint16_t)(unsafe.SliceData(w)))
	if c == nil {
		return nil, fmt.Errorf("onednn: no bfloat16 matmul of [%d, %d] by [%d, %d] on this machine", m, k, n, k)
	}
	return &Matmul{m, n, k, c}, nil
}

// Run multiplies src, m*k elements, into dst, m*n elements.
func (p *Matmul) Run(dst, src []uint16) error {
	if len(src) != p.m*p.k || len(dst) != p.m*p.n {
		return fmt.Errorf("onednn: %d and %d elements for [%d, %d] and [%d, %d]", len(src), len(dst), p.m, p.k, p.m, p.n)
	}
	if status := C.pf_matmul_run(p.c, (*C.uint16_t)(unsafe.SliceData(src)), (*C.uint16_t)(unsafe.SliceData(dst))); status != 0 {
		return fmt.Errorf("onednn: status %d", status)
	}
	return nil
}

// Free gives the packed weights back.
func (p *Matmul) Free() { C.pf_matmul_free(p.c) }
