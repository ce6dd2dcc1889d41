package engine

import (
	"fmt"
	"math"
	"math/bits"
)

// Tensors is a model's inputs by name, and which of its outputs are wanted or what of their gradient.
type Tensors struct {
	Inputs  []Ref
	Outputs []string // wanted; empty: all, or none beside a gradient
	Grad    *Grad    // nil: no gradient is wanted
	Frames  float64  // the cost in frames of the size that the model's is of, the gradient's share included
}

// Units is the number of frames.
func (t *Tensors) Units() float64 { return t.Frames }

func (*Tensors) work() {}

// Names that ask for gradients: an input "seed:OUTPUT" and an output "gradient:INPUT" stand for d(sum of seed x
// output)/d(input), summed over all seeds. A model's own names go before them.
const (
	SeedPrefix     = "seed:"
	GradientPrefix = "gradient:"
)

// Grad asks for d(sum over Seeds of seed x output)/d(input) for each of Inputs.
type Grad struct {
	Seeds  []Ref    // named after outputs and of their shapes
	Inputs []string // with respect to which
}

// TensorOutput is the outputs that were wanted, in that order, then gradients in the order of Grad.Inputs.
type TensorOutput struct{ Outputs []Ref }

func (*TensorOutput) output() {}

// Ref is a tensor by reference. Its bytes, little-endian, dense and row-major, go from the process
// that made them to the one that reads them, and never through the scheduler.
type Ref struct {
	Name  string
	Type  DType
	Shape []int
	Blob  string // names the bytes
}

// Bytes is how many bytes the tensor has; ok is false when it has a dimension below 0 or a type that there is not,
// or when they are more than an int holds.
func (r *Ref) Bytes() (n int, ok bool) {
	n, ok = r.Type.Size(), r.Type.Size() > 0
	for _, d := range r.Shape {
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		ok = ok && d >= 0 && hi == 0 && lo <= math.MaxInt
		n = int(lo)
	}
	return n, ok
}

// DType is the type of a tensor's elements.
type DType uint8

// The element types, in the order of their numbers on the wire.
const (
	Bool DType = iota + 1
	Uint8
	Uint16
	Uint32
	Uint64
	Int8
	Int16
	Int32
	Int64
	FP16
	BF16
	FP32
	FP64
)

// dtypes are the names that the Open Inference Protocol gives the types, and bytes an element.
var dtypes = [...]struct {
	name string
	size int
}{{}, {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8}, {"INT8", 1}, {"INT16", 2}, {"INT32", 4},
	{"INT64", 8}, {"FP16", 2}, {"BF16", 2}, {"FP32", 4}, {"FP64", 8}}

func (t DType) String() string {
	if t > 0 && int(t) < len(dtypes) {
		return dtypes[t].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(t))
}

// Size is the number of bytes of an element; 0 of a type that there is not.
func (t DType) Size() int {
	if int(t) < len(dtypes) {
		return dtypes[t].size
	}
	return 0
}
