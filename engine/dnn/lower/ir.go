package lower

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// Net is a graph in the device's operations.
type Net struct {
	Ops             []*Op // in an order in which they can be computed
	Inputs, Outputs []*Value
}

// Value is a tensor. One on the device is float32 of a known shape, whatever its type: truth is 1.
type Value struct {
	Name  string
	Type  engine.DType
	Shape []int // of values on the host, -1 where it is known only when they are
	Const *graph.Tensor
	Host  bool  // it is in host memory, in its own type
	From  *Op   // nil: an input or a constant
	Users []*Op // in their order, each once; while operations are made one, those that do not read it any more too
	Kept  bool  // it is an output of the net
}

// Op computes Out from In.
type Op struct {
	Kind  any // one of the kinds below, by pointer
	In    []*Value
	Out   []*Value
	Nodes []*graph.Node // that it computes, or takes part in
}

// Element computes each element of the output by a program from its operands, which are In broadcast to its shape.
type Element struct{ Program *kernels.Program }

// Reshape is the same elements, row-major, in another shape.
type Reshape struct{}

// Transpose makes dimension Order[i] of the input dimension i of the output.
type Transpose struct{ Order []int }

// Slice takes every Step[i]-th element along dimension i, from Start[i] on; steps may be below 0.
type Slice struct{ Start, Step []int }

// Expand broadcasts to the output's shape.
type Expand struct{}

// Assemble puts each input at its place in the output, and Fill where there is none.
type Assemble struct {
	At   [][]int
	Step [][]int // as of Slice; nil: all 1
	Fill float32
	Gaps bool // whether Fill is needed
}

// Window is how operations on images see their operands: as [N, spatial..., C].
type Window struct {
	Order  []int // dimension i there is Order[i] of the value; -1: the value has none, and it is 1
	Origin []int // place in the input of the first tap of output 0
}

// Conv is a convolution, with a program afterwards whose operands but the first one are In[1:], of Out's shape, but for what
// a Pack made of a filter that is computed, which is In[1] then; Out is its result and what it Also has.
type Conv struct {
	Window
	Filter *Filter
	Then   *kernels.Program // nil: none
}

// Pack packs the weights of a filter, [Groups, outputs and inputs of a group, kernel...].
type Pack struct{ Spec kernels.ConvSpec }

// ConvBackward is the gradient of a convolution's input: a transposed convolution. What a Pack made is In[1].
type ConvBackward struct {
	Window
	Filter *Filter
}

// Pool is maxima or means.
type Pool struct {
	Window
	Spec kernels.PoolSpec
}

// PoolBackward is the gradient of a pool's input; In is the gradient of its output and, of a maximum, its input.
type PoolBackward struct {
	Window
	Spec kernels.PoolSpec
}

// Interpolate applies taps along a dimension.
type Interpolate struct {
	Dim  int
	Taps kernels.Taps
}

// MatMul multiplies matrices, the last two dimensions; others are equal.
type MatMul struct{}

// Reduce makes elements one along dimensions in which the output has 1.
type Reduce struct{ How kernels.Reduction }

// Host computes a node in host memory.
type Host struct{ Node *graph.Node }

// Filter is a convolution's weights.
type Filter struct {
	Spec   kernels.ConvSpec
	Weight *graph.Value // of as many elements as Spec says; nil: a Pack makes the filter
	// Transposed says that Weight is that of the convolution from Out to In whose gradient this one is: [In,
	// Out/Groups, kernel], the kernel the other way round.
	Transposed bool
	Bias       *graph.Value // or nil
	// Scale and Shift are applied to each output: Scale * (sum + bias) + Shift. Nil: they are 1 and 0.
	Scale, Shift []float64
}

// Check says whether each operation reads inputs, constants and what operations before it make.
func (n *Net) Check() error {
	made := map[*Value]bool{}
	for _, v := range n.Inputs {
		made[v] = true
	}
	for _, op := range n.Ops {
		for _, v := range op.In {
			if v != nil && v.Const == nil && !made[v] {
				return fmt.Errorf("value %q is read before it is computed", v.Name)
			}
		}
		for _, v := range op.Out {
			made[v] = true
		}
	}
	for _, v := range n.Outputs {
		if v.Const == nil && !made[v] {
			return fmt.Errorf("output %q is not computed", v.Name)
		}
	}
	return nil
}

// Relink sets who uses what, and drops operations that nobody needs.
func (n *Net) Relink() {
	needed := map[*Value]bool{}
	for _, v := range n.Outputs {
		needed[v] = true
	}
	ops := make([]*Op, 0, len(n.Ops))
	for _, op := range slices.Backward(n.Ops) {
		if !slices.ContainsFunc(op.Out, func(v *Value) bool { return v != nil && needed[v] }) {
			continue
		}
		ops = append(ops, op)
		for _, v := range op.In {
			if v != nil {
				needed[v] = true
			}
		}
	}
	slices.Reverse(ops)
	n.Ops = ops
	for v := range needed {
		v.Users = nil
	}
	for _, op := range n.Ops {
		for _, v := range op.In {
			if v != nil && (len(v.Users) == 0 || v.Users[len(v.Users)-1] != op) {
				v.Users = append(v.Users, op)
			}
		}
	}
}
