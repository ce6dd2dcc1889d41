package specialize

import (
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
)

// evaluate computes a graph's outputs of inputs by name.
func evaluate(g *graph.Graph, inputs map[string]*graph.Tensor) ([]*graph.Tensor, error) {
	values := map[*graph.Value]*graph.Tensor{}
	for _, v := range g.Inputs {
		if values[v] = inputs[v.Name]; values[v] == nil {
			return nil, fmt.Errorf("input %q is not given", v.Name)
		}
	}
	tensors := func(vs []*graph.Value) []*graph.Tensor {
		out := make([]*graph.Tensor, len(vs))
		for i, v := range vs {
			switch {
			case v == nil:
			case v.Const != nil:
				out[i] = v.Const
			default:
				out[i] = values[v]
			}
		}
		return out
	}
	// Tensors that no later node reads are let go: large models have many.
	last := map[*graph.Value]int{}
	for i, n := range g.Nodes {
		for _, v := range n.Reads() {
			last[v] = i
		}
	}
	for _, v := range g.Outputs {
		last[v] = len(g.Nodes)
	}
	for i, n := range g.Nodes {
		reads := n.In
		if len(n.Subgraphs()) > 0 {
			reads = n.Reads()
		}
		op, ok := ops.Lookup(n.Op)
		if !ok {
			return nil, fmt.Errorf("%v: no such operation", n)
		}
		out, err := op.Eval(n, tensors(reads))
		if err != nil {
			return nil, err
		}
		for j, v := range n.Out {
			if v != nil {
				values[v] = out[j]
			}
		}
		for _, v := range n.Reads() {
			if last[v] == i {
				delete(values, v)
			}
		}
	}
	return tensors(g.Outputs), nil
}

func mustEvaluate(t testing.TB, g *graph.Graph, inputs map[string]*graph.Tensor) []*graph.Tensor {
	t.Helper()
	out, err := evaluate(g, inputs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
