package cuda

import "github.com/prefillonly/prefillonly/kernels"

// pooling are pf_pooling's words; source is that of a maximum's gradient, whose largest taps lie at largest.
func (o *networkOperations) pooling(output, input kernels.Tensor, s kernels.PoolSpec, origin []int, source *kernels.Tensor, largest uint64) words {
	w := o.newWords()
	w.addImage(output)
	w.addImage(input)
	w.window(s.Kernel, s.Strides, s.Dilations, origin)
	spatial := len(s.Kernel)
	if s.Counted && !s.Max {
		w.addThreeDims(origin, 0)
		w.addThreeDims(s.CountedEnd, 1)
	} else {
		w.addThreeDims(make([]int, spatial), 0)
		w.addThreeDims(input.Shape[1:spatial+1], 1)
	}
	if source != nil {
		w.addAddress(*source)
		w.addInts(source.Stride[0])
		w.addThreeDims(source.Stride[1:spatial+1], 0)
	} else {
		w.addInts(0, 0, 0, 0, 0)
	}
	w.list = append(w.list, largest)
	return w
}

// Pool launches a thread for each element of the output.
func (o *networkOperations) Pool(dst, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	if o.refused(kernels.CheckPool(dst, src, s, origin)) {
		return
	}
	kernel := "pf_pool_mean"
	if s.Max {
		kernel = "pf_pool_max"
	}
	o.launch(kernel, dst.Elements(), o.pooling(dst, src, s, origin, nil, 0))
}

// PoolBackward gathers, for each element of the input, from the outputs; of maxima their taps are found first.
func (o *networkOperations) PoolBackward(dst, grad, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	if o.refused(kernels.CheckPoolBackward(dst, grad, src, s, origin)) || dst.Elements() == 0 {
		return
	}
	if !s.Max {
		o.launch("pf_pool_backward", dst.Elements(), o.pooling(grad, dst, s, origin, nil, 0))
		return
	}
	largest := o.device.Scratch(4 * int64(max(1, grad.Elements())))
	if largest == 0 {
		return
	}
	w := o.pooling(grad, dst, s, origin, &src, largest)
	o.launch("pf_pool_largest", grad.Elements(), w)
	o.launch("pf_pool_backward", dst.Elements(), w)
}
