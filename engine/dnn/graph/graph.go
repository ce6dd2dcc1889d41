// Package graph is a network as a typed graph: nodes that compute values from values, in an order in
// which each comes after those it reads.
package graph

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
)

// Graph computes Outputs from Inputs. An output may also be an input or a constant.
type Graph struct {
	Name            string
	Inputs, Outputs []*Value
	Nodes           []*Node // in an order in which they can be computed
}

// Value is a tensor: an input, a constant or what a node computes.
type Value struct {
	Name   string
	Type   engine.DType // 0: not known yet
	Shape  []int        // -1: not known yet, or any; nil with Rank < 0
	Rank   int          // len(Shape), or -1: not known yet
	Dims   []string     // of an input: the names of dimensions that may be any, "" for others; may be nil
	Const  *Tensor      // of a constant
	Folded bool         // others were computed from it, a constant
	From   *Node        // nil: an input or a constant
}

// NewValue is a value of which nothing is known but its name.
func NewValue(name string) *Value { return &Value{Name: name, Rank: -1} }

// NewConst is a constant.
func NewConst(name string, t *Tensor) *Value {
	return &Value{Name: name, Type: t.Type, Shape: t.Shape, Rank: len(t.Shape), Const: t}
}

// Set says what is known of a value now: its type, and its shape, nil if not even its rank is known.
func (v *Value) Set(t engine.DType, shape []int) {
	v.Type, v.Shape, v.Rank = t, shape, len(shape)
	if shape == nil {
		v.Rank = -1
	}
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
// The nodes of a *Graph may also read values of the graphs around it.
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

// Subgraphs are the graphs among the attributes, in the order of the attributes' names.
func (n *Node) Subgraphs() []*Graph {
	var names []string
	for name, a := range n.Attrs {
		if _, ok := a.(*Graph); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []*Graph
	for _, name := range names {
		out = append(out, n.Attrs[name].(*Graph))
	}
	return out
}

// Reads are the values that the node reads, those that its subgraphs read of the graphs around them included.
func (n *Node) Reads() []*Value {
	var out []*Value
	for _, v := range n.In {
		if v != nil {
			out = append(out, v)
		}
	}
	for _, g := range n.Subgraphs() {
		out = append(out, g.captures()...)
	}
	return out
}

// captures are the values that a graph reads and does not define, each once.
func (g *Graph) captures() []*Value {
	seen := map[*Value]bool{}
	for _, v := range g.Inputs {
		seen[v] = true
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			seen[v] = true
		}
	}
	var out []*Value
	read := func(v *Value) {
		if v != nil && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	for _, n := range g.Nodes {
		for _, v := range n.Reads() {
			read(v)
		}
	}
	for _, v := range g.Outputs {
		read(v)
	}
	return out
}

// Users are, for each value of the graph that nodes read, these nodes in their order, each once. A value that a
// subgraph reads is read by the node that has the subgraph.
func (g *Graph) Users() map[*Value][]*Node {
	users := map[*Value][]*Node{}
	for _, n := range g.Nodes {
		for _, v := range n.Reads() {
			if u := users[v]; len(u) == 0 || u[len(u)-1] != n {
				users[v] = append(u, n)
			}
		}
	}
	return users
}
