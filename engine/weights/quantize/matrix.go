package quantize

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

var types = map[string]kernels.DType{"BF16": kernels.BF16, "F16": kernels.F16, "F32": kernels.F32}

// perWord is how many codes a word of a packed matrix has.
const perWord = 4

// quantizedParts are the tensors that a matrix becomes, by this name: its codes, and their scales, which the codes leave behind as they
// are written.
func (j *job) quantizedParts(e weights.Entry, name string) []weights.Part {
	count, cols := e.Shape[0], e.Shape[1]
	q := &rounder{name: e.Name, factors: j.factors[e.Name], packed: j.Scheme.isPacked(), codes: make([]byte, cols, cols+perWord)}
	codes := weights.Part{Name: name, Type: "I8", Shape: e.Shape, Data: func(w io.Writer) error {
		q.to = w
		return j.read(newRows(types[e.Type], cols, q.round), e)
	}}
	scales := weights.Part{Name: name + "_scale", Type: "BF16", Shape: []int{count, 1}, Data: func(w io.Writer) error { _, err := w.Write(q.scales); return err }}
	if !q.packed {
		return []weights.Part{codes, scales}
	}
	codes.Name, codes.Type, codes.Shape = name+"_packed", "I32", []int{count, (cols + perWord - 1) / perWord}
	shape := weights.Part{Name: name + "_shape", Type: "I64", Shape: []int{2}, Data: func(w io.Writer) error {
		return binary.Write(w, binary.LittleEndian, []int64{int64(count), int64(cols)})
	}}
	return []weights.Part{codes, scales, shape}
}

// rounder makes codes of rows.
type rounder struct {
	name    string
	factors []float32 // of columns, which these are multiplied by; nil for none
	packed  bool      // codes are 128 more than they are, and rows end with whole words
	to      io.Writer
	codes   []byte // of a row
	scales  []byte // bfloat16
}

// round writes the codes of a row.
func (q *rounder) round(values []float32) error {
	for i, f := range q.factors {
		values[i] *= f
	}
	for i, v := range values {
		if v != v || math.IsInf(float64(v), 0) {
			return fmt.Errorf("tensor %q: element %d of row %d is %v, want a finite number", q.name, i, len(q.scales)/2, v)
		}
	}
	q.scales = binary.LittleEndian.AppendUint16(q.scales, weights.QuantizeI8(q.codes, values))
	codes := q.codes
	if q.packed {
		for i := range codes {
			codes[i] ^= 0x80
		}
		for len(codes)%perWord != 0 {
			codes = append(codes, 0)
		}
	}
	_, err := q.to.Write(codes)
	return err
}
