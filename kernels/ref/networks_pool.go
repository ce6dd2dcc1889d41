package ref

import "github.com/prefillonly/prefillonly/kernels"

// Pool computes means in float64.
func (b *Backend) Pool(dst, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	if b.recordError(kernels.CheckPool(dst, src, s, origin)) {
		return
	}
	out, in, w := imageOf(dst), imageOf(src), windowOf(s.Kernel, s.Strides, s.Dilations, origin)
	out.forEachRow(func(n int, at [3]int) {
		for at[2] = range out.size[2] {
			if s.Max {
				maxOfTaps(out.pixelChannels(n, at), &in, w, n, at)
			} else {
				meanOfTaps(out.pixelChannels(n, at), &in, w, n, at, meanDivisor(s, w, in.size, at))
			}
		}
	})
}

// maxOfTaps sets dst to the maxima of an output's taps.
func maxOfTaps(dst []float32, in *image, w window, n int, output [3]int) {
	for i := range dst {
		dst[i] = negativeInfinity
	}
	for tap := range w.tapCount() {
		at := w.inputOfTap(output, tap)
		if !isInside(at, in.size) {
			continue
		}
		for i, v := range in.pixelChannels(n, at) {
			if exceedsMaximum(v, dst[i]) {
				dst[i] = v
			}
		}
	}
}

// exceedsMaximum says whether v takes the place of a maximum; the first NaN stays.
func exceedsMaximum(v, top float32) bool { return v > top || v != v && top == top }

// meanOfTaps sets dst to the means of an output's taps.
func meanOfTaps(dst []float32, in *image, w window, n int, output [3]int, divisor int) {
	sums.withZeros(len(dst), func(sum []float64) {
		for tap := range w.tapCount() {
			if at := w.inputOfTap(output, tap); isInside(at, in.size) {
				for i, v := range in.pixelChannels(n, at) {
					sum[i] += float64(v)
				}
			}
		}
		for i, v := range sum {
			dst[i] = float32(v / float64(max(1, divisor)))
		}
	})
}

// meanDivisor is the number of taps of an output that a mean counts.
func meanDivisor(s kernels.PoolSpec, w window, size, output [3]int) int {
	begin, end := [3]int{}, size
	if s.Counted {
		begin = w.origin
		copy(end[3-len(s.CountedEnd):], s.CountedEnd)
	}
	count := 0
	for tap := range w.tapCount() {
		at := w.inputOfTap(output, tap)
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
	if b.recordError(kernels.CheckPoolBackward(dst, grad, src, s, origin)) || dst.Elements() == 0 {
		return
	}
	in, out, w := imageOf(dst), imageOf(grad), windowOf(s.Kernel, s.Strides, s.Dilations, origin)
	values := in
	if s.Max {
		values = imageOf(src)
	}
	blocks := (in.c + channelsPerTask - 1) / channelsPerTask
	runParallel(in.n*blocks, func(task int) {
		n, from := task/blocks, task%blocks*channelsPerTask
		to := min(in.c, from+channelsPerTask)
		sums.withZeros(in.pixelCount()*(to-from), func(sum []float64) {
			for i := range out.pixelCount() {
				at := rowMajorPlace(i, out.size)
				g := out.pixelChannels(n, at)[from:to]
				if s.Max {
					scatterLargest(sum, g, &values, from, w, n, at)
				} else {
					scatterMean(sum, g, in.size, w, at, meanDivisor(s, w, in.size, at))
				}
			}
			for i := range in.pixelCount() {
				for c, v := range sum[i*(to-from) : (i+1)*(to-from)] {
					in.pixelChannels(n, rowMajorPlace(i, in.size))[from+c] = float32(v)
				}
			}
		})
	})
}

// rowMajorIndex is the number of a place, row-major.
func rowMajorIndex(at, size [3]int) int { return (at[0]*size[1]+at[1])*size[2] + at[2] }

// scatterLargest adds an output's gradient, of channels from on, to those of the largest inputs.
func scatterLargest(sums []float64, grad []float32, in *image, from int, w window, n int, output [3]int) {
	for c, g := range grad {
		top, first := negativeInfinity, -1
		for tap := range w.tapCount() {
			at := w.inputOfTap(output, tap)
			if !isInside(at, in.size) {
				continue
			}
			if v := in.pixelChannels(n, at)[from+c]; first < 0 || exceedsMaximum(v, top) {
				top, first = v, rowMajorIndex(at, in.size)
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
	for tap := range w.tapCount() {
		at := w.inputOfTap(output, tap)
		if !isInside(at, size) {
			continue
		}
		i := rowMajorIndex(at, size) * len(grad)
		for c, g := range grad {
			sums[i+c] += float64(g) * share
		}
	}
}
