//go:build cgo && linux && amd64

package networks

// #include "networks.h"
import "C"

import "github.com/prefillonly/prefillonly/kernels"

// Pool computes strips of outputs, vectors of channels at a time.
func (n *Networks) Pool(dst, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	if !n.ok(kernels.CheckPool(dst, src, s, origin)) || dst.Elements() == 0 {
		return
	}
	n.setPool(dst, src, s, origin)
	C.pn_pool_forward(&n.device, &n.pool, at(dst), at(src))
}

// PoolBackward divides the channels among the threads, since windows overlap.
func (n *Networks) PoolBackward(dst, grad, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	if !n.ok(kernels.CheckPoolBackward(dst, grad, src, s, origin)) || dst.Elements() == 0 {
		return
	}
	n.setPool(grad, dst, s, origin)
	if s.Max {
		n.images[0] = image(src, len(s.Kernel))
	}
	C.pn_pool_backward(&n.device, &n.pool, at(dst), at(grad), &n.images[0])
}

func (n *Networks) setPool(output, input kernels.Tensor, s kernels.PoolSpec, origin []int) {
	spatial := len(s.Kernel)
	n.pool = C.pn_pool{
		images: C.int(output.Shape[0]), channels: C.int(output.Shape[spatial+1]),
		dst_image: C.ptrdiff_t(output.Stride[0]), src_image: C.ptrdiff_t(input.Stride[0]),
	}
	setAxes(&n.pool.axis, spatial, func(i int) C.pn_axis {
		return forwardAxis(output, input, s.Kernel, s.Strides, s.Dilations, origin, i)
	})
	for i := range n.pool.end {
		n.pool.end[i] = 1
	}
	if s.Max {
		n.pool.maximum = 1
	} else if s.Counted {
		n.pool.counted = 1
		for i, end := range s.CountedEnd {
			n.pool.end[3-spatial+i] = C.int64_t(end)
		}
	}
}
