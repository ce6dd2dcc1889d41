//go:build cgo && linux && amd64

package networks

// #include "networks.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// maxChannels is of a group: one place of an input must have room in a thread's scratch.
const maxChannels = 1 << 19

// filter is packed weights; their memory is a buffer of the backend.
type filter struct {
	spec kernels.ConvSpec
	c    C.pn_filter
	held kernels.Buffer // nil once it is freed
}

func (f *filter) Spec() kernels.ConvSpec { return f.spec }

func (f *filter) Bytes() int64 {
	if f.held == nil {
		return 0
	}
	return f.held.Bytes()
}

func (f *filter) Free() {
	if f.held != nil {
		f.held.Free()
		f.held = nil
	}
}

// NewFilter packs weights for the direction forward; ConvBackward packs them for its own as it runs.
func (n *Networks) NewFilter(s kernels.ConvSpec, weight kernels.HostTensor) (kernels.Filter, error) {
	if err := kernels.CheckFilter(s, weight); err != nil {
		return nil, fmt.Errorf("kernels/cpu: %w", err)
	}
	if s.In/s.Groups > maxChannels || s.Out/s.Groups > maxChannels {
		return nil, fmt.Errorf("kernels/cpu: convolution of %d channels to %d in %d groups, want at most %d in a group", s.In, s.Out, s.Groups, maxChannels)
	}
	f := &filter{spec: s, c: shapeOf(s)}
	var err error
	if f.held, err = n.alloc(4 * int64(C.pn_filter_floats(&n.device, &f.c))); err != nil {
		return nil, err
	}
	f.c.weights = floatsOf(f.held)
	floats := make([]float32, weight.Rows*weight.Cols)
	kernels.Expand(floats, weight.Type, weight.Data)
	n.pack(f.c, (*C.float)(unsafe.SliceData(floats)), denseStrides(s))
	return f, nil
}

// shapeOf is a filter but for its weights.
func shapeOf(s kernels.ConvSpec) C.pn_filter {
	f := C.pn_filter{groups: C.int(s.Groups), in: C.int(s.In / s.Groups), out: C.int(s.Out / s.Groups)}
	for i := range f.kernel {
		f.kernel[i] = 1
	}
	for i, k := range s.Kernel {
		f.kernel[3-len(s.Kernel)+i] = C.int(k)
	}
	if s.Groups > 1 && s.Groups == s.In && s.Groups == s.Out {
		f.depthwise = 1
	}
	return f
}

// denseStrides are those of weights [groups, outputs and inputs of a group, kernel...] that lie one after the other.
func denseStrides(s kernels.ConvSpec) []int {
	strides, next := make([]int, 3+len(s.Kernel)), 1
	for i, size := range slices.Backward(append([]int{s.Groups, s.Out / s.Groups, s.In / s.Groups}, s.Kernel...)) {
		strides[i] = next
		next *= size
	}
	return strides
}

// pack packs weights that lie by strides.
func (n *Networks) pack(f C.pn_filter, weights *C.float, strides []int) {
	for i := range 6 {
		n.strides[i] = 0
	}
	copyStrides := func(to int, from []int) {
		for i, s := range from {
			n.strides[to+i] = C.ptrdiff_t(s)
		}
	}
	copyStrides(0, strides[:3])
	copyStrides(6-len(strides[3:]), strides[3:])
	C.pn_filter_pack(&n.device, &f, weights, &n.strides[0])
}

// PackedFloats implements kernels.Packer.
func (n *Networks) PackedFloats(s kernels.ConvSpec) int {
	if s.In/s.Groups > maxChannels || s.Out/s.Groups > maxChannels {
		return 0
	}
	f := shapeOf(s)
	return int(C.pn_filter_floats(&n.device, &f))
}

// Pack implements kernels.Packer.
func (n *Networks) Pack(dst kernels.Tensor, s kernels.ConvSpec, weight kernels.Tensor) {
	if n.ok(s.Check()) && n.ok(kernels.CheckPack(dst, n.PackedFloats(s), s, weight)) {
		f := shapeOf(s)
		f.weights = at(dst)
		n.pack(f, at(weight), weight.Stride)
	}
}

// lent is memory that is another's.
type lent struct{}

func (lent) Bytes() int64 { return 0 }
func (lent) Free()        {}

// Packed implements kernels.Packer.
func (n *Networks) Packed(s kernels.ConvSpec, t kernels.Tensor) kernels.Filter {
	f := &filter{spec: s, c: shapeOf(s), held: lent{}}
	f.c.weights = at(t)
	return f
}

// own is a filter of this backend that is not freed; it reports any other.
func (n *Networks) own(f kernels.Filter) (*filter, bool) {
	own, ok := f.(*filter)
	if !ok || own.held == nil {
		n.report(fmt.Errorf("filter of another backend, or freed"))
		return nil, false
	}
	return own, true
}

// floatsOf is where a buffer's elements are; nil of none.
func floatsOf(b kernels.Buffer) *C.float {
	if b == nil {
		return nil
	}
	return (*C.float)(b.(Memory).At(0))
}

// setAxes sets the axes of a convolution or pool; axis i is set by the spatial dimension i, and those before by none.
func setAxes(axes *[3]C.pn_axis, spatial int, axis func(i int) C.pn_axis) {
	for i := range axes {
		if j := i - (3 - spatial); j >= 0 {
			axes[i] = axis(j)
		} else {
			axes[i] = C.pn_axis{out: 1, in: 1, taps: 1, step: 1, dilation: 1, weight_step: 1}
		}
	}
}

