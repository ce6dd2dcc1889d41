package networktest

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// Conv is a convolution with the sizes of its input and output.
type Conv struct {
	kernels.ConvSpec
	N           int
	Input, Size []int // spatial
	Origin      []int
	// Scaled and Shifted say whether it has a scale and a shift.
	Scaled, Shifted bool
}

func (c Conv) String() string {
	return fmt.Sprintf("%dx%v-%d-to-%v-%d-groups%d-kernel%v-strides%v-dilations%v-origin%v-scaled=%t-shifted=%t",
		c.N, c.Input, c.In, c.Size, c.Out, c.Groups, c.Kernel, c.Strides, c.Dilations, c.Origin, c.Scaled, c.Shifted)
}

// InputShape is [N, spatial..., In].
func (c Conv) InputShape() []int { return append(append([]int{c.N}, c.Input...), c.In) }

// OutputShape is [N, spatial..., Out].
func (c Conv) OutputShape() []int { return append(append([]int{c.N}, c.Size...), c.Out) }

// forEachProduct calls do with every product of the convolution, as places of its output, input and weight.
func (c Conv) forEachProduct(do func(output, input, weight []int)) {
	spatial := len(c.Kernel)
	in, out := c.In/c.Groups, c.Out/c.Groups
	input, weight := make([]int, spatial+2), make([]int, spatial+2)
	Places(c.OutputShape(), func(output []int) {
		weight[0] = output[spatial+1]
		input[0] = output[0]
		Places(append([]int{in}, c.Kernel...), func(tap []int) {
			copy(weight[1:], tap)
			input[spatial+1] = weight[0]/out*in + tap[0]
			for i := range spatial {
				input[i+1] = output[i+1]*c.Strides[i] + c.Origin[i] + tap[i+1]*c.Dilations[i]
			}
			do(output, input, weight)
		})
	})
}

// Forward is the convolution of x.
func (c Conv) Forward(x Array, l *layer) []Sum {
	out := NewArray(c.OutputShape()...)
	sums := make([]Sum, len(out.V))
	for i := range sums {
		sums[i].addTerm(l.shift.V[i%c.Out])
	}
	c.forEachProduct(func(output, input, w []int) {
		if x.isInside(input) {
			sums[out.elementIndex(output)].addTerm(l.scale.V[output[len(output)-1]] * x.elementAt(input) * l.weight.elementAt(w))
		}
	})
	return sums
}

// Backward is the gradient of the input.
func (c Conv) Backward(grad, weight Array) []Sum {
	in := NewArray(c.InputShape()...)
	sums := make([]Sum, len(in.V))
	c.forEachProduct(func(output, input, w []int) {
		if in.isInside(input) {
			sums[in.elementIndex(input)].addTerm(grad.elementAt(output) * weight.elementAt(w))
		}
	})
	return sums
}
