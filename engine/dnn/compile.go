package dnn

import (
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
	"github.com/prefillonly/prefillonly/kernels"
)

// specialiseGraph is a network for inputs of these shapes.
func specialiseGraph(g *graph.Graph, shapes map[string][]int) (*graph.Graph, error) {
	return specialize.Run(g, shapes)
}

// buildPlan plans a specialised network.
func buildPlan(g *graph.Graph, device kernels.Networks) (*plan.Plan, error) {
	return plan.Build(g, plan.Options{Device: device})
}
