package ref

import (
	"fmt"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// table keeps the checkpoint's own mapping and expands rows when they are used, but for codes, which it holds itself.
type table struct {
	t     kernels.HostTensor
	codes []byte // of int8, else nil
}

func (t *table) Rows() int    { return t.t.Rows }
func (t *table) Cols() int    { return t.t.Cols }
func (t *table) Bytes() int64 { return int64(len(t.codes)) + 4*int64(len(t.t.Scale)) }
func (t *table) Free()        { t.t.Data, t.t.Scale, t.codes = nil, nil, nil }

// storedRow is row i as it is stored.
func (t *table) storedRow(i int) []byte {
	width := t.t.Cols * int(t.t.Type.Size())
	return t.t.Data[i*width : (i+1)*width]
}

// expandRow expands row i into dst; codes' own values are meant.
func (t *table) expandRow(dst []float32, i int) { kernels.Expand(dst, t.t.Type, t.storedRow(i)) }

// NewTable keeps t's data as it is, or reads its codes.
func (b *Backend) NewTable(t kernels.HostTensor) (kernels.Table, error) {
	if err := t.CheckTable(); err != nil {
		return nil, fmt.Errorf("ref: %w", err)
	}
	if t.Type != kernels.I8 {
		return &table{t: t}, nil
	}
	codes := make([]byte, len(t.Data))
	if err := t.ReadPart(codes, t.Data); err != nil {
		return nil, fmt.Errorf("ref: %w", err)
	}
	t.Data = codes
	return &table{t, codes}, nil
}

// SubTable is rows [from, to) of the same memory.
func (b *Backend) SubTable(t kernels.Table, from, to int) kernels.Table {
	part := t.(*table).t
	width := part.Cols * int(part.Type.Size())
	part.Rows, part.Data = to-from, part.Data[from*width:to*width]
	if part.Scale != nil {
		part.Scale = part.Scale[from:to]
	}
	return &table{t: part}
}

// Embed sets x[i] = scale * table[ids[i]].
func (b *Backend) Embed(x kernels.Mat, t kernels.Table, ids []uint32, scale float32) {
	b.lookUp(t, ids, func(i int, embedding []float32) {
		for j, v := range embedding {
			matrixRow(x, i)[j] = v * scale
		}
	})
}

// AddEmbed adds table[ids[i]] to x[i].
func (b *Backend) AddEmbed(x kernels.Mat, t kernels.Table, ids []uint32) {
	b.lookUp(t, ids, func(i int, embedding []float32) {
		for j, v := range matrixRow(x, i) {
			matrixRow(x, i)[j] = v + embedding[j]
		}
	})
}

// lookUp calls use with each i and table[ids[i]].
func (b *Backend) lookUp(t kernels.Table, ids []uint32, use func(i int, embedding []float32)) {
	rows := t.(*table)
	if rows.codes != nil {
		b.recordFailure("tensor %q: unsupported type %s of an embedding", rows.t.Name, rows.t.Type)
		return
	}
	embedding := make([]float32, rows.Cols())
	for i, id := range ids {
		if int(id) >= rows.Rows() {
			b.recordFailure("invalid token %d: the table has %d rows", id, rows.Rows())
			continue
		}
		rows.expandRow(embedding, int(id))
		use(i, embedding)
	}
}

// Logits sets dst[i][j] = n(x)[i] . table[ids[j]], over the whole table if ids is nil.
func (b *Backend) Logits(dst, x kernels.Mat, n kernels.Norm, t kernels.Table, ids []uint32) {
	rows := t.(*table)
	for _, id := range ids {
		if int(id) >= rows.Rows() {
			b.recordFailure("invalid token %d: the table has %d rows", id, rows.Rows())
			return
		}
	}
	count := len(ids)
	if ids == nil {
		count = rows.Rows()
	}
	dots, out := rows.rowProducts(normRows(x, n)), rowsOf(dst)
	runParallel((count+columnsPerTask-1)/columnsPerTask, func(task int) {
		column, room := make([]float32, x.Rows), make([]float32, rows.Cols())
		for j := task * columnsPerTask; j < min(count, (task+1)*columnsPerTask); j++ {
			id := j
			if ids != nil {
				id = int(ids[j])
			}
			dots(column, id, room)
			for i, v := range column {
				out[i][j] = v
			}
		}
	})
}

// rowProducts returns what sets column to the products of all rows of in with the table's row id; room is as wide as that.
func (t *table) rowProducts(in [][]float32) func(column []float32, id int, room []float32) {
	if t.t.Type == kernels.I8 && !t.t.WeightOnly {
		codes, scales := quantizeInt8(in)
		return func(column []float32, id int, _ []float32) {
			stored := t.storedRow(id)
			weight := unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(stored))), len(stored))
			for i := range codes {
				column[i] = scaledDot(codes[i], scales[i], weight, t.t.Scale[id])
			}
		}
	}
	return func(column []float32, id int, weight []float32) {
		t.expandRow(weight, id)
		for i := range in {
			if column[i] = dot(in[i], weight); t.t.Scale != nil {
				column[i] *= t.t.Scale[id]
			}
		}
	}
}
