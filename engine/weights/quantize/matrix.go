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

// quantised are the tensors that a matrix becomes: its codes, and their scales, which the codes leave behind as they are written.
func (j *job) quantised(e weights.Entry) []weights.Part {
	q := &rounder{name: e.Name, typ: types[e.Type], cols: e.Shape[1]}
	return []weights.Part{
		{Name: e.Name, Type: "I8", Shape: e.Shape, Data: func(w io.Writer) error { q.to = w; return j.read(q, e) }},
		{Name: e.Name + "_scale", Type: "BF16", Shape: []int{e.Shape[0], 1}, Data: func(w io.Writer) error { _, err := w.Write(q.scales); return err }},
	}
}

// rounder makes codes of the rows that are written to it, in pieces of any length.
type rounder struct {
	name   string
	typ    kernels.DType
	cols   int
	to     io.Writer
	row    []byte // that is not whole
	values []float32
	codes  []byte
	scales []byte // bfloat16
}

func (q *rounder) Write(p []byte) (int, error) {
	n, size := len(p), q.cols*int(q.typ.Size())
	for len(p) > 0 {
		take := min(len(p), size-len(q.row))
		q.row, p = append(q.row, p[:take]...), p[take:]
		if len(q.row) < size {
			break
		}
		if err := q.round(); err != nil {
			return 0, err
		}
		q.row = q.row[:0]
	}
	return n, nil
}

// round writes the codes of a row.
func (q *rounder) round() error {
	if q.values == nil {
		q.values, q.codes = make([]float32, q.cols), make([]byte, q.cols)
	}
	kernels.Expand(q.values, q.typ, q.row)
	for i, v := range q.values {
		if v != v || math.IsInf(float64(v), 0) {
			return fmt.Errorf("tensor %q: element %d of row %d is %v, which has no code", q.name, i, len(q.scales)/2, v)
		}
	}
	q.scales = binary.LittleEndian.AppendUint16(q.scales, weights.QuantizeI8(q.codes, q.values))
	_, err := q.to.Write(q.codes)
	return err
}
