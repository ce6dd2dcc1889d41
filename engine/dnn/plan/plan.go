// Package plan makes of a specialised graph the steps of a pass on a device: where its tensors lie, and what is
// computed when. What a device cannot compute runs on the host.
package plan

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// Options say what a plan is for.
type Options struct {
	Networks bool          // the device is a kernels.Networks; else the host computes all
	Step     time.Duration // that a step takes at the most, about; 0: 5 ms
	Rates    Rates         // of the device; 0: those of two CPU cores
	// Eval computes a node, such as by package ops: in[i] is nil for an optional input that is not given.
	Eval func(n *graph.Node, in []*graph.Tensor) ([]*graph.Tensor, error)
}

// Rates are what a device does in a second, roughly: they divide a pass into steps, and say how much of it is done.
type Rates struct {
	FLOPs, Bytes float64
	Call         float64 // seconds that a call takes beside its work
}

// Weight is something that plans need of constants on the device. It does not depend on the shapes of inputs:
// weights of equal Kind, of constants that are equal in their order, are equal.
type Weight struct {
	Kind      string // how it is made
	Constants []*graph.Value
	Bytes     int64 // that it takes, about
	make      func(b kernels.Networks, constants []*graph.Tensor) (kernels.Held, error)
}

// Make packs the weight from its constants.
func (w *Weight) Make(b kernels.Networks, constants []*graph.Tensor) (kernels.Held, error) {
	return w.make(b, constants)
}

// Plan is how to compute a graph. It is not changed by what runs.
type Plan struct {
	Weights    []Weight
	ArenaBytes int64   // of the buffer that a Run needs
	Seconds    float64 // that a pass takes, estimated by the rates

	Inputs, Outputs []*graph.Value // of the graph

	options Options
	nodes   []*graph.Node
}

// Build plans a graph: specialised, so that shapes that can be known are.
func Build(g *graph.Graph, o Options) (*Plan, error) {
	p := &Plan{Inputs: g.Inputs, Outputs: g.Outputs, options: o, nodes: g.Nodes}
	return p, nil
}
