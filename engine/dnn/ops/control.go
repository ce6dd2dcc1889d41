package ops

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// deepest bounds branches within branches.
const deepest = 16

// controls are operations that choose what is computed.
var controls = map[string]op.Definition{
	"If": op.Define(computeIf, op.Booleans, 1, op.Many, op.Many),
}

// computeIf is If. Its outputs are those of the branch that the condition takes.
func computeIf(c *op.Call) {
	var branches [2]*graph.Graph
	for i, name := range []string{"else_branch", "then_branch"} {
		g, ok := op.Attribute[*graph.Graph](c, name)
		if !ok {
			c.Fail("missing attribute %s", name)
		}
		if len(g.Inputs) != 0 || len(g.Outputs) != len(c.Out) {
			c.Fail("branch %s has %d inputs and %d outputs, want 0 and %d", name, len(g.Inputs), len(g.Outputs), len(c.Out))
		}
		if branchDepth(g, deepest) < 0 {
			c.Fail("branch %s is nested deeper than %d", name, deepest)
		}
		branches[i] = g
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		if in[0].Len() != 1 {
			c.Fail("condition has shape %v, want one element", in[0].Shape)
		}
		values := map[*graph.Value]*graph.Tensor{}
		for i, v := range c.Node.Reads() {
			if i < len(in) {
				values[v] = in[i]
			}
		}
		return computeBranch(c, branches[in[0].Ints()[0]], values)
	}
	if c.Evaluates {
		return
	}
	for i := range c.Out {
		c.Typed(i, 0)
	}
	if t := c.In[0].Const; t != nil && t.Len() == 1 {
		taken := branches[t.Ints()[0]]
		if err := inferNodes(c, taken); err != nil {
			c.Fail("%w", err)
		}
		joinBranch(c, taken, false)
		return
	}
	inferBranches(c, branches)
}

// inferBranches sets the outputs to what both branches have in common. Where the shapes of values fit one alone, it is
// that one's: to take the other is an error then.
func inferBranches(c *op.Call, branches [2]*graph.Graph) {
	failed := inferNodes(c, branches[0])
	if failed == nil {
		joinBranch(c, branches[0], false)
	}
	switch err := inferNodes(c, branches[1]); {
	case err == nil:
		joinBranch(c, branches[1], failed == nil)
	case failed != nil:
		c.Fail("%w", failed)
	}
}

// branchDepth is left less the branches within each other in g; -1 if they are more.
func branchDepth(g *graph.Graph, left int) int {
	least := left
	for _, n := range g.Nodes {
		for _, sub := range n.Subgraphs() {
			if left == 0 {
				return -1
			}
			least = min(least, branchDepth(sub, left-1))
		}
	}
	return least
}

// inferNodes infers the nodes of a branch; its error is of shapes, or what else does not fit.
func inferNodes(c *op.Call, g *graph.Graph) error {
	for _, n := range g.Nodes {
		known, ok := Lookup(n.Op)
		if !ok {
			c.Fail("%v: unknown operation", n)
		}
		if err := known.Infer(n); err != nil {
			return err
		}
	}
	return nil
}

// joinBranch sets the outputs to those of a branch or, if they are set, to what they have in common with them.
func joinBranch(c *op.Call, g *graph.Graph, second bool) {
	for i, v := range g.Outputs {
		switch o := c.Out[i]; {
		case v == nil:
			c.Fail("missing output %d of a branch", i)
		case !second:
			o.Type, o.Shape, o.Rank = v.Type, slices.Clone(v.Shape), v.Rank
		case o.Type != v.Type && o.Type != 0 && v.Type != 0:
			c.Fail("output %d has elements of %v in one branch, %v in the other", i, v.Type, o.Type)
		case o.Rank != v.Rank:
			o.Shape, o.Rank = nil, -1
		default:
			for k := range o.Shape {
				if o.Shape[k] != v.Shape[k] {
					o.Shape[k] = -1
				}
			}
		}
	}
}

// computeBranch computes a graph's outputs from values of the graphs around it.
func computeBranch(c *op.Call, g *graph.Graph, values map[*graph.Value]*graph.Tensor) []*graph.Tensor {
	for _, n := range g.Nodes {
		known, ok := Lookup(n.Op)
		if !ok {
			c.Fail("%v: unknown operation", n)
		}
		reads := n.In
		if len(n.Subgraphs()) > 0 {
			reads = n.Reads()
		}
		out, err := known.Eval(n, tensorsOf(c, reads, values))
		if err != nil {
			c.Fail("%w", err)
		}
		for i, v := range n.Out {
			if v != nil {
				values[v] = out[i]
			}
		}
	}
	return tensorsOf(c, g.Outputs, values)
}

// tensorsOf are those of values, nil for nil.
func tensorsOf(c *op.Call, of []*graph.Value, values map[*graph.Value]*graph.Tensor) []*graph.Tensor {
	out := make([]*graph.Tensor, len(of))
	for i, v := range of {
		if v == nil {
			continue
		}
		if out[i] = values[v]; out[i] == nil {
			out[i] = v.Const
		}
		if out[i] == nil {
			c.Fail("branch reads %s, which is missing", v.Name)
		}
	}
	return out
}
