package kerneltest

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// Weight is a tensor of a checkpoint and the values that a backend makes of it.
type Weight struct {
	Tensor kernels.HostTensor
	Matrix
}

// PlainWeight is m in a type without scales, of which a backend makes values of type act.
func PlainWeight(name string, m Matrix, typ, act kernels.DType) Weight {
	raw := Encode(typ, m.V)
	m.V = Rounded(act, Decode(typ, raw))
	return Weight{kernels.HostTensor{Name: name, Type: typ, Rows: m.Rows, Cols: m.Cols, Data: raw}, m}
}

// FP8Weight quantises the rows of m.
func FP8Weight(name string, m Matrix) Weight {
	w := Weight{kernels.HostTensor{Name: name, Type: kernels.F8E4M3, Rows: m.Rows, Cols: m.Cols}, m}
	for i := range m.Rows {
		scale := float64(float32(Largest(m.Row(i)) / 448))
		for j, v := range m.Row(i) {
			value, code := roundToE4M3(v / scale)
			m.Row(i)[j] = value * scale
			w.Tensor.Data = append(w.Tensor.Data, code)
		}
		w.Tensor.Scale = append(w.Tensor.Scale, float32(scale))
	}
	return w
}

// Int8Weight quantises the rows of m.
func Int8Weight(name string, m Matrix, weightOnly bool) Weight {
	w := Weight{kernels.HostTensor{Name: name, Type: kernels.I8, Rows: m.Rows, Cols: m.Cols, WeightOnly: weightOnly}, m}
	for i := range m.Rows {
		scale := float32(Largest(m.Row(i))) / 127.5
		for j, v := range m.Row(i) {
			code := int8Code(v, scale)
			m.Row(i)[j] = code * float64(scale)
			w.Tensor.Data = append(w.Tensor.Data, byte(int8(code)))
		}
		w.Tensor.Scale = append(w.Tensor.Scale, scale)
	}
	return w
}

// InFP8 is m with each row quantised. The format's own quotient is of float32 numbers, which decides ties.
func (m Matrix) InFP8() Matrix {
	out := Matrix{m.Rows, m.Cols, slices.Clone(m.V)}
	for i := range m.Rows {
		scale := float32(Largest(m.Row(i))) / 448
		for j, v := range m.Row(i) {
			if scale > 0 {
				value, _ := roundToE4M3(float64(float32(v) / scale))
				out.Row(i)[j] = value * float64(scale)
			}
		}
	}
	return out
}

// InInt8 is m with each row quantised in so many parts.
func (m Matrix) InInt8(parts int) Matrix {
	out := Matrix{m.Rows, m.Cols, slices.Clone(m.V)}
	for i := range m.Rows {
		for p := range parts {
			from, to := m.Cols*p/parts, m.Cols*(p+1)/parts
			scale := float32(Largest(m.Row(i)[from:to])) / 127.5
			for j, v := range m.Row(i)[from:to] {
				if scale > 0 {
					out.Row(i)[from+j] = int8Code(v, scale) * float64(scale)
				}
			}
		}
	}
	return out
}

// Largest is the largest magnitude.
func Largest(row []float64) float64 {
	top := 0.0
	for _, v := range row {
		top = max(top, math.Abs(v))
	}
	return top
}

// int8Code is the code nearest to the quotient, which the format takes in float32; that decides ties.
func int8Code(v float64, scale float32) float64 {
	return min(127, max(-128, math.RoundToEven(float64(float32(v)/scale))))
}

// roundToE4M3 is the value nearest to x, the even code of two, at most 448 away from zero.
func roundToE4M3(x float64) (value float64, code byte) {
	magnitude, sign := math.Abs(x), byte(0)
	if math.Signbit(x) {
		sign = 0x80
	}
	_, exp := math.Frexp(magnitude) // magnitude in [2^(exp-1), 2^exp)
	exp = max(exp, -5)              // below 2^-6 numbers are as far apart as above it
	unit := math.Ldexp(1, exp-4)
	steps := math.RoundToEven(magnitude / unit)
	if steps*unit > 448 {
		steps, exp, unit = 14, 9, 32
	}
	if steps == 16 {
		steps, exp, unit = 8, exp+1, 2*unit
	}
	code = byte(steps)
	if steps >= 8 {
		code = byte(exp+6)<<3 | byte(steps)&7
	}
	return math.Copysign(steps*unit, x), sign | code
}

// FromE4M3 is the value of a code.
func FromE4M3(code byte) float64 {
	exponent, fraction := int(code>>3&15), float64(code&7)/8
	v := math.Ldexp(1+fraction, exponent-7)
	if exponent == 0 {
		v = math.Ldexp(fraction, -6)
	}
	return math.Copysign(v, 1-2*float64(code>>7))
}
