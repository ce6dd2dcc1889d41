package graph

import (
	"fmt"
	"slices"
)

// Free is a copy of g in which the constants of these names are inputs, behind those that there are: each pass is given them, and
// gradients go to them. They are freed before constants are folded: one that others were computed from is an error.
func (g *Graph) Free(names ...string) (*Graph, error) {
	free, _ := g.Clone()
	constants := free.constants()
	for i, name := range names {
		v := constants[name]
		switch {
		case v == nil:
			return nil, fmt.Errorf("the network has no constant %q", name)
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("constant %q is named twice", name)
		case v.Folded:
			return nil, fmt.Errorf("other constants were computed from %q: free it before they are", name)
		}
		free.Inputs = append(free.Inputs, v)
	}
	for _, v := range free.Inputs {
		v.Const = nil
	}
	return free, nil
}

// constants are those that nodes and subgraphs read, by name.
func (g *Graph) constants() map[string]*Value {
	all := map[string]*Value{}
	for _, n := range g.Nodes {
		for _, v := range n.Reads() {
			if v.Const != nil {
				all[v.Name] = v
			}
		}
	}
	return all
}
