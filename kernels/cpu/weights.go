//go:build cgo && linux && amd64

package cpu

/*
#include <stdlib.h>
#include "prefillonly_kernels.h"
*/
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// linear owns the packed matrix that its C struct describes.
type linear struct {
	c       C.pf_linear
	weights *buffer
	bias    *buffer // nil for none
}

func (l *linear) In() int  { return int(l.c.in) }
func (l *linear) Out() int { return int(l.c.out) }

func (l *linear) Bytes() int64 {
	n := l.weights.Bytes()
	if l.bias != nil {
		n += l.bias.Bytes()
	}
	return n
}

func (l *linear) Free() {
	l.weights.Free()
	if l.bias != nil {
		l.bias.Free()
	}
}

func checkTensor(t kernels.HostTensor) error {
	want := int64(t.Rows) * int64(t.Cols) * t.Type.Size()
	if t.Rows < 1 || t.Cols < 1 || int64(len(t.Data)) != want {
		return fmt.Errorf("kernels/cpu: tensor %q: %s [%d, %d] takes %d bytes, has %d", t.Name, t.Type, t.Rows, t.Cols, want, len(t.Data))
	}
	return nil
}

// NewLinear packs the stacked parts; float16 and float32 are rounded to bfloat16.
func (b *Backend) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	out := 0
	for _, part := range parts {
		if err := checkTensor(part); err != nil {
			return nil, err
		}
		if part.Cols != parts[0].Cols {
			return nil, fmt.Errorf("kernels/cpu: tensor %q has %d columns, %q has %d", part.Name, part.Cols, parts[0].Name, parts[0].Cols)
		}
		out += part.Rows
	}
	if out == 0 {
		return nil, fmt.Errorf("kernels/cpu: a matrix of no tensors")
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
		if err := checkTensor(t); err != nil {
			return nil, err
		}
	}
	if gate.Rows != up.Rows || gate.Cols != up.Cols {
		return nil, fmt.Errorf("kernels/cpu: %q is [%d, %d], %q is [%d, %d]", gate.Name, gate.Rows, gate.Cols, up.Name, up.Rows, up.Cols)
	}
	return b.pack([]kernels.HostTensor{gate, up}, gate.Rows, true)
}

func (b *Backend) pack(parts []kernels.HostTensor, out int, gated bool) (*linear, error) {
	l := &linear{c: C.pf_linear{in: C.int(parts[0].Cols), out: C.int(out)}}
	panelRows := C.PF_PANEL
	if gated {
		l.c.gated, panelRows = 1, C.PF_PANEL/2
	}
	l.c.pairs = C.pf_pairs(l.c.in)
	l.c.panels = C.int((out + panelRows - 1) / panelRows)
	weights, err := newBuffer(int64(l.c.panels) * int64(l.c.pairs) * C.PF_PANEL * 4)
	if err != nil {
		return nil, err
	}
	l.weights = weights
	l.c.weights = (*C.pf_bf16)(weights.at(0))

	var pinner runtime.Pinner
	defer pinner.Unpin()
	sources := (*C.pf_source)(C.calloc(C.size_t(len(parts)), C.sizeof_pf_source))
	defer C.free(unsafe.Pointer(sources))
	list := unsafe.Slice(sources, len(parts))
	for i, part := range parts {
		data := unsafe.SliceData(part.Data)
		pinner.Pin(data)
		list[i] = C.pf_source{data: unsafe.Pointer(data), _type: C.pf_type(part.Type), rows: C.int(part.Rows)}
	}
	C.pf_linear_pack(b.pool, &l.c, sources, C.int(len(parts)))
	return l, nil
}

