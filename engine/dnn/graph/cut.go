package graph

import "fmt"

// SplitPoints are the values that nodes compute and everything goes through: all outputs that depend on inputs do so by way of them. They come in the order
// of the nodes of a sorted graph; outputs are not among them.
func (g *Graph) SplitPoints() (points []*Value) {
	left := map[*Value]int{} // nodes that are still to read what depends on inputs
	for v, users := range g.Users() {
		left[v] = len(users)
	}
	for _, v := range g.Outputs {
		left[v]++
	}
	live := map[*Value]bool{}
	for _, v := range g.Inputs {
		if left[v] > 0 {
			live[v] = true
		}
	}
	for _, n := range g.Nodes {
		depends := false
		for _, v := range unique(n.Reads()) {
			if live[v] {
				depends = true
				if left[v]--; left[v] == 0 {
					delete(live, v)
				}
			}
		}
		var last *Value
		for _, v := range n.Out {
			if v != nil && depends && left[v] > 0 {
				live[v], last = true, v
			}
		}
		if last != nil && len(live) == 1 && !g.isOutput(last) {
			points = append(points, last)
		}
	}
	return points
}

func (g *Graph) isOutput(v *Value) bool {
	for _, out := range g.Outputs {
		if out == v {
			return true
		}
	}
	return false
}

func unique(values []*Value) (once []*Value) {
	seen := map[*Value]bool{}
	for _, v := range values {
		if !seen[v] {
			seen[v] = true
			once = append(once, v)
		}
	}
	return once
}

// Cut parts a sorted graph in two: front computes the values of these names from the graph's inputs, and back the graph's outputs from them, which are its inputs
// in this order. They share constants alone with the graph. It is an error if an output depends on an input in another way.
func (g *Graph) Cut(names ...string) (front, back *Graph, err error) {
	front, values := g.Clone()
	if front.Outputs, err = g.computedCopies(names, values); err != nil {
		return nil, nil, err
	}
	front.Prune()

	back, values = g.Clone()
	inputs, err := g.computedCopies(names, values)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range inputs {
		for i, out := range v.From.Out {
			if out == v {
				v.From.Out[i] = nil
			}
		}
		v.From = nil
	}
	before := back.Inputs
	back.Inputs = inputs
	back.Prune()
	for _, v := range back.captures() {
		for _, in := range before {
			if v == in {
				return nil, nil, fmt.Errorf("what is computed from %q depends on input %q in another way, too", names, in.Name)
			}
		}
	}
	return front, back, nil
}

// computedCopies are the copies of values that nodes compute.
func (g *Graph) computedCopies(names []string, copies map[*Value]*Value) (found []*Value, err error) {
	for _, name := range names {
		var of *Value
		for _, n := range g.Nodes {
			for _, v := range n.Out {
				if v != nil && v.Name == name {
					of = v
				}
			}
		}
		if of == nil {
			return nil, fmt.Errorf("no node computes %q", name)
		}
		found = append(found, copies[of])
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("a network is cut at no value")
	}
	return found, nil
}
