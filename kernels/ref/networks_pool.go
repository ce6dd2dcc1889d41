package ref

import "github.com/prefillonly/prefillonly/kernels"

// Pool computes means in float64.
func (b *Backend) Pool(dst, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	if b.refuse(kernels.CheckPool(dst, src, s, origin)) {
		return
	}
	out, in, w := imageOf(dst), imageOf(src), windowOf(s.Kernel, s.Strides, s.Dilations, origin)
	out.rows(func(n int, at [3]int) {
		for at[2] = range out.size[2] {
			if s.Max {
				largest(out.pixel(n, at), &in, w, n, at)
			} else {
				mean(out.pixel(n, at), &in, w, n, at, divisor(s, w, in.size, at))
			}
		}
	})
}

// largest sets dst to the maxima of an output's taps.
func largest(dst []float32, in *image, w window, n int, output [3]int) {
	for i := range dst {
		dst[i] = negativeInfinity
	}
	for tap := range w.taps() {
		at := w.input(output, tap)
		if !inside(at, in.size) {
			continue
		}
		for i, v := range in.pixel(n, at) {
			if above(v, dst[i]) {
				dst[i] = v
			}
		}
	}
}

// above says whether v takes the place of a maximum; the first NaN stays.
func above(v, top float32) bool { return v > top || v != v && top == top }

// mean sets dst to the means of an output's taps.
func mean(dst []float32, in *image, w window, n int, output [3]int, divisor int) {
	sums.with(len(dst), func(sum []float64) {
		for tap := range w.taps() {
			if at := w.input(output, tap); inside(at, in.size) {
				for i, v := range in.pixel(n, at) {
					sum[i] += float64(v)
				}
			}
		}
		for i, v := range sum {
			dst[i] = float32(v / float64(max(1, divisor)))
		}
	})
}

// divisor is the number of taps of an output that a mean counts.
func divisor(s kernels.PoolSpec, w window, size, output [3]int) int {
	begin, end := [3]int{}, size
	if s.Counted {
		begin = w.origin
		copy(end[3-len(s.CountedEnd):], s.CountedEnd)
	}
	count := 0
	for tap := range w.taps() {
		at := w.input(output, tap)
		counts := true
		for i := range at {
			counts = counts && at[i] >= begin[i] && at[i] < end[i]
		}
		if counts {
			count++
		}
	}
	return count
}

// channelsPerTask is how many channels one goroutine scatters a gradient to.
const channelsPerTask = 16

// PoolBackward scatters the gradients of outputs, in their order.
func (b *Backend) PoolBackward(dst, grad, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	if b.refuse(kernels.CheckPoolBackward(dst, grad, src, s, origin)) || dst.Elements() == 0 {
		return
	}
	in, out, w := imageOf(dst), imageOf(grad), windowOf(s.Kernel, s.Strides, s.Dilations, origin)
	values := in
	if s.Max {
		values = imageOf(src)
	}
	blocks := (in.c + channelsPerTask - 1) / channelsPerTask
	parallel(in.n*blocks, func(task int) {
		n, from := task/blocks, task%blocks*channelsPerTask
		to := min(in.c, from+channelsPerTask)
		sums.with(in.pixels()*(to-from), func(sum []float64) {
			for i := range out.pixels() {
				at := place(i, out.size)
				g := out.pixel(n, at)[from:to]
				if s.Max {
					scatterLargest(sum, g, &values, from, w, n, at)
				} else {
					scatterMean(sum, g, in.size, w, at, divisor(s, w, in.size, at))
				}
			}
			for i := range in.pixels() {
				for c, v := range sum[i*(to-from) : (i+1)*(to-from)] {
					in.pixel(n, place(i, in.size))[from+c] = float32(v)
				}
			}
		})
	})
}

// index is the number of a place, row-major.
func index(at, size [3]int) int { return (at[0]*size[1]+at[1])*size[2] + at[2] }

// scatterLargest adds an output's gradient, of channels from on, to those of the largest inputs.
func scatterLargest(sums []float64, grad []float32, in *image, from int, w window, n int, output [3]int) {
	for c, g := range grad {
		top, first := negativeInfinity, -1
		for tap := range w.taps() {
			at := w.input(output, tap)
			if !inside(at, in.size) {
				continue
			}
			if v := in.pixel(n, at)[from+c]; first < 0 || above(v, top) {
				top, first = v, index(at, in.size)
			}
		}
		if first >= 0 {
			sums[first*len(grad)+c] += float64(g)
		}
	}
}

// scatterMean adds an output's gradient to those of all its inputs.
func scatterMean(sums []float64, grad []float32, size [3]int, w window, output [3]int, divisor int) {
	share := 1 / float64(max(1, divisor))
	for tap := range w.taps() {
		at := w.input(output, tap)
		if !inside(at, size) {
			continue
		}
		i := index(at, size) * len(grad)
		for c, g := range grad {
			sums[i+c] += float64(g) * share
		}
	}
}
