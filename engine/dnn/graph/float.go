package graph

import "math"

// small is a binary floating-point format of 16 bits.
type small struct {
	mantissa int // bits of it that are stored
	bias     int // of the exponent
}

var (
	half  = small{mantissa: 10, bias: 15}
	brain = small{mantissa: 7, bias: 127}
)

func (f small) infinity() uint64 { return uint64(2*f.bias+1) << f.mantissa }

// bits rounds x to the nearest number of the format, of two to the even one; what is beyond the greatest is infinity.
func (f small) bits(x float64) uint16 {
	var sign uint16
	if math.Signbit(x) {
		sign, x = 1<<15, -x
	}
	if math.IsNaN(x) {
		return sign | uint16(f.infinity()) | 1<<(f.mantissa-1)
	}
	return sign | uint16(min(f.round(x), f.infinity()))
}

func (f small) round(x float64) uint64 {
	if least := math.Ldexp(1, 1-f.bias); x < least {
		// The last bit of this sum is the format's last.
		shift := math.Ldexp(least, 52-f.mantissa)
		return math.Float64bits(x+shift) - math.Float64bits(shift)
	}
	b, drop := math.Float64bits(x), 52-f.mantissa
	b += 1<<(drop-1) - 1 + b>>drop&1
	return b>>drop - uint64(1023-f.bias)<<f.mantissa
}

// decodeBits is the number of these bits.
func (f small) decodeBits(bits uint16) float64 {
	b := uint64(bits & (1<<15 - 1))
	// A normal float64 with this exponent and mantissa is too small by the difference of the biases, and so is one
	// below the least normal.
	x := math.Float64frombits(b<<(52-f.mantissa)) * math.Float64frombits(uint64(2046-f.bias)<<52)
	switch {
	case b == f.infinity():
		x = math.Inf(1)
	case b > f.infinity():
		return math.NaN()
	}
	if bits>>15 != 0 {
		return -x
	}
	return x
}
