package cuda

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/kernels"
)

// words of taps, as little-endian memory: starts, indices and weights.
func tapsBytes(t kernels.Taps) []byte {
	var raw []byte
	for _, list := range [][]int32{t.Start, t.Index} {
		for _, n := range list {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(n))
		}
	}
	return append(raw, float32Bytes(t.Weight)...)
}

// Interpolate launches a thread for each element of dst.
func (o *networkOperations) Interpolate(dst, src kernels.Tensor, dim int, t kernels.Taps) {
	if o.refused(kernels.CheckInterpolate(dst, src, dim, t)) || dst.Elements() == 0 {
		return
	}
	o.tables.trimToLimit()
	table := o.tables.place(tapsBytes(t))
	if table == 0 {
		return
	}
	after, still := 1, append([]int(nil), src.Stride...)
	for _, d := range dst.Shape[dim+1:] {
		after *= d
	}
	still[dim] = 0
	w := o.newWords()
	w.addInts(dst.Elements())
	w.addShape(dst.Shape)
	w.addView(dst)
	w.addAddress(src)
	w.addStrides(still)
	w.addInts(after, dst.Shape[dim], src.Stride[dim])
	index := table + 4*uint64(len(t.Start))
	w.list = append(w.list, table, index, index+4*uint64(len(t.Index)))
	o.launch("pf_interpolate", dst.Elements(), w)
}

// tile is PF_TILE of src/sums.cu.
const tile = 16

// MatMul launches a block for each tile of each product.
func (o *networkOperations) MatMul(dst, a, b kernels.Tensor) {
	if o.refused(kernels.CheckMatMul(dst, a, b)) || dst.Elements() == 0 {
		return
	}
	lead := len(dst.Shape) - 2
	m, n, k := dst.Shape[lead], dst.Shape[lead+1], a.Shape[lead+1]
	w := o.newWords()
	w.addInts(m, n, k)
	w.addShape(dst.Shape[:lead])
	for _, t := range []kernels.Tensor{dst, a, b} {
		w.addAddress(t)
		w.addStrides(t.Stride[:lead])
	}
	for _, t := range []kernels.Tensor{dst, a, b} {
		w.addInts(t.Stride[lead:]...)
	}
	products := dst.Elements() / m / n
	o.launch("pf_matmul", products*((m+tile-1)/tile)*((n+tile-1)/tile)*blockThreads, w)
}

// manyTerms is from how many elements on a block makes a result of them, and not a thread.
const manyTerms = 128

// Reduce chooses by the number of elements that become one, so that an image's bits depend on nothing else.
func (o *networkOperations) Reduce(dst, src kernels.Tensor, how kernels.Reduction) {
	if o.refused(kernels.CheckReduce(dst, src, how)) {
		return
	}
	kept, made, terms := src, src, 1
	kept.Shape, made.Shape = append([]int(nil), dst.Shape...), append([]int(nil), src.Shape...)
	kept.Stride = append([]int(nil), src.Stride...)
	for i, d := range dst.Shape {
		if d != src.Shape[i] {
			kept.Stride[i] = 0
			terms *= src.Shape[i]
		} else {
			made.Shape[i] = 1
		}
	}
	results, term := mergeDims(dst, kept), mergeDims(made)[0]
	w := o.newWords()
	w.addInts(int(how), dst.Elements())
	w.addShape(results[0].Shape)
	w.addInts(terms)
	w.addShape(term.Shape)
	for _, t := range []kernels.Tensor{results[0], results[1], term} {
		w.addView(t)
	}
	if terms < manyTerms {
		o.launch("pf_reduce_few", dst.Elements(), w)
	} else {
		o.launch("pf_reduce_many", dst.Elements()*blockThreads, w)
	}
}
