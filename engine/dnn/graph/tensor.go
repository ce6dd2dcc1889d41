package graph

import (
	"fmt"

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
