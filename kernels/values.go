package kernels

import (
	"encoding/binary"
	"math"
)

// Expand converts little-endian elements of type t to float32, as many as dst holds; the conversion is
// exact.
func Expand(dst []float32, t DType, src []byte) {
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = fromHalf(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F8E4M3:
		for i := range dst {
			dst[i] = E4M3(src[i]).Float32()
		}
	case I8:
		for i := range dst {
			dst[i] = float32(int8(src[i]))
		}
	}
}

// fromHalf converts IEEE 754 binary16.
func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&0x3ff
	switch exp {
	case 0: // zero and subnormal: frac * 2^-24
		return math.Float32frombits(math.Float32bits(float32(frac)*0x1p-24) | sign)
	case 31: // infinity and NaN
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}
