package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
)

// String names a node as errors do: its operation and name, or the first output if it has no name.
func (n *Node) String() string {
	if n.Name != "" {
		return fmt.Sprintf("%s node %q", n.Op, n.Name)
	}
	for _, v := range n.Out {
		if v != nil {
			return fmt.Sprintf("%s node that computes %q", n.Op, v.Name)
		}
	}
	return n.Op + " node without a name"
}

// String is a value with what is known of it: images FP32[1,3,?,?].
func (v *Value) String() string {
	if v == nil {
		return "-"
	}
	typ := "?"
	if v.Type != 0 {
		typ = v.Type.String()
	}
	return v.Name + " " + typ + ShapeString(v.Shape, v.Rank)
}

// ShapeString is a shape as in [1,3,?]; that of unknown rank is [...].
func ShapeString(shape []int, rank int) string {
	if rank < 0 {
		return "[...]"
	}
	parts := make([]string, len(shape))
	for i, d := range shape {
		parts[i] = "?"
		if d >= 0 {
			parts[i] = fmt.Sprint(d)
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// String is the graph line by line, for tests and for people:
//
//	g(x FP32[1,3,?])
//	y FP32[1,4,?] = Conv(x, w FP32[4,3,1]) group=1
//	return y
func (g *Graph) String() string {
	var s strings.Builder
	g.writeText(&s, "")
	return s.String()
}

func (g *Graph) writeText(s *strings.Builder, indent string) {
	fmt.Fprintf(s, "%s%s(%s)\n", indent, g.Name, joinValues(g.Inputs, (*Value).String))
	for _, n := range g.Nodes {
		fmt.Fprintf(s, "%s%s = %s(%s)%s\n", indent, joinValues(n.Out, (*Value).String), n.Op, joinValues(n.In, operandText), attrsString(n.Attrs))
		for _, sub := range n.Subgraphs() {
			sub.writeText(s, indent+"    ")
		}
	}
	fmt.Fprintf(s, "%sreturn %s\n", indent, joinValues(g.Outputs, operandText))
}

func joinValues(vs []*Value, one func(*Value) string) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = one(v)
	}
	return strings.Join(parts, ", ")
}

// operandText is a value where it is read: small constants by what they are.
func operandText(v *Value) string {
	switch {
	case v == nil:
		return "-"
	case v.Const == nil:
		return v.Name
	case v.Const.Len() <= 8:
		return tensorString(v.Const)
	}
	return v.String()
}

func tensorString(t *Tensor) string {
	elements := fmt.Sprint(t.Ints())
	if Floating(t.Type) {
		elements = fmt.Sprint(t.Floats())
	}
	if t.Type == engine.Int64 && len(t.Shape) == 1 {
		return elements
	}
	return fmt.Sprintf("%v%s%s", t.Type, ShapeString(t.Shape, len(t.Shape)), elements)
}

func attrsString(attrs Attrs) string {
	var s strings.Builder
	for _, name := range sortedKeys(attrs) {
		switch a := attrs[name].(type) {
		case *Graph:
			fmt.Fprintf(&s, " %s=%s", name, a.Name)
		case *Tensor:
			fmt.Fprintf(&s, " %s=%v", name, a)
		default:
			fmt.Fprintf(&s, " %s=%v", name, a)
		}
	}
	return s.String()
}

func sortedKeys(attrs Attrs) []string { return slices.Sorted(maps.Keys(attrs)) }