// forwardAxis is dimension i of what computes outputs of inputs.
func forwardAxis(output, input kernels.Tensor, kernel, strides, dilations, origin []int, i int) C.pn_axis {
	return C.pn_axis{
		out: C.int(output.Shape[i+1]), in: C.int(input.Shape[i+1]), taps: C.int(kernel[i]), step: C.int(strides[i]),
		dilation: C.int(dilations[i]), base: C.int64_t(origin[i]), dst: C.ptrdiff_t(output.Stride[i+1]),
		src: C.ptrdiff_t(input.Stride[i+1]), weight_step: 1,
	}
}

// Conv computes tiles of outputs, and the program on each block of them while it is in the cache.
func (n *Networks) Conv(dst, src kernels.Tensor, f kernels.Filter, a kernels.Affine, origin []int, then *kernels.Program, operands ...kernels.Tensor) {
	own, ok := n.own(f)
	if !ok {
		return
	}
	s := own.spec
	if !n.ok(kernels.CheckConv(dst, src, s, a, origin, then, operands)) {
		return
	}
	if then != nil && !n.ok(fits(then, len(operands)+1)) || dst.Elements() == 0 {
		return
	}
	spatial := len(s.Kernel)
	c := &n.convolution
	*c = C.pn_convolution{
		images: C.int(dst.Shape[0]), dst: at(dst), src: at(src), scale: floatsOf(a.Scale), shift: floatsOf(a.Shift),
		dst_image: C.ptrdiff_t(dst.Stride[0]), src_image: C.ptrdiff_t(src.Stride[0]),
	}
	setAxes(&c.axis, spatial, func(i int) C.pn_axis {
		return forwardAxis(dst, src, s.Kernel, s.Strides, s.Dilations, origin, i)
	})
	for i, o := range operands {
		n.images[i] = image(o, spatial)
	}
	instructions, count := code(then)
	results := 0
	if then != nil {
		results = len(then.Also)
		for i, r := range then.Also {
			n.also[i] = C.int64_t(r)
		}
	}
	C.pn_convolve(&n.device, &n.convolution, &own.c, instructions, count, &n.images[0], C.int(len(operands)-results), &n.also[0], C.int(results))
}

// image describes a tensor [N, spatial..., C].
func image(t kernels.Tensor, spatial int) C.pn_image {
	m := C.pn_image{at: at(t), image: C.ptrdiff_t(t.Stride[0]), channel: C.ptrdiff_t(t.Stride[spatial+1])}
	for i := range spatial {
		m.axis[3-spatial+i] = C.ptrdiff_t(t.Stride[i+1])
	}
	return m
}

// ConvBackward divides dst into as many parts as the strides have remainders: of the places of a part,
// neighbours get the same taps of neighbouring outputs, so that each part is a convolution by itself.
func (n *Networks) ConvBackward(dst, src kernels.Tensor, f kernels.Filter, origin []int) {
	own, ok := n.own(f)
	if !ok {
		return
	}
	s := own.spec
	if !n.ok(kernels.CheckConvBackward(dst, src, s, origin)) || dst.Elements() == 0 {
		return
	}
	spatial := len(s.Kernel)
	parts := 1
	for i := range spatial {
		parts *= min(s.Strides[i], dst.Shape[i+1])
	}
	for part := range parts {
		var offset [3]int
		rest := part
		for i := range spatial {
			d := min(s.Strides[i], dst.Shape[i+1])
			offset[i], rest = rest%d, rest/d
		}
		n.backwardPart(dst, src, own, origin, offset)
	}
}

// backwardPart computes the places of dst that lie at offset plus multiples of the strides.
func (n *Networks) backwardPart(dst, src kernels.Tensor, f *filter, origin []int, offset [3]int) {
	c := &n.convolution
	first := dst
	for i := range f.spec.Kernel {
		first.Off += 4 * int64(offset[i]*dst.Stride[i+1])
	}
	*c = C.pn_convolution{
		images: C.int(dst.Shape[0]), dst: at(first), src: at(src),
		dst_image: C.ptrdiff_t(dst.Stride[0]), src_image: C.ptrdiff_t(src.Stride[0]),
	}
	setAxes(&c.axis, len(f.spec.Kernel), func(i int) C.pn_axis {
		a := backwardAxis(f.spec.Kernel[i], f.spec.Strides[i], f.spec.Dilations[i], offset[i]-origin[i])
		a.out = C.int((dst.Shape[i+1]-offset[i]-1)/f.spec.Strides[i] + 1)
		a.in = C.int(src.Shape[i+1])
		a.dst, a.src = C.ptrdiff_t(dst.Stride[i+1]*f.spec.Strides[i]), C.ptrdiff_t(src.Stride[i+1])
		return a
	})
	n.memory("convolution backward", C.pn_convolve_backward(&n.device, &n.convolution, &f.c))
}

// backwardAxis finds the taps of a place that lies `place` behind the origin: tap k of output o is at
// o*stride + k*dilation. Those that a place of its remainder has are each stride/gcd(stride, dilation)-th.
func backwardAxis(kernel, stride, dilation, place int) C.pn_axis {
	common := gcd(stride, dilation)
	step, k := stride/common, 0
	for k < min(step, kernel) && (place-k*dilation)%stride != 0 {
		k++
	}
	a := C.pn_axis{step: 1, dilation: C.int(-dilation / common), weight: C.int(k), weight_step: C.int(step)}
	if k < min(step, kernel) {
		a.taps = C.int((kernel-1-k)/step + 1)
		a.base = C.int64_t((place - k*dilation) / stride)
	}
	return a
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
