package ref

import (
	"math"
	"sync"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.Networks = (*Backend)(nil)

// tensorFloats is the buffer's elements, and where among them the tensor's first one is.
func tensorFloats(t kernels.Tensor) (all []float32, first int) {
	return t.Buf.(*buffer).floats, int(t.Off / 4)
}

// recordError keeps the error of a call that does not fit, for Sync.
func (b *Backend) recordError(err error) bool {
	if err != nil {
		b.recordFailure("%w", err)
	}
	return err != nil
}

// image is a tensor [N, spatial..., C] with three spatial dimensions, of which the first ones may be 1.
type image struct {
	data   []float32 // from the first element on
	n, c   int
	size   [3]int
	stride [3]int
	next   int // elements from one of n to the next
}

func imageOf(t kernels.Tensor) image {
	spatial := len(t.Shape) - 2
	m := image{n: t.Shape[0], c: t.Shape[spatial+1], next: t.Stride[0], size: [3]int{1, 1, 1}}
	copy(m.size[3-spatial:], t.Shape[1:])
	copy(m.stride[3-spatial:], t.Stride[1:spatial+1])
	all, first := tensorFloats(t)
	m.data = all[first:]
	return m
}

// pixelChannels is the channels at a place.
func (m *image) pixelChannels(n int, at [3]int) []float32 {
	i := n*m.next + at[0]*m.stride[0] + at[1]*m.stride[1] + at[2]*m.stride[2]
	return m.data[i : i+m.c]
}

func (m *image) pixelCount() int { return m.size[0] * m.size[1] * m.size[2] }

// rowMajorPlace is the place of the i-th pixel, row-major.
func rowMajorPlace(i int, size [3]int) [3]int {
	return [3]int{i / size[2] / size[1], i / size[2] % size[1], i % size[2]}
}

// window is where the taps of an output lie, in three spatial dimensions.
type window struct {
	kernel, stride, dilation, origin [3]int
}

func windowOf(kernel, strides, dilations, origin []int) window {
	w := window{kernel: [3]int{1, 1, 1}, stride: [3]int{1, 1, 1}, dilation: [3]int{1, 1, 1}}
	skip := 3 - len(kernel)
	copy(w.kernel[skip:], kernel)
	copy(w.stride[skip:], strides)
	copy(w.dilation[skip:], dilations)
	copy(w.origin[skip:], origin)
	return w
}

func (w *window) tapCount() int { return w.kernel[0] * w.kernel[1] * w.kernel[2] }

// inputOfTap is the place of a tap of an output.
func (w *window) inputOfTap(output [3]int, tap int) (at [3]int) {
	k := rowMajorPlace(tap, w.kernel)
	for i := range at {
		at[i] = output[i]*w.stride[i] + w.origin[i] + k[i]*w.dilation[i]
	}
	return at
}

// output is the place, maybe outside, of the output that has the input at the tap, if there is one.
func (w *window) output(input [3]int, tap int) (at [3]int, ok bool) {
	k := rowMajorPlace(tap, w.kernel)
	for i := range at {
		from := input[i] - w.origin[i] - k[i]*w.dilation[i]
		if from%w.stride[i] != 0 {
			return at, false
		}
		at[i] = from / w.stride[i]
	}
	return at, true
}

func isInside(at, size [3]int) bool {
	for i := range at {
		if at[i] < 0 || at[i] >= size[i] {
			return false
		}
	}
	return true
}

// forEachRow calls do for all rows of pixels, as (n, place of the first one).
func (m *image) forEachRow(do func(n int, first [3]int)) {
	if m.n*m.pixelCount()*m.c == 0 {
		return
	}
	perImage := m.size[0] * m.size[1]
	runParallel(m.n*perImage, func(task int) {
		n, row := task/perImage, task%perImage
		do(n, [3]int{row / m.size[1], row % m.size[1], 0})
	})
}

var negativeInfinity = float32(math.Inf(-1))

// scratch is memory that goroutines take turns with.
type scratch[T any] struct{ pool sync.Pool }

var (
	sums      scratch[float64]
	registers scratch[float32]
)

// withZeros calls do with n zeros.
func (s *scratch[T]) withZeros(n int, do func(zeros []T)) {
	m, ok := s.pool.Get().(*[]T)
	if !ok || cap(*m) < n {
		all := make([]T, n)
		m = &all
	}
	*m = (*m)[:n]
	clear(*m)
	do(*m)
	s.pool.Put(m)
}
