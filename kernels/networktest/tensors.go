package networktest

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// drawNormalArray draws an array of float32 numbers.
func (d *device) drawNormalArray(shape ...int) Array {
	a := NewArray(shape...)
	for i := range a.V {
		a.V[i] = float64(float32(d.random.NormFloat64()))
	}
	return a
}

// untouched is a NaN that no operation makes: what lies between a view's elements, and in results before they
// are written.
const untouched = 0x7fc0dead

// places in a view's buffer that hold no element, before its first one and after its last one.
const margin = 9

// newView makes a tensor with the strides, in a buffer that holds its elements and no more than a margin beside.
func (d *device) newView(shape, stride []int) kernels.Tensor {
	d.t.Helper()
	first, last := 0, 0
	for i, n := range shape {
		if n > 1 {
			first, last = first+min(0, stride[i]*(n-1)), last+max(0, stride[i]*(n-1))
		}
	}
	elements := last - first + 1 + 2*margin
	buf, err := d.Alloc(4 * int64(elements))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(buf.Free)
	raw := make([]byte, 4*elements)
	for i := range elements {
		binary.LittleEndian.PutUint32(raw[4*i:], untouched)
	}
	d.Write(buf, 0, raw)
	return kernels.Tensor{Buf: buf, Off: int64(4 * (margin - first)), Shape: slices.Clone(shape), Stride: slices.Clone(stride)}
}

// imageStrides are those of [N, spatial..., C] as a part of a wider and higher one, or dense.
func (d *device) imageStrides(shape []int) []int {
	stride, next, wide := make([]int, len(shape)), 1, d.upTo(2) > 0
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i] = next
		if next *= max(1, shape[i]); wide {
			next += d.upTo(3) * (next/max(1, shape[i]) + i%2)
		}
	}
	return stride
}

// anyStrides are those of a tensor whose dimensions lie in any order, some backwards, with gaps; of an operand
// some may be 0.
func (d *device) anyStrides(shape []int, repeats bool) []int {
	stride, next := make([]int, len(shape)), pickChoice(d, 1, 1, 2)
	order := d.random.Perm(len(shape))
	if d.upTo(1) == 0 { // as it is
		slices.SortFunc(order, func(a, b int) int { return b - a })
	}
	for _, i := range order {
		stride[i] = next * pickChoice(d, 1, 1, 1, -1)
		if repeats && d.upTo(4) == 0 {
			stride[i] = 0
			continue
		}
		next *= max(1, shape[i])
		next += pickChoice(d, 0, 0, 3)
	}
	return stride
}

// elementOffset is the byte of an element.
func elementOffset(t kernels.Tensor, at []int) int64 {
	off := t.Off
	for i, s := range t.Stride {
		off += 4 * int64(s) * int64(at[i])
	}
	return off
}

// writeElements writes the elements of a view; where elements repeat, the last one stays.
func (d *device) writeElements(t kernels.Tensor, a Array) kernels.Tensor {
	raw := make([]byte, t.Buf.Bytes())
	d.syncOrFail()
	d.Read(raw, t.Buf, 0)
	i := 0
	Places(t.Shape, func(at []int) {
		binary.LittleEndian.PutUint32(raw[elementOffset(t, at):], math.Float32bits(float32(a.V[i])))
		i++
	})
	d.Write(t.Buf, 0, raw)
	return t
}

// uploadImage uploads [N, spatial..., C].
func (d *device) uploadImage(a Array) kernels.Tensor {
	return d.writeElements(d.newView(a.Shape, d.imageStrides(a.Shape)), a)
}

// imageResult is where an operation writes an image.
func (d *device) imageResult(shape ...int) kernels.Tensor {
	return d.newView(shape, d.imageStrides(shape))
}

// uploadOperand uploads an array with any strides, and returns what the view then holds: not all of it, where
// elements repeat.
func (d *device) uploadOperand(a Array) (kernels.Tensor, Array) {
	t := d.writeElements(d.newView(a.Shape, d.anyStrides(a.Shape, true)), a)
	return t, d.readElements(t)
}

// newResult is where an operation writes anything but an image.
func (d *device) newResult(shape ...int) kernels.Tensor {
	return d.newView(shape, d.anyStrides(shape, false))
}

// elementBits are the elements of a view.
func (d *device) elementBits(t kernels.Tensor) []uint32 {
	d.t.Helper()
	d.syncOrFail()
	raw := make([]byte, t.Buf.Bytes())
	d.Read(raw, t.Buf, 0)
	out := make([]uint32, 0, t.Elements())
	Places(t.Shape, func(at []int) { out = append(out, binary.LittleEndian.Uint32(raw[elementOffset(t, at):])) })
	return out
}

func (d *device) readElements(t kernels.Tensor) Array {
	d.t.Helper()
	a := Array{Shape: t.Shape}
	for _, b := range d.elementBits(t) {
		a.V = append(a.V, float64(math.Float32frombits(b)))
	}
	return a
}

// readResult is the elements of a result, all of which must have been written, and nothing beside them.
func (d *device) readResult(what string, t kernels.Tensor) Array {
	d.t.Helper()
	for i, b := range d.elementBits(t) {
		if b == untouched {
			d.t.Fatalf("%s: element %d of %v was not written", what, i, t.Shape)
		}
	}
	d.checkGaps(what, t)
	return d.readElements(t)
}

// checkGaps checks that what is no element of t is untouched.
func (d *device) checkGaps(what string, t kernels.Tensor) {
	d.t.Helper()
	raw := make([]byte, t.Buf.Bytes())
	d.Read(raw, t.Buf, 0)
	element := make([]bool, len(raw)/4)
	Places(t.Shape, func(at []int) { element[elementOffset(t, at)/4] = true })
	for i := range element {
		if b := binary.LittleEndian.Uint32(raw[4*i:]); !element[i] && b != untouched {
			d.t.Fatalf("%s: place %d of the buffer, which is no element of %v by %v from %d on, was overwritten with %v",
				what, i, t.Shape, t.Stride, t.Off/4, math.Float32frombits(b))
		}
	}
}
