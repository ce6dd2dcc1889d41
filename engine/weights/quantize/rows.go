package quantize

import "github.com/prefillonly/prefillonly/kernels"

// rows gives the rows of a matrix that is written to it, in pieces of any length, as values.
type rows struct {
	typ    kernels.DType
	part   []byte // of a row that is not whole
	values []float32
	take   func(values []float32) error
}

func newRows(typ kernels.DType, cols int, take func(values []float32) error) *rows {
	return &rows{typ: typ, part: make([]byte, 0, int64(cols)*typ.Size()), values: make([]float32, cols), take: take}
}

func (r *rows) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(len(p), cap(r.part)-len(r.part))
		r.part, p = append(r.part, p[:take]...), p[take:]
		if len(r.part) < cap(r.part) {
			break
		}
		kernels.Expand(r.values, r.typ, r.part)
		if err := r.take(r.values); err != nil {
			return 0, err
		}
		r.part = r.part[:0]
	}
	return n, nil
}
