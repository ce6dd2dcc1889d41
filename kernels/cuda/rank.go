package cuda

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.Rank = (*Backend)(nil)

// PartialTypes has bfloat16, which halves what GPUs send one another.
func (b *Backend) PartialTypes() []kernels.DType { return []kernels.DType{kernels.F32, kernels.BF16} }

// AddSum is one kernel; the parts' types and strides must be equal.
func (b *Backend) AddSum(x kernels.Mat, parts []kernels.Mat) { b.sumParts(x, parts, 1) }

// SetSum is AddSum that does not read x.
func (b *Backend) SetSum(x kernels.Mat, parts []kernels.Mat) { b.sumParts(x, parts, 0) }

func (b *Backend) sumParts(x kernels.Mat, parts []kernels.Mat, add uint64) {
	var addresses []byte
	for _, p := range parts {
		if p.Stride != parts[0].Stride || p.Type != parts[0].Type {
			b.fail("partial sums of %s and %s have rows %d and %d elements apart", p.Type, parts[0].Type, p.Stride, parts[0].Stride)
			return
		}
		addresses = binary.LittleEndian.AppendUint64(addresses, uint64(at(p)))
	}
	list := b.tables.allocBytes(b, int64(len(addresses)))
	if list == 0 {
		return
	}
	b.device.Upload(list, addresses)
	columns := max(1, x.Cols/4/block)
	kernel := "pf_sum"
	if parts[0].Type == kernels.BF16 {
		kernel = "pf_sum_bf16"
	}
	b.device.Launch(kernel, [2]int{x.Rows, columns}, block,
		uint64(at(x)), uint64(x.Stride), uint64(list), uint64(len(parts)), uint64(parts[0].Stride), uint64(x.Cols), add)
}

// SubTable is addresses within t's memory.
func (b *Backend) SubTable(t kernels.Table, from, to int) kernels.Table {
	part := t.(table).viewRows(from, to)
	if err := b.checkInt8Product(part); err != nil {
		b.fail("rows %d to %d of an LM head in int8 are not multiplied here: %w", from, to, err)
	}
	return table{part}
}
