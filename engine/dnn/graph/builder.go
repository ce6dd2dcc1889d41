package graph

import (
	"fmt"
	"strconv"

	"github.com/prefillonly/prefillonly/engine"
)

// Builder adds nodes to a graph, after those it has. Its names are none that are in the graph.
type Builder struct {
	Graph *Graph
	infer func(*Node) error
	taken map[string]bool
	next  map[string]int
	err   error
}

// NewBuilder adds to g. What infer finds of a node's outputs, it sets in them; its errors name the node.
func NewBuilder(g *Graph, infer func(*Node) error) *Builder {
	b := &Builder{Graph: g, infer: infer, taken: map[string]bool{}, next: map[string]int{}}
	b.takeNames(g)
	return b
}

// In is a Builder that adds to another graph, within or around this one's, and shares its names.
func (b *Builder) In(g *Graph) *Builder {
	return &Builder{Graph: g, infer: b.infer, taken: b.taken, next: b.next}
}

func (b *Builder) takeNames(g *Graph) {
	names := func(vs []*Value) {
		for _, v := range vs {
			if v != nil {
				b.taken[v.Name] = true
			}
		}
	}
	names(g.Inputs)
	names(g.Outputs)
	for _, n := range g.Nodes {
		b.taken[n.Name] = true
		names(n.In)
		names(n.Out)
		for _, sub := range n.Subgraphs() {
			b.takeNames(sub)
		}
	}
}

// Fresh is a name that begins so, and that nothing in the graph has.
func (b *Builder) Fresh(stem string) string {
	name := stem
	for b.taken[name] || name == "" {
		b.next[stem]++
		name = stem + "_" + strconv.Itoa(b.next[stem])
	}
	b.taken[name] = true
	return name
}

// Err is the first error of inference. From there on nothing is known of the values of new nodes.
func (b *Builder) Err() error { return b.err }

// Input adds an input.
func (b *Builder) Input(name string, t engine.DType, shape ...int) *Value {
	v := NewValue(b.Fresh(name))
	v.Set(t, append([]int{}, shape...))
	b.Graph.Inputs = append(b.Graph.Inputs, v)
	return v
}

// Const is a new constant whose name begins with stem.
func (b *Builder) Const(stem string, t *Tensor) *Value { return NewConst(b.Fresh(stem), t) }

// Node adds a node and returns its outputs, whose types and shapes are inferred.
func (b *Builder) Node(op string, in []*Value, attrs Attrs, outs int) []*Value {
	n := &Node{Name: b.Fresh(op), Op: op, In: trimTrailingNil(in), Attrs: attrs}
	for i := range outs {
		stem := n.Name
		if outs > 1 {
			stem = fmt.Sprintf("%s_%d", n.Name, i)
		}
		v := NewValue(b.Fresh(stem + "_out"))
		v.From = n
		n.Out = append(n.Out, v)
	}
	b.Graph.Nodes = append(b.Graph.Nodes, n)
	if b.err == nil {
		b.err = b.infer(n)
	}
	return append([]*Value(nil), n.Out...)
}

// Op adds a node of one output.
func (b *Builder) Op(op string, attrs Attrs, in ...*Value) *Value { return b.Node(op, in, attrs, 1)[0] }

// SetOutputs makes values the outputs, in place of as many that there are and under their names.
func (b *Builder) SetOutputs(values []*Value) {
	g := b.Graph
	here, fixed := map[*Node]bool{}, map[*Value]bool{} // fixed: what has to keep its name
	for _, n := range g.Nodes {
		here[n] = true
	}
	for _, v := range g.Outputs {
		fixed[v] = true
	}
	for i, v := range g.Outputs {
		same := values[i]
		switch {
		case same == v:
		case here[same.From] && !fixed[same]:
			same.Name, fixed[same] = v.Name, true
			g.Outputs[i] = same
		default:
			n := &Node{Name: b.Fresh("Identity"), Op: "Identity", In: []*Value{same}, Out: []*Value{v}, Attrs: Attrs{}}
			v.Type, v.Shape, v.Rank, v.From = same.Type, same.Shape, same.Rank, n
			g.Nodes = append(g.Nodes, n)
		}
	}
}

func trimTrailingNil(in []*Value) []*Value {
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return append([]*Value(nil), in...)
}
