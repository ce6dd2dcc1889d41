package graph

import "maps"

// Clone is a copy that shares constants' tensors alone, and the new value of each old one.
func (g *Graph) Clone() (*Graph, map[*Value]*Value) {
	c := cloner{}
	return c.graph(g), c
}

type cloner map[*Value]*Value

// value is the copy of a value. Constants are copied when they are met.
func (c cloner) value(v *Value) *Value {
	if v == nil {
		return nil
	}
	if _, ok := c[v]; !ok {
		copied := *v
		c[v] = &copied
	}
	return c[v]
}

func (c cloner) values(vs []*Value) []*Value {
	out := make([]*Value, len(vs))
	for i, v := range vs {
		out[i] = c.value(v)
	}
	return out
}

func (c cloner) graph(g *Graph) *Graph {
	out := &Graph{Name: g.Name, Inputs: c.values(g.Inputs)}
	for _, n := range g.Nodes {
		out.Nodes = append(out.Nodes, c.node(n))
	}
	out.Outputs = c.values(g.Outputs)
	return out
}

func (c cloner) node(n *Node) *Node {
	out := &Node{Name: n.Name, Op: n.Op, In: c.values(n.In), Out: c.values(n.Out), Attrs: maps.Clone(n.Attrs)}
	for name, a := range out.Attrs {
		if sub, ok := a.(*Graph); ok {
			out.Attrs[name] = c.graph(sub)
		}
	}
	for _, v := range out.Out {
		if v != nil {
			v.From = out
		}
	}
	return out
}
