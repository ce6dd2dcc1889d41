package kernels

import "math"

// E4M3 is a number of FP8 E4M3 as checkpoints and GPUs have it (float8_e4m3fn): a sign, 4 bits of
// exponent with bias 7, 3 of fraction; no infinities, and 0x7f is NaN. (Micikevicius et al., FP8
// Formats for Deep Learning, 2022, table 1.)
type E4M3 uint8

// MaxE4M3 is the largest finite value.
const MaxE4M3 = 448

// Float32 is the exact value.
func (c E4M3) Float32() float32 {
	sign, magnitude := uint32(c&0x80)<<24, uint32(c&0x7f)
	switch {
	case magnitude == 0x7f:
		return math.Float32frombits(sign | 0x7fc00000)
	case magnitude < 8: // zero and subnormals: units of 2^-9
		return math.Float32frombits(sign | math.Float32bits(float32(magnitude)*0x1p-9))
	}
	return math.Float32frombits(sign | magnitude<<20 + 120<<23)
}

// ToE4M3 rounds to the nearest number, ties to even. What is beyond the largest one becomes the
// largest, and NaN stays NaN.
func ToE4M3(f float32) E4M3 {
	bits := math.Float32bits(f)
	sign := E4M3(bits >> 24 & 0x80)
	bits &= 1<<31 - 1
	switch {
	case bits > 0x7f800000:
		return sign | 0x7f
	case bits >= 0x43e80000: // 464 would round to 480
		return sign | 0x7e
	case bits < 0x3c800000: // below 2^-6: subnormal
		return sign | E4M3(math.RoundToEven(float64(math.Float32frombits(bits))*0x1p9))
	}
	bits += 0x7ffff + bits>>20&1
	return sign | E4M3((bits-120<<23)>>20)
}

// QuantizeE4M3 sets dst to the codes of values over a common scale, which it returns: the largest
// magnitude gets the largest code. A row of zeros has codes of zero. This is dynamic quantisation per
// token of the compressed-tensors format's FP8-dynamic scheme.
func QuantizeE4M3(dst []E4M3, values []float32) (scale float32) {
	top := float32(1e-12) // so that zeros have a scale to be divided by
	for _, v := range values {
		top = max(top, float32(math.Abs(float64(v))))
	}
	scale = top / MaxE4M3
	for i, v := range values {
		dst[i] = ToE4M3(v / scale)
	}
	return scale
}
