package kernels

import "math"

// MaxI8Cols is the most columns of an I8 matrix: as many products of -128 and -128 have a sum in int32.
const MaxI8Cols = 1<<17 - 1

// QuantizeI8 sets dst to the codes of values over a common scale, which it returns: the largest magnitude is
// 127.5 scales, rounded to the nearest code from -128 to 127, ties to even. Values of zero have codes of zero.
// This is dynamic symmetric quantisation per token, as the compressed-tensors format has it (calculate_qparams).
func QuantizeI8(dst []int8, values []float32) (scale float32) {
	var top float32
	for _, v := range values {
		top = max(top, float32(math.Abs(float64(v))))
	}
	if scale = top / 127.5; scale == 0 {
		scale = epsilon
	}
	for i, v := range values {
		dst[i] = int8(min(127, max(-128, math.RoundToEven(float64(v/scale)))))
	}
	return scale
}

// epsilon is the scale of zeros, float32's distance from 1 to the next number.
const epsilon = 0x1p-23
