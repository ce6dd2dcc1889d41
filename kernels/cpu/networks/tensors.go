//go:build cgo && linux && amd64

package networks

// #include "networks.h"
import "C"

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// order sorts the dimensions of t that have more than one element, those with the largest strides first.
func order(dims []int, t kernels.Tensor) []int {
	dims = slices.DeleteFunc(dims, func(i int) bool { return t.Shape[i] == 1 })
	slices.SortStableFunc(dims, func(i, j int) int { return max(t.Stride[j], -t.Stride[j]) - max(t.Stride[i], -t.Stride[i]) })
	return dims
}

// join makes one of neighbouring dimensions that all tensors step through evenly, from the first of the shape and
// tensors of arguments on, and returns how many there are then.
func (n *Networks) join(first, dims, tensors int) int {
	last := first
	for d := first + 1; d < dims; d++ {
		even := true
		for i := range tensors {
			s := &n.tensors[i].stride
			even = even && s[last] == s[d]*C.ptrdiff_t(n.shape[d])
		}
		size := n.shape[d]
		if even {
			size *= n.shape[last]
		} else {
			last++
		}
		n.shape[last] = size
		for i := range tensors {
			n.tensors[i].stride[last] = n.tensors[i].stride[d]
		}
	}
	return min(last+1, dims)
}

// atLeastOne gives a shape without dimensions one of one element.
func (n *Networks) atLeastOne(dims, tensors int) int {
	if dims > 0 {
		return dims
	}
	n.shape[0] = 1
	for i := range tensors {
		n.tensors[i].stride[0] = 1
	}
	return 1
}

func upTo(n int) []int {
	dims := make([]int, n, kernels.MaxDims)
	for i := range dims {
		dims[i] = i
	}
	return dims
}

// Map goes through the elements in the order in which the result lies.
func (n *Networks) Map(dst kernels.Tensor, p *kernels.Program, operands ...kernels.Tensor) {
	if !n.ok(kernels.CheckMap(dst, p, operands)) || !n.ok(fits(p, len(operands))) || dst.Elements() == 0 {
		return
	}
	dims := order(upTo(len(dst.Shape)), dst)
	n.setTensors(dst.Shape, dims, append([]kernels.Tensor{dst}, operands...)...)
	tensors := len(operands) + 1
	count := n.atLeastOne(n.join(0, len(dims), tensors), tensors)
	instructions, length := code(p)
	C.pn_map(&n.device, instructions, length, C.int(len(operands)), C.int(count), &n.shape[0], &n.tensors[0])
}

// host is memory of Go's.
type host []byte

func (h host) At(off int64) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(h)), off)
}

func (h host) Bytes() int64 { return int64(len(h)) }

func (h host) Free() {}

var copies = &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Copy}}}

// Import is a Map that reads data where it is.
func (n *Networks) Import(dst, src kernels.Tensor, data []byte) {
	src.Buf = host(data)
	var pinned runtime.Pinner
	if len(data) > 0 {
		pinned.Pin(unsafe.SliceData(data))
	}
	n.Map(dst, copies, src)
	n.tensors[1].at = nil
	pinned.Unpin()
}

// Interpolate goes through the other dimensions line by line.
func (n *Networks) Interpolate(dst, src kernels.Tensor, dim int, t kernels.Taps) {
	if !n.ok(kernels.CheckInterpolate(dst, src, dim, t)) || dst.Elements() == 0 {
		return
	}
	dims := order(slices.DeleteFunc(upTo(len(dst.Shape)), func(i int) bool { return i == dim }), dst)
	n.setTensors(dst.Shape, dims, dst, src)
	count := n.atLeastOne(n.join(0, len(dims), 2), 2)
	C.pn_interpolate(&n.device, C.int(dst.Shape[dim]), C.ptrdiff_t(dst.Stride[dim]), C.ptrdiff_t(src.Stride[dim]),
		(*C.int32_t)(unsafe.SliceData(t.Start)), (*C.int32_t)(unsafe.SliceData(t.Index)), (*C.float)(unsafe.SliceData(t.Weight)),
		C.int(count), &n.shape[0], &n.tensors[0])
}

// MatMul packs b into panels, which tiles of a are multiplied with.
func (n *Networks) MatMul(dst, a, b kernels.Tensor) {
	if !n.ok(kernels.CheckMatMul(dst, a, b)) || dst.Elements() == 0 {
		return
	}
	rows, cols := len(dst.Shape)-2, len(dst.Shape)-1
	strides := func(t kernels.Tensor) [2]C.ptrdiff_t {
		return [2]C.ptrdiff_t{C.ptrdiff_t(t.Stride[rows]), C.ptrdiff_t(t.Stride[cols])}
	}
	n.product = C.pn_product{
		m: C.int(dst.Shape[rows]), n: C.int(dst.Shape[cols]), k: C.int(a.Shape[cols]),
		dst: strides(dst), a: strides(a), b: strides(b),
	}
	n.setTensors(dst.Shape, upTo(rows), dst, a, b)
	n.memory("matrix product", C.pn_multiply(&n.device, &n.product, C.int(n.join(0, rows, 3)), &n.shape[0], &n.tensors[0]))
}

// Reduce makes vectors of results where these lie side by side, and else one after the other.
func (n *Networks) Reduce(dst, src kernels.Tensor, how kernels.Reduction) {
	if !n.ok(kernels.CheckReduce(dst, src, how)) || dst.Elements() == 0 {
		return
	}
	var kept, reduced []int
	for i := range dst.Shape {
		if dst.Shape[i] == src.Shape[i] {
			kept = append(kept, i)
		} else {
			reduced = append(reduced, i)
		}
	}
	kept, reduced = order(kept, src), order(reduced, src)
	result := dst
	result.Stride = slices.Clone(dst.Stride)
	for _, i := range reduced {
		result.Stride[i] = 0
	}
	n.setTensors(src.Shape, append(slices.Clone(kept), reduced...), result, src)
	keptCount := n.join(0, len(kept), 2)
	for i, d := range reduced { // behind those kept, which may have become fewer
		n.shape[keptCount+i] = C.int64_t(src.Shape[d])
		n.tensors[0].stride[keptCount+i], n.tensors[1].stride[keptCount+i] = 0, C.ptrdiff_t(src.Stride[d])
	}
	reducedCount := n.join(keptCount, keptCount+len(reduced), 2) - keptCount
	C.pn_reduce(&n.device, C.int(how), C.int(keptCount), C.int(reducedCount), &n.shape[0], &n.tensors[0])
}
