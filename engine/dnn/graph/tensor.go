package graph

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/engine"
)

// Tensor is elements in host memory: dense, row-major, little-endian. Data may be a mapped file, and is not
// changed.
type Tensor struct {
	Type  engine.DType
	Shape []int
	Data  []byte
}

// Elements is the number of elements of a shape whose dimensions are known.
func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// NewTensor is a tensor of zeros.
func NewTensor(t engine.DType, shape ...int) *Tensor {
	return &Tensor{Type: t, Shape: shape, Data: make([]byte, Elements(shape)*t.Size())}
}

func (t *Tensor) String() string { return fmt.Sprintf("%v%v", t.Type, t.Shape) }

// Len is the number of elements.
func (t *Tensor) Len() int { return Elements(t.Shape) }

// Floating says whether the type is a floating-point one.
func Floating(t engine.DType) bool { return t >= engine.FP16 && t <= engine.FP64 }

// Floats is the elements as float64; truth is 1.
func (t *Tensor) Floats() []float64 {
	out := make([]float64, t.Len())
	le, d := binary.LittleEndian, t.Data
	switch t.Type {
	case engine.FP32:
		for i := range out {
			out[i] = float64(math.Float32frombits(le.Uint32(d[4*i:])))
		}
	case engine.FP64:
		for i := range out {
			out[i] = math.Float64frombits(le.Uint64(d[8*i:]))
		}
	case engine.FP16:
		for i := range out {
			out[i] = half.decodeBits(le.Uint16(d[2*i:]))
		}
	case engine.BF16:
		for i := range out {
			out[i] = brain.decodeBits(le.Uint16(d[2*i:]))
		}
	case engine.Uint64:
		for i := range out {
			out[i] = float64(le.Uint64(d[8*i:]))
		}
	default:
		for i, v := range t.Ints() {
			out[i] = float64(v)
		}
	}
	return out
}

// Ints is the elements as int64: floats are truncated as by FromFloats, and integers that an int64 does not hold
// wrap around.
func (t *Tensor) Ints() []int64 {
	out := make([]int64, t.Len())
	le, d := binary.LittleEndian, t.Data
	switch t.Type {
	case engine.Bool, engine.Uint8:
		for i := range out {
			out[i] = int64(d[i])
		}
	case engine.Int8:
		for i := range out {
			out[i] = int64(int8(d[i]))
		}
	case engine.Uint16:
		for i := range out {
			out[i] = int64(le.Uint16(d[2*i:]))
		}
	case engine.Int16:
		for i := range out {
			out[i] = int64(int16(le.Uint16(d[2*i:])))
		}
	case engine.Uint32:
		for i := range out {
			out[i] = int64(le.Uint32(d[4*i:]))
		}
	case engine.Int32:
		for i := range out {
			out[i] = int64(int32(le.Uint32(d[4*i:])))
		}
	case engine.Uint64, engine.Int64:
		for i := range out {
			out[i] = int64(le.Uint64(d[8*i:]))
		}
	default:
		for i, x := range t.Floats() {
			out[i] = truncate(x)
		}
	}
	return out
}

// truncate drops the fraction. What neither an int64 nor a uint64 holds, NaN too, is the least int64.
func truncate(x float64) int64 {
	switch {
	case x >= -1<<63 && x < 1<<63:
		return int64(x)
	case x >= 1<<63 && x < 1<<64:
		return int64(uint64(x))
	}
	return math.MinInt64
}

// FromFloats is a tensor of these elements. They are rounded to the nearest number of a floating-point type, of two
// to the even one; for an integer type their fraction is dropped and what is too large wraps around; what is not 0 is true.
func FromFloats(t engine.DType, shape []int, elements []float64) *Tensor {
	if !Floating(t) {
		return fromFloatsToInts(t, shape, elements)
	}
	out := allocate(t, shape, len(elements))
	le, d := binary.LittleEndian, out.Data
	switch t {
	case engine.FP32:
		for i, x := range elements {
			le.PutUint32(d[4*i:], math.Float32bits(float32(x)))
		}
	case engine.FP64:
		for i, x := range elements {
			le.PutUint64(d[8*i:], math.Float64bits(x))
		}
	case engine.FP16:
		for i, x := range elements {
			le.PutUint16(d[2*i:], half.bits(x))
		}
	case engine.BF16:
		for i, x := range elements {
			le.PutUint16(d[2*i:], brain.bits(x))
		}
	}
	return out
}

func fromFloatsToInts(t engine.DType, shape []int, elements []float64) *Tensor {
	ints := make([]int64, len(elements))
	for i, x := range elements {
		ints[i] = truncate(x)
		if t == engine.Bool && x != 0 {
			ints[i] = 1
		}
	}
	return FromInts(t, shape, ints)
}

// FromInts is a tensor of these elements: of an integer type their low bits, of Bool whether they are not 0.
func FromInts(t engine.DType, shape []int, elements []int64) *Tensor {
	if Floating(t) {
		return fromIntsToFloats(t, shape, elements)
	}
	out := allocate(t, shape, len(elements))
	le, d := binary.LittleEndian, out.Data
	for i, v := range elements {
		switch t.Size() {
		case 1:
			d[i] = byte(v)
			if t == engine.Bool && v != 0 {
				d[i] = 1
			}
		case 2:
			le.PutUint16(d[2*i:], uint16(v))
		case 4:
			le.PutUint32(d[4*i:], uint32(v))
		case 8:
			le.PutUint64(d[8*i:], uint64(v))
		}
	}
	return out
}

func fromIntsToFloats(t engine.DType, shape []int, elements []int64) *Tensor {
	floats := make([]float64, len(elements))
	for i, v := range elements {
		floats[i] = float64(v)
	}
	return FromFloats(t, shape, floats)
}

// allocate is a tensor for n elements, whose shape has to be theirs.
func allocate(t engine.DType, shape []int, n int) *Tensor {
	if Elements(shape) != n {
		panic(fmt.Sprintf("%d elements for a tensor %v%v", n, t, shape))
	}
	return NewTensor(t, shape...)
}

// Scalar is a tensor without dimensions.
func Scalar(t engine.DType, x float64) *Tensor { return FromFloats(t, []int{}, []float64{x}) }

// Vector is an INT64 tensor of one dimension.
func Vector(elements ...int64) *Tensor {
	return FromInts(engine.Int64, []int{len(elements)}, elements)
}

// Reshaped is the same elements in another shape of as many.
func (t *Tensor) Reshaped(shape ...int) *Tensor {
	if Elements(shape) != t.Len() {
		panic(fmt.Sprintf("%v reshaped to %v", t, shape))
	}
	return &Tensor{Type: t.Type, Shape: shape, Data: t.Data}
}
