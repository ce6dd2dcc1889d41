package kernels

import (
	"strings"
	"testing"
)

type memory int64

func (m memory) Bytes() int64 { return int64(m) }
func (m memory) Free()        {}

// FuzzTensorCheck compares with a walk over all elements.
func FuzzTensorCheck(f *testing.F) {
	f.Add(int64(0), int8(2), int8(3), int8(4), int8(12), int8(4), int8(1))
	f.Add(int64(92), int8(2), int8(3), int8(4), int8(-12), int8(-4), int8(-1))
	f.Add(int64(0), int8(2), int8(2), int8(2), int8(1), int8(1), int8(1))
	f.Fuzz(func(t *testing.T, off int64, a, b, c, sa, sb, sc int8) {
		x := Tensor{Buf: memory(96), Off: off, Shape: []int{int(a), int(b), int(c)}, Stride: []int{int(sa), int(sb), int(sc)}}
		fits, distinct := off >= 0 && off%4 == 0 && off <= 96, true
		for _, d := range x.Shape {
			fits = fits && d >= 0
		}
		seen := map[int64]bool{}
		for i := range max(0, int(a)) {
			for j := range max(0, int(b)) {
				for k := range max(0, int(c)) {
					at := off/4 + int64(i*int(sa)+j*int(sb)+k*int(sc))
					fits = fits && at >= 0 && at < 24
					distinct = distinct && !seen[at]
					seen[at] = true
				}
			}
		}
		err := x.Check()
		if (err == nil) != fits {
			t.Fatalf("%+v: %v", x, err)
		}
		// Not every view without shared places nests, but one that nests shares none.
		if err == nil && x.checkDistinct() == nil && !distinct {
			t.Fatalf("%+v shares places", x)
		}
	})
}

func TestTensorCheckOverflows(t *testing.T) {
	for _, x := range []Tensor{
		{Buf: memory(1 << 40), Shape: []int{1 << 31}, Stride: []int{1}},
		{Buf: memory(1 << 40), Shape: []int{1<<31 - 1, 2}, Stride: []int{1 << 37, 1}},
		{Buf: memory(1 << 40), Shape: []int{2}, Stride: []int{-1 << 63}},
		{Buf: memory(96), Off: 1 << 62, Shape: []int{2}, Stride: []int{1}},
		{Shape: []int{2}, Stride: []int{1}},
		{Buf: memory(96), Shape: []int{2}},
		{Buf: memory(96), Shape: make([]int, 9), Stride: make([]int, 9)},
	} {
		if x.Check() == nil {
			t.Errorf("%v by %v is no error", x.Shape, x.Stride)
		}
	}
}

func TestCheckNamesTheFigure(t *testing.T) {
	image := func(shape ...int) Tensor {
		return Tensor{Buf: memory(1 << 20), Shape: shape, Stride: []int{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}}
	}
	window := []int{3, 3}
	s := ConvSpec{In: 4, Out: 6, Groups: 2, Kernel: window, Strides: []int{1, 1}, Dilations: []int{1, 1}}
	for want, err := range map[string]error{
		"image [1 5 5 3], want 2 spatial dimensions and 4 channels": CheckConv(image(1, 5, 5, 6), image(1, 5, 5, 3), s, Affine{}, []int{0, 0}, nil, nil),
		"got 2 images, output has 1":                                CheckConv(image(1, 5, 5, 6), image(2, 5, 5, 4), s, Affine{}, []int{0, 0}, nil, nil),
		"a scale without a shift: give zeros":                       CheckConv(image(1, 5, 5, 6), image(1, 5, 5, 4), s, Affine{Scale: memory(24)}, []int{0, 0}, nil, nil),
		"a scale or shift of 20 bytes for 6 outputs, want 24":       CheckConv(image(1, 5, 5, 6), image(1, 5, 5, 4), s, Affine{Shift: memory(20)}, []int{0, 0}, nil, nil),
		"origin [0], want 2 values":                                 CheckConv(image(1, 5, 5, 6), image(1, 5, 5, 4), s, Affine{}, []int{0}, nil, nil),
		"cannot divide 4 and 6 channels into 4 groups":              CheckFilter(ConvSpec{In: 4, Out: 6, Groups: 4, Kernel: window, Strides: window, Dilations: window}, HostTensor{}),
		"cannot reduce [1 2 3 4] to [1 3 1 1]":                      CheckReduce(image(1, 3, 1, 1), image(1, 2, 3, 4), Sum),
		"invalid tap 5: want below 5":                               CheckInterpolate(image(1, 1, 1, 1), image(1, 1, 5, 1), 2, Taps{[]int32{0, 1}, []int32{5}, []float32{1}}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
