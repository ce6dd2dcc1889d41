package cuda

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.Rank = (*Backend)(nil)

// PartialTypes has bfloat16, which halves what GPUs send one another.
func (b *Backend) PartialTypes() []kernels.DType { return []kernels.DType{kernels.F32, kernels.BF16} }

// Product is a product whose epilogue does not accumulate.
func (b *Backend) Product(dst, src kernels.Mat, l kernels.Linear) {
	b.multiplyLinear(dst, src, l, false)
}

// MLPProduct is MLP whose last product does not accumulate.
func (b *Backend) MLPProduct(dst, x kernels.Mat, w kernels.Vector, eps float32, act kernels.Activation, gated, down kernels.Linear) {
	b.mlp(dst, x, w, eps, act, gated, down, false)
}

// AddSum is one kernel; the parts' types and strides must be equal.
func (b *Backend) AddSum(x kernels.Mat, parts []kernels.Mat) {
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
	kernel := "pf_add_sum"
	if parts[0].Type == kernels.BF16 {
		kernel = "pf_add_sum_bf16"
	}
	b.device.Launch(kernel, [2]int{x.Rows, columns}, block,
		uint64(at(x)), uint64(x.Stride), uint64(list), uint64(len(parts)), uint64(parts[0].Stride), uint64(x.Cols))
}

// SubTable is addresses within t's memory.
func (b *Backend) SubTable(t kernels.Table, from, to int) kernels.Table {
	part := t.(table).viewRows(from, to)
	if err := b.checkInt8Product(part); err != nil {
		b.fail("rows %d to %d of an LM head in int8 are not multiplied here: %w", from, to, err)
	}
	return table{part}
}
