//go:build cgo && linux && amd64

package cpu

/*
#include "prefillonly_kernels.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// table is the checkpoint's own mapping, or a bfloat16 copy of it, or packed codes.
type table struct {
	rows, cols int
	data       []byte  // row-major bfloat16; nil of codes
	copied     *buffer // nil where data is the mapping

	codes *linear // nil of bfloat16
	first int     // row of codes that is the table's first
}

func (t *table) Rows() int { return t.rows }
func (t *table) Cols() int { return t.cols }

func (t *table) Bytes() int64 {
	switch {
	case t.codes != nil:
		return t.codes.Bytes()
	case t.copied != nil:
		return t.copied.Bytes()
	}
	return 0
}

func (t *table) Free() {
	if t.codes != nil {
		t.codes.Free()
	}
	if t.copied != nil {
		t.copied.Free()
	}
	t.data = nil
}

func (t *table) bf16() *C.pf_bf16 { return (*C.pf_bf16)(unsafe.Pointer(unsafe.SliceData(t.data))) }

// NewTable uses the tensor's data in place when it is bfloat16, and packs codes as those of linear layers.
func (b *Backend) NewTable(tensor kernels.HostTensor) (kernels.Table, error) {
	if err := tensor.CheckTable(); err != nil {
		return nil, fmt.Errorf("kernels/cpu: %w", err)
	}
	t := &table{rows: tensor.Rows, cols: tensor.Cols}
	switch tensor.Type {
	case kernels.BF16:
		t.data = tensor.Data
		return t, nil
	case kernels.I8:
		if err := t.pack(b, tensor); err != nil {
			return nil, err
		}
		return t, nil
	}
	n := int64(t.rows) * int64(t.cols)
	copied, err := newBuffer(2 * n)
	if err != nil {
		return nil, err
	}
	C.pf_to_bf16((*C.pf_bf16)(copied.At(0)), unsafe.Pointer(unsafe.SliceData(tensor.Data)), C.pf_type(tensor.Type), C.size_t(n))
	t.copied, t.data = copied, copied.data
	return t, nil
}

func (t *table) pack(b *Backend, tensor kernels.HostTensor) (err error) {
	if t.cols > C.PF_CODED_MAX_COLS {
		return fmt.Errorf("kernels/cpu: tensor %q has %d columns of an LM head in %s, want at most %d", tensor.Name, t.cols, tensor.Type, int(C.PF_CODED_MAX_COLS))
	}
	t.codes, err = b.pack([]kernels.HostTensor{tensor}, tensor.Rows, false)
	return err
}

// SubTable is rows of the same memory.
func (b *Backend) SubTable(t kernels.Table, from, to int) kernels.Table {
	whole := t.(*table)
	part := &table{rows: to - from, cols: whole.cols, codes: whole.codes, first: whole.first + from}
	if whole.codes == nil {
		part.data = whole.data[2*from*whole.cols : 2*to*whole.cols]
	}
	return part
}

// Embed looks rows up; an id beyond the table is an error.
func (b *Backend) Embed(x kernels.Mat, t kernels.Table, ids []uint32, scale float32) {
	if rows, ok := b.embedded("Embed", x, t, ids); ok {
		C.pf_embed(b.pool, &rows, t.(*table).bf16(), (*C.uint32_t)(unsafe.SliceData(ids)), C.float(scale))
	}
}

// AddEmbed looks rows up; an id beyond the table is an error.
func (b *Backend) AddEmbed(x kernels.Mat, t kernels.Table, ids []uint32) {
	if rows, ok := b.embedded("AddEmbed", x, t, ids); ok {
		C.pf_add_embed(b.pool, &rows, t.(*table).bf16(), (*C.uint32_t)(unsafe.SliceData(ids)))
	}
}

// embedded checks the operands of an embedding.
func (b *Backend) embedded(op string, x kernels.Mat, t kernels.Table, ids []uint32) (C.pf_rows, bool) {
	if t.(*table).codes != nil {
		b.fail("%s: got an LM head in int8, want an embedding", op)
		return C.pf_rows{}, false
	}
	if !b.within(op, t, ids) || !b.fits(op, "x", x, len(ids), t.Cols(), kernels.F32) {
		return C.pf_rows{}, false
	}
	return b.residual(op, x, kernels.Norm{})
}

// within checks ids.
func (b *Backend) within(op string, t kernels.Table, ids []uint32) bool {
	for _, id := range ids {
		if int(id) >= t.Rows() {
			b.fail("%s: invalid token %d: the vocabulary has %d", op, id, t.Rows())
			return false
		}
	}
	return true
}

// Logits packs 32 rows of a bfloat16 table at a time, so that one row of x reads the table once, and many
// run at the rate of the other products. Codes are packed already.
func (b *Backend) Logits(dst, x kernels.Mat, n kernels.Norm, t kernels.Table, ids []uint32) {
	count := t.Rows()
	if ids != nil {
		count = len(ids)
	}
	if !b.within("Logits", t, ids) || !b.fits("Logits", "dst", dst, x.Rows, count, kernels.F32) || !b.fits("Logits", "x", x, x.Rows, t.Cols(), kernels.F32) {
		return
	}
	rows, ok := b.residual("Logits", x, n)
	if !ok {
		return
	}
	head, list := t.(*table), (*C.uint32_t)(unsafe.SliceData(ids))
	if head.codes != nil {
		b.check("Logits", C.pf_coded_logits(b.pool, b.products, float32s(dst), C.size_t(dst.Stride), &rows, &head.codes.c, C.int(head.first), list, C.int(count)))
		return
	}
	b.check("Logits", C.pf_logits(b.pool, b.products, float32s(dst), C.size_t(dst.Stride), &rows, head.bf16(), list, C.int(count)))
}
