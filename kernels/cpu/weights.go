//go:build cgo && linux && amd64

package cpu

/*
#include <stdlib.h>
#include "prefillonly_kernels.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// linear owns the packed matrix that its C struct describes.
type linear struct {
	c       C.pf_linear
	weights *buffer // or codes
	scale   *buffer // of codes, else nil
	starts  *buffer // of codes that are multiplied as they are, else nil
	bias    *buffer // nil for none

	groupScale, zeros *buffer // of codes in groups, else nil
}

func (l *linear) In() int  { return int(l.c.in) }
func (l *linear) Out() int { return int(l.c.out) }

func (l *linear) Bytes() int64 {
	n := int64(0)
	for _, b := range l.buffers() {
		n += b.Bytes()
	}
	return n
}

func (l *linear) Free() {
	for _, b := range l.buffers() {
		b.Free()
	}
}

func (l *linear) buffers() []*buffer {
	return slices.DeleteFunc([]*buffer{l.weights, l.scale, l.starts, l.bias, l.groupScale, l.zeros}, func(b *buffer) bool { return b == nil })
}

// kindOf is how a part of a matrix is multiplied.
func kindOf(t kernels.HostTensor) C.pf_kind {
	switch {
	case t.Type == kernels.F8E4M3:
		return C.PF_FP8
	case t.Type == kernels.I8 && t.WeightOnly:
		return C.PF_INT8_WEIGHTS
	case t.Type == kernels.I8:
		return C.PF_INT8
	}
	return C.PF_DENSE
}

// checkWeights checks one of the parts of a matrix, which are all quantised alike.
func checkWeights(t, first kernels.HostTensor) error {
	if err := t.CheckBeside(first); err != nil {
		return fmt.Errorf("kernels/cpu: %w", err)
	}
	if kind := kindOf(t); (kind == C.PF_FP8 || kind == C.PF_INT8_WEIGHTS) && t.Cols > C.PF_EXPANDED_MAX_IN {
		return fmt.Errorf("kernels/cpu: tensor %q has %d columns of %s, want at most %d", t.Name, t.Cols, t.Type, int(C.PF_EXPANDED_MAX_IN))
	}
	return nil
}

func checkUnquantized(t kernels.HostTensor) error {
	if err := t.CheckUnquantized(); err != nil {
		return fmt.Errorf("kernels/cpu: %w", err)
	}
	return nil
}

// NewLinear packs the stacked parts; float16 and float32 are rounded to bfloat16.
func (b *Backend) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	out := 0
	for _, part := range parts {
		if err := checkWeights(part, parts[0]); err != nil {
			return nil, err
		}
		out += part.Rows
	}
	if out == 0 {
		return nil, fmt.Errorf("kernels/cpu: matrix without tensors")
	}
	l, err := b.pack(parts, out, false)
	if err != nil {
		return nil, err
	}
	if err := l.setBias(parts, bias); err != nil {
		l.Free()
		return nil, err
	}
	return l, nil
}

// NewGatedLinear packs gate and up, 16 rows of each in turn.
func (b *Backend) NewGatedLinear(gate, up kernels.HostTensor) (kernels.Linear, error) {
	for _, t := range []kernels.HostTensor{gate, up} {
		if err := checkWeights(t, gate); err != nil {
			return nil, err
		}
	}
	if gate.Rows != up.Rows {
		return nil, fmt.Errorf("kernels/cpu: tensor %q has %d rows, %q has %d", up.Name, up.Rows, gate.Name, gate.Rows)
	}
	return b.pack([]kernels.HostTensor{gate, up}, gate.Rows, true)
}

func (b *Backend) pack(parts []kernels.HostTensor, out int, gated bool) (*linear, error) {
	l := &linear{c: C.pf_linear{kind: kindOf(parts[0]), in: C.int(parts[0].Cols), out: C.int(out)}}
	if keepsGroups(parts) {
		l.c.kind = C.PF_INT4
	}
	panelRows := C.PF_PANEL
	if gated {
		l.c.gated, panelRows = 1, C.PF_PANEL/2
	}
	l.c.pairs = C.pf_pairs(l.c.kind, l.c.in)
	l.c.panels = C.int((out + panelRows - 1) / panelRows)
	elements := int64(l.c.panels) * int64(l.c.pairs) * C.PF_PANEL * 2
	var err error
	switch l.c.kind {
	case C.PF_DENSE:
		if l.weights, err = newBuffer(2 * elements); err == nil {
			l.c.weights = (*C.pf_bf16)(l.weights.At(0))
		}
	case C.PF_INT4:
		err = l.allocGroups(parts, elements)
	default:
		err = l.allocCodes(parts, elements)
	}
	if err != nil {
		return nil, err
	}
	b.fill(l, parts)
	return l, nil
}

// fill packs the parts into the memory of l.
func (b *Backend) fill(l *linear, parts []kernels.HostTensor) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	sources := (*C.pf_source)(C.calloc(C.size_t(len(parts)), C.sizeof_pf_source))
	defer C.free(unsafe.Pointer(sources))
	list := unsafe.Slice(sources, len(parts))
	for i, part := range parts {
		data := unsafe.SliceData(part.Data)
		if l.c.kind == C.PF_INT4 {
			data = unsafe.SliceData(part.Groups.Codes)
		}
		pinner.Pin(data)
		list[i] = C.pf_source{data: unsafe.Pointer(data), _type: C.pf_type(part.Type), rows: C.int(part.Rows)}
	}
	C.pf_linear_pack(b.pool, b.products, &l.c, sources, C.int(len(parts)))
}

// allocCodes makes room for codes and sets the scale of every row of the panels.
func (l *linear) allocCodes(parts []kernels.HostTensor, elements int64) error {
	rows := int64(l.c.panels) * C.PF_PANEL
	var err error
	if l.weights, err = newBuffer(elements); err == nil {
		l.scale, err = newBuffer(rows * 4)
	}
	if err == nil && l.c.kind == C.PF_INT8 {
		l.starts, err = newBuffer(rows * 4)
	}
	if err != nil {
		l.Free()
		return err
	}
	l.c.codes = (*C.uint8_t)(l.weights.At(0))
	l.c.scale = (*C.float)(l.scale.At(0))
	if l.starts != nil {
		l.c.starts = (*C.int32_t)(l.starts.At(0))
	}
	scale := unsafe.Slice((*float32)(l.scale.At(0)), int(l.c.panels)*C.PF_PANEL)
	l.eachRow(parts, func(at int, part *kernels.HostTensor, row int) { scale[at] = part.Scale[row] })
	return nil
}

// eachRow calls do for all rows of the parts, with their places in the panels.
func (l *linear) eachRow(parts []kernels.HostTensor, do func(at int, part *kernels.HostTensor, row int)) {
	const half = C.PF_PANEL / 2
	first := 0
	for i := range parts {
		for row := range parts[i].Rows {
			at := first + row
			if l.c.gated != 0 {
				at = row/half*C.PF_PANEL + i*half + row%half
			}
			do(at, &parts[i], row)
		}
		first += parts[i].Rows
	}
}

// setBias keeps the biases of the parts as float32, padded to whole panels; a part whose bias is empty
// has zeros.
func (l *linear) setBias(parts, bias []kernels.HostTensor) error {
	if len(bias) == 0 {
		return nil
	}
	if len(bias) != len(parts) {
		return fmt.Errorf("kernels/cpu: got %d biases, want %d", len(bias), len(parts))
	}
	floats, err := newBuffer(int64(l.c.panels) * C.PF_PANEL * 4)
	if err != nil {
		return err
	}
	l.bias = floats
	l.c.bias = (*C.float)(floats.At(0))
	row := 0
	for i, part := range parts {
		if t := bias[i]; len(t.Data) > 0 {
			if err := checkUnquantized(t); err != nil {
				return err
			}
			if t.Rows != 1 || t.Cols != part.Rows {
				return fmt.Errorf("kernels/cpu: bias %q is [%d, %d], %q has %d rows", t.Name, t.Rows, t.Cols, part.Name, part.Rows)
			}
			C.pf_to_f32((*C.float)(floats.At(int64(row)*4)), unsafe.Pointer(unsafe.SliceData(t.Data)), C.pf_type(t.Type), C.size_t(t.Cols))
		}
		row += part.Rows
	}
	return nil
}

// vector is float32 weights.
type vector struct {
	*buffer
	n int
}

func (v *vector) Len() int { return v.n }

func (v *vector) floats() *C.float { return (*C.float)(v.At(0)) }

// NewVector converts the weights to float32.
func (b *Backend) NewVector(t kernels.HostTensor) (kernels.Vector, error) {
	if err := checkUnquantized(t); err != nil {
		return nil, err
	}
	n := t.Rows * t.Cols
	floats, err := newBuffer(4 * int64(n))
	if err != nil {
		return nil, err
	}
	C.pf_to_f32((*C.float)(floats.At(0)), unsafe.Pointer(unsafe.SliceData(t.Data)), C.pf_type(t.Type), C.size_t(n))
	return &vector{floats, n}, nil
}

// rope is [max][dim/2] float32 cosines, and as many sines after them.
type rope struct {
	*buffer
	dim, max int
}

func (r *rope) MaxPositions() int { return r.max }

func (r *rope) cosines() *C.float { return (*C.float)(r.At(0)) }
func (r *rope) sines() *C.float   { return (*C.float)(r.At(r.Bytes() / 2)) }

// NewRope tabulates the angles, as float32 products, and their cosines and sines, rounded from float64.
func (b *Backend) NewRope(invFreq []float32, scale float32, positions int) (kernels.Rope, error) {
	n := positions * len(invFreq)
	angles, err := newBuffer(8 * int64(n))
	if err != nil {
		return nil, err
	}
	floats := unsafe.Slice((*float32)(angles.At(0)), 2*n)
	for pos := range positions {
		for i, frequency := range invFreq {
			floats[pos*len(invFreq)+i], floats[n+pos*len(invFreq)+i] = kernels.RopeAt(pos, frequency, scale)
		}
	}
	return &rope{angles, 2 * len(invFreq), positions}, nil
}