// setBias keeps the biases of the parts as float32, padded to whole panels; a part whose bias is empty
// has zeros.
func (l *linear) setBias(parts, bias []kernels.HostTensor) error {
	if len(bias) == 0 {
		return nil
	}
	if len(bias) != len(parts) {
		return fmt.Errorf("kernels/cpu: %d biases for %d tensors", len(bias), len(parts))
	}
	floats, err := newBuffer(int64(l.c.panels) * C.PF_PANEL * 4)
	if err != nil {
		return err
	}
	l.bias = floats
	l.c.bias = (*C.float)(floats.at(0))
	row := 0
	for i, part := range parts {
		if t := bias[i]; len(t.Data) > 0 {
			if err := checkTensor(t); err != nil {
				return err
			}
			if t.Rows != 1 || t.Cols != part.Rows {
				return fmt.Errorf("kernels/cpu: bias %q is [%d, %d], %q has %d rows", t.Name, t.Rows, t.Cols, part.Name, part.Rows)
			}
			C.pf_to_f32((*C.float)(floats.at(int64(row)*4)), unsafe.Pointer(unsafe.SliceData(t.Data)), C.pf_type(t.Type), C.size_t(t.Cols))
		}
		row += part.Rows
	}
	return nil
}

// table is the checkpoint's own mapping, or a bfloat16 copy of it.
type table struct {
	rows, cols int
	data       []byte  // row-major bfloat16
	copied     *buffer // nil where data is the mapping
}

func (t *table) Rows() int { return t.rows }
func (t *table) Cols() int { return t.cols }

func (t *table) Bytes() int64 {
	if t.copied == nil {
		return 0
	}
	return t.copied.Bytes()
}

func (t *table) Free() {
	if t.copied != nil {
		t.copied.Free()
	}
	t.data = nil
}

func (t *table) bf16() *C.pf_bf16 { return (*C.pf_bf16)(unsafe.Pointer(unsafe.SliceData(t.data))) }

// NewTable uses the tensor's data in place when it is bfloat16.
func (b *Backend) NewTable(tensor kernels.HostTensor) (kernels.Table, error) {
	if err := checkTensor(tensor); err != nil {
		return nil, err
	}
	t := &table{rows: tensor.Rows, cols: tensor.Cols, data: tensor.Data}
	if tensor.Type == kernels.BF16 {
		return t, nil
	}
	n := int64(t.rows) * int64(t.cols)
	copied, err := newBuffer(2 * n)
	if err != nil {
		return nil, err
	}
	C.pf_to_bf16((*C.pf_bf16)(copied.at(0)), unsafe.Pointer(unsafe.SliceData(tensor.Data)), C.pf_type(tensor.Type), C.size_t(n))
	t.copied, t.data = copied, copied.data
	return t, nil
}

// vector is small and read in place by C; the garbage collector keeps it.
type vector []float32

func (v vector) Len() int { return len(v) }

func (v vector) floats() *C.float { return (*C.float)(unsafe.SliceData(v)) }

// NewVector converts the weights to float32.
func (b *Backend) NewVector(t kernels.HostTensor) (kernels.Vector, error) {
	if err := checkTensor(t); err != nil {
		return nil, err
	}
	v := make(vector, t.Rows*t.Cols)
	C.pf_to_f32(v.floats(), unsafe.Pointer(unsafe.SliceData(t.Data)), C.pf_type(t.Type), C.size_t(len(v)))
	return v, nil
}

type rope struct {
	dim, max       int
	cosines, sines []float32 // [max][dim/2]
}

func (r *rope) MaxPositions() int { return r.max }

// NewRope tabulates the angles, as float32 products, and their cosines and sines, rounded from float64.
func (b *Backend) NewRope(invFreq []float32, scale float32, positions int) (kernels.Rope, error) {
	r := &rope{dim: 2 * len(invFreq), max: positions}
	r.cosines = make([]float32, positions*len(invFreq))
	r.sines = make([]float32, positions*len(invFreq))
	for pos := range positions {
		for i, frequency := range invFreq {
			sin, cos := math.Sincos(float64(float32(pos) * frequency))
			r.cosines[pos*len(invFreq)+i] = float32(cos) * scale
			r.sines[pos*len(invFreq)+i] = float32(sin) * scale
		}
	}
	return r, nil
}
