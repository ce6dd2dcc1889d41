package cuda

import (
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// sliceTensor is the elements [from, to) of a tensor along a dimension.
func sliceTensor(t kernels.Tensor, dim, from, to int) kernels.Tensor {
	t.Shape = slices.Clone(t.Shape)
	t.Shape[dim] = to - from
	t.Off += 4 * int64(t.Stride[dim]) * int64(from)
	return t
}

// dimension is a spatial dimension of a convolution: its window, and which elements of the whole take part.
type dimension struct {
	kernel, stride, dilation, origin int
	input, output                    [2]int // from, to
	pre, post                        int    // padding of that part
}

func (d *dimension) kernelReach() int { return d.dilation * (d.kernel - 1) }

// narrowToTaps leaves out outputs none of whose taps is inside the input, and inputs that are before the first tap or after
// the last. It says whether anything is left.
func (d *dimension) narrowToTaps(input, output int) bool {
	first := func(o int) int { return d.origin + o*d.stride }
	from, to := 0, output
	for from < to && first(from)+d.kernelReach() < 0 {
		from++
	}
	for from < to && first(to-1) >= input {
		to--
	}
	if from == to {
		return false
	}
	begin, end := first(from), first(to-1)+d.kernelReach()+1
	d.output, d.input = [2]int{from, to}, [2]int{max(0, begin), min(input, end)}
	d.pre, d.post = max(0, -begin), max(0, end-input)
	return d.input[0] < d.input[1]
}

// evenOutPadding makes padding after equal to that before, where no output more comes of it: engines pad both sides alike.
func (d *dimension) evenOutPadding() bool {
	if beyond := d.pre - d.post; beyond > 0 && beyond < d.stride {
		d.post = d.pre
	}
	return d.pre == d.post
}

// window are the two spatial dimensions of a call; a convolution along one is one of a single row. ok is false where
// all taps are outside.
func window(s kernels.ConvSpec, input, output kernels.Tensor, origin []int) (dims [2]dimension, ok bool) {
	spatial := len(s.Kernel)
	for i := range dims {
		d, at := &dims[i], i+spatial-2
		if at < 0 {
			*d = dimension{kernel: 1, stride: 1, dilation: 1, input: [2]int{0, 1}, output: [2]int{0, 1}}
			continue
		}
		*d = dimension{kernel: s.Kernel[at], stride: s.Strides[at], dilation: s.Dilations[at], origin: origin[at]}
		if !d.narrowToTaps(input.Shape[at+1], output.Shape[at+1]) {
			return dims, false
		}
	}
	return dims, true
}

// sliceSpatialDims of a tensor of images take part.
func sliceSpatialDims(t kernels.Tensor, dims [2]dimension, of func(dimension) [2]int) kernels.Tensor {
	spatial := len(t.Shape) - 2
	for i, d := range dims {
		if at := i + spatial - 2; at >= 0 {
			t = sliceTensor(t, at+1, of(d)[0], of(d)[1])
		}
	}
	return t
}

func inputOf(d dimension) [2]int  { return d.input }
func outputOf(d dimension) [2]int { return d.output }

// imageOf is how a tensor lies. The stride of a dimension of one element is any: it is that of a dense tensor here.
func imageOf(t kernels.Tensor) cudnn.ConvolutionImage {
	var m cudnn.ConvolutionImage
	spatial := len(t.Shape) - 2
	next := t.Shape[spatial+1]
	for i := 1; i >= 0; i-- {
		m.Size[i], m.Stride[i] = 1, next
		if at := i + spatial - 2; at >= 0 && t.Shape[at+1] > 1 {
			m.Size[i], m.Stride[i] = t.Shape[at+1], t.Stride[at+1]
		}
		next = m.Stride[i] * m.Size[i]
	}
	if m.Next = next; t.Shape[0] > 1 {
		m.Next = t.Stride[0]
	}
	return m
}

// convGeometry is a call of the parts that take part.
func convGeometry(input, output kernels.Tensor, dims [2]dimension) cudnn.ConvolutionGeometry {
	g := cudnn.ConvolutionGeometry{Images: output.Shape[0], Input: imageOf(input), Output: imageOf(output)}
	for i, d := range dims {
		g.Pre[i], g.Post[i] = d.pre, d.post
	}
	return g
}

// lent is a Buffer in the device's scratch memory.
type lent struct{ at uint64 }

func (lent) Bytes() int64 { return 0 }
func (lent) Free()        {}

// paddedTensor is a dense tensor, nowhere yet, of an input with its padding, and where in it the input lies.
func paddedTensor(input kernels.Tensor, dims [2]dimension) (all, inner kernels.Tensor) {
	all = kernels.Tensor{Shape: slices.Clone(input.Shape), Stride: make([]int, len(input.Shape))}
	spatial := len(all.Shape) - 2
	for i, d := range dims {
		if at := i + spatial - 2; at >= 0 {
			all.Shape[at+1] += d.pre + d.post
		}
	}
	next := 1
	for i := len(all.Shape) - 1; i >= 0; i-- {
		all.Stride[i], next = next, next*all.Shape[i]
	}
	inner = all
	for i, d := range dims {
		if at := i + spatial - 2; at >= 0 {
			inner = sliceTensor(inner, at+1, d.pre, d.pre+input.Shape[at+1])
		}
	}
	return all, inner
}
