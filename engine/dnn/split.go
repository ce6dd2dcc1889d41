package dnn

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// SplitPoints are the tensors that everything goes through on its way from the inputs to the outputs, first ones first, for one frame of the network's own shapes.
func (n *Network) SplitPoints() (points []wire.TensorSpec, err error) {
	special, err := specialiseGraph(n.graph, n.inputShapes(1))
	if err != nil {
		return nil, err
	}
	for _, v := range special.SplitPoints() {
		points = append(points, wire.TensorSpec{Name: v.Name, Type: v.Type, Shape: v.Shape})
	}
	return points, nil
}

// Split parts the network, for one frame of its own shapes, at tensors of these names: front computes them of the network's inputs, and back the outputs of
// them. The network is to be closed after the models of both.
func (n *Network) Split(at ...string) (front, back *Network, err error) {
	special, err := specialiseGraph(n.graph, n.inputShapes(1))
	if err != nil {
		return nil, nil, err
	}
	first, second, err := special.Cut(at...)
	if err != nil {
		return nil, nil, err
	}
	part := func(g *graph.Graph, which string) (*Network, error) {
		p, err := New(g, fmt.Sprintf("%s %s %q", n.print, which, at), Options{WorkBytes: n.options.WorkBytes})
		if err != nil {
			return nil, fmt.Errorf("%s part, cut at %q: %w", which, at, err)
		}
		return p, nil
	}
	if front, err = part(first, "front"); err != nil {
		return nil, nil, err
	}
	back, err = part(second, "back")
	return front, back, err
}
