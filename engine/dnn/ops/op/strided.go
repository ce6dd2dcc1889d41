package op

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Strides are those of a dense tensor, in elements.
func Strides(shape []int) []int {
	out := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = n
		n *= shape[i]
	}
	return out
}

// Gathered is the dense tensor of this shape whose elements lie stride elements of t apart, from element off on.
func Gathered(t *graph.Tensor, shape, stride []int, off int) *graph.Tensor {
	out := graph.NewTensor(t.Type, slices.Clone(shape)...)
	copyStrided(out.Data, t.Data, t.Type.Size(), shape, stride, off)
	return out
}

// copyStrided fills dst with elements of size bytes. Runs of src that lie together are copied at once.
func copyStrided(dst, src []byte, size int, shape, stride []int, off int) {
	if Product(shape) == 0 {
		return
	}
	last, run := len(shape), 1
	for last > 0 && (shape[last-1] == 1 || stride[last-1] == run) {
		last--
		run *= shape[last]
	}
	inner, step := 1, 0
	if last > 0 {
		last--
		inner, step = shape[last], stride[last]*size
	}
	chunk := run * size
	for _, start := range Offsets(shape[:last], stride[:last]) {
		at := (start + off) * size
		for range inner {
			if chunk == 4 { // the usual case, which copy is slow at
				copy(dst[:4:4], src[at:at+4:at+4])
			} else {
				copy(dst[:chunk], src[at:at+chunk])
			}
			dst = dst[chunk:]
			at += step
		}
	}
}

// Offsets are those of all elements of a shape, row-major.
func Offsets(shape, stride []int) []int {
	out := make([]int, 1, max(Product(shape), 1))
	for i, d := range shape {
		next := make([]int, 0, max(Product(shape), 1))
		for _, o := range out {
			for k := range d {
				next = append(next, o+k*stride[i])
			}
		}
		out = next
	}
	return out
}

// Expanded is t broadcast to a shape.
func Expanded(t *graph.Tensor, shape []int) *graph.Tensor {
	if slices.Equal(t.Shape, shape) {
		return t
	}
	return Gathered(t, shape, BroadcastStrides(t.Shape, shape), 0)
}

// BroadcastStrides are those with which a tensor of shape from is read as one of shape to.
func BroadcastStrides(from, to []int) []int {
	out, dense := make([]int, len(to)), Strides(from)
	for i, d := range from {
		if d != 1 {
			out[len(to)-len(from)+i] = dense[i]
		}
	}
	return out
}

// Permuted is t with dimension perm[i] as dimension i.
func Permuted(t *graph.Tensor, perm []int) *graph.Tensor {
	shape, stride, dense := make([]int, len(perm)), make([]int, len(perm)), Strides(t.Shape)
	for i, p := range perm {
		shape[i], stride[i] = t.Shape[p], dense[p]
	}
	return Gathered(t, shape, stride, 0)
}

// Taken is t with the entries of one dimension that index names; -1 is an entry of fill, or zeros without it.
func Taken(t *graph.Tensor, axis int, index []int, fill []byte) *graph.Tensor {
	shape := slices.Clone(t.Shape)
	shape[axis] = len(index)
	out := graph.NewTensor(t.Type, shape...)
	chunk := Product(shape[axis+1:]) * t.Type.Size()
	if chunk == 0 {
		return out
	}
	empty := make([]byte, chunk)
	if fill != nil {
		empty = slices.Repeat(fill, chunk/len(fill))
	}
	dst := out.Data
	for outer := range Product(shape[:axis]) {
		for _, k := range index {
			from := empty
			if k >= 0 {
				from = t.Data[(outer*t.Shape[axis]+k)*chunk:]
			}
			copy(dst[:chunk], from)
			dst = dst[chunk:]
		}
	}
	return out
}

// Around splits a shape into the products of the dimensions before an axis, of it, and after it.
func Around(shape []int, axis int) (outer, n, inner int) {
	return Product(shape[:axis]), shape[axis], Product(shape[axis+1:])
}
