package engine

import "testing"

func TestRefBytes(t *testing.T) {
	for _, c := range []struct {
		ref  Ref
		want int
		ok   bool
	}{
		{Ref{Type: FP32, Shape: []int{1, 3, 416, 416}}, 2076672, true},
		{Ref{Type: Uint8}, 1, true},
		{Ref{Type: FP64, Shape: []int{0, 7}}, 0, true},
		{Ref{Type: FP64, Shape: []int{1 << 30, 1 << 29}}, 1 << 62, true},
		{Ref{Type: FP64, Shape: []int{1 << 30, 1 << 30}}, 0, false},
		{Ref{Type: FP64, Shape: []int{1 << 31, 1 << 31, 1 << 31}}, 0, false},
		{Ref{Type: Int8, Shape: []int{-1, -1}}, 0, false},
		{Ref{Shape: []int{1}}, 0, false},
		{Ref{Type: FP64 + 1, Shape: []int{1}}, 0, false},
	} {
		n, ok := c.ref.Bytes()
		if ok != c.ok || ok && n != c.want {
			t.Errorf("%v of %v has %d bytes, %v; want %d, %v", c.ref.Shape, c.ref.Type, n, ok, c.want, c.ok)
		}
	}
}
