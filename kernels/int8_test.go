package kernels

import (
	"math"
	"slices"
	"testing"
)

// The codes and scales are those of compressed_tensors 0.20.0 (calculate_qparams, quantize).
func TestQuantizeI8(t *testing.T) {
	for _, c := range []struct {
		values []float32
		codes  []int8
		scale  float32
	}{
		{[]float32{0, 0}, []int8{0, 0}, 0x1p-23},
		{[]float32{127.5, -127.5, 0.5, 1.5, -2.5}, []int8{127, -128, 0, 2, -2}, 1},
		{[]float32{-255, 254, 1}, []int8{-128, 127, 0}, 2},
	} {
		codes := make([]int8, len(c.values))
		if scale := QuantizeI8(codes, c.values); scale != c.scale || !slices.Equal(codes, c.codes) {
			t.Errorf("%v: codes %d, scale %v, want %d, %v", c.values, codes, scale, c.codes, c.scale)
		}
	}
	if scale := QuantizeI8(make([]int8, 2), []float32{1, float32(math.NaN())}); scale == scale {
		t.Errorf("a row with NaN has scale %v", scale)
	}
}
