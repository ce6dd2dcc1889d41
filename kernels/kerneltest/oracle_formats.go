package kerneltest

import (
	"encoding/binary"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// Rounded returns v rounded to typ, to nearest even.
func Rounded(typ kernels.DType, v []float64) []float64 { return Decode(typ, Encode(typ, v)) }

// Encode rounds to typ, little-endian; F8E4M3 has scales, so it is not one of them.
func Encode(typ kernels.DType, v []float64) []byte {
	out := make([]byte, 0, len(v)*int(typ.Size()))
	for _, x := range v {
		switch typ {
		case kernels.F32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
		case kernels.BF16:
			out = binary.LittleEndian.AppendUint16(out, roundToBF16(x))
		case kernels.F16:
			out = binary.LittleEndian.AppendUint16(out, roundToHalf(x))
		}
	}
	return out
}

// Decode reads what Encode writes.
func Decode(typ kernels.DType, raw []byte) []float64 {
	out := make([]float64, len(raw)/int(typ.Size()))
	for i := range out {
		switch typ {
		case kernels.F32:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		case kernels.BF16:
			out[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16))
		case kernels.F16:
			out[i] = fromHalf(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	}
	return out
}

// roundToBF16 rounds to the upper half of a float32.
func roundToBF16(x float64) uint16 {
	bits := math.Float32bits(float32(x))
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// roundToHalf rounds to binary16, flushing what is below its normal range to zero.
func roundToHalf(x float64) uint16 {
	sign := uint16(0)
	if math.Signbit(x) {
		sign = 0x8000
	}
	frac, exp := math.Frexp(math.Abs(x)) // |x| = frac * 2^exp, frac in [0.5, 1)
	if exp < -13 || x == 0 {
		return sign
	}
	mantissa := int(math.RoundToEven(frac * 2048)) // 1024..2048
	return sign | uint16((exp+14)<<10+mantissa-1024)
}

func fromHalf(h uint16) float64 {
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	v := math.Ldexp(1+frac/1024, exp-15)
	if exp == 0 {
		v = math.Ldexp(frac, -24)
	}
	if h&0x8000 != 0 {
		return -v
	}
	return v
}
