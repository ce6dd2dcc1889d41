// Package graph is a network as a typed graph: nodes that compute values from values, in an order in
// which each comes after those it reads.
package graph

import "github.com/prefillonly/prefillonly/engine"

// Graph computes Outputs from Inputs.
type Graph struct {
	Name            string
	Inputs, Outputs []*Value
	Nodes           []*Node // in an order in which they can be computed
}

// Value is a tensor: an input, a constant or what a node computes.
type Value struct {
	Name  string
	Type  engine.DType // 0: not known yet
	Shape []int        // -1: not known yet, or any; nil with Rank < 0
	Rank  int          // len(Shape), or -1: not known yet
	Dims  []string     // of an input: the names of dimensions that may be any, "" for others; may be nil
	Const *Tensor      // of a constant
	From  *Node        // nil: an input or a constant
}

// Known says whether type and all dimensions are.
func (v *Value) Known() bool {
	if v.Type == 0 || v.Rank < 0 {
		return false
	}
	for _, d := range v.Shape {
		if d < 0 {
			return false
		}
	}
	return true
}

// Node applies an operation. Its meaning is that of ONNX's operation of this name in opset 21, or of one of
// ours, whose names begin with a dot.
type Node struct {
	Name  string
	Op    string
	In    []*Value // nil: an optional input that is not given; there is none at the end
	Out   []*Value // nil: an output that is not wanted
	Attrs Attrs
}

// Attrs are a node's attributes: int64, float64, string, []int64, []float64, []string, *Tensor or *Graph.
type Attrs map[string]any

// Attr is the attribute of a name, or fallback if it is not given or of another type.
func Attr[T any](n *Node, name string, fallback T) T {
	if v, ok := n.Attrs[name].(T); ok {
		return v
	}
	return fallback
}

// Input is input i of a node, or nil.
func (n *Node) Input(i int) *Value {
	if i < len(n.In) {
		return n.In[i]
	}
	return nil
}

// Output is output i of a node, or nil.
func (n *Node) Output(i int) *Value {
	if i < len(n.Out) {
		return n.Out[i]
	}
	return nil
}
