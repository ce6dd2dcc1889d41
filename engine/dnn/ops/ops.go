// Package ops is the table of operations on tensors: what types and shapes each makes of others, its values in
// plain Go, and its gradient. Definitions are in packages by what an element of the result is made of: the element at its place
// (elementwise), one elsewhere (move), its neighbours in an image (spatial), or many (combine); together they would be a package of 6,000
// lines. elementwise is one of them though it is small, since the others compute with its functions.
package ops

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/combine"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/elementwise"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/move"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/spatial"
	"github.com/prefillonly/prefillonly/engine/dnn/vjp"
)

// Op is an operation. Its errors name the node and the figure that is wrong.
type Op struct {
	// Infer sets the types and shapes of a node's outputs, as far as those of its inputs, and constants among
	// them, tell.
	Infer func(n *graph.Node) error
	// Eval computes the outputs: floats in float64, rounded when they are stored. Of n it reads attributes and
	// which outputs there are. in[i] is nil if an optional input is not given. A node with subgraphs gets the
	// tensors of n.Reads(). Of the input of Shape and Size, Data may be nil.
	Eval func(n *graph.Node, in []*graph.Tensor) ([]*graph.Tensor, error)
	// Grad adds the nodes that compute the gradients of the inputs from those of the outputs. out[i] is nil if
	// none comes from there, and in[i] if none goes there. A nil Grad: constant almost everywhere.
	Grad vjp.Grad
	// NoGrad says why Grad is an error, whatever the node.
	NoGrad string
	// Types are the element types that the first input may have.
	Types []engine.DType
}

// Lookup finds an operation.
func Lookup(op string) (*Op, bool) {
	o, ok := table[op]
	return o, ok
}

// Names are those of all operations, in no order.
func Names() []string {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	return names
}

var table = map[string]*Op{}

// init, for some operations look others up.
func init() {
	for _, family := range []map[string]op.Definition{
		elementwise.Unaries, elementwise.Binaries, elementwise.Selections,
		move.Moves, move.Scatters, move.Shapes,
		spatial.Convolutions, spatial.Pools, spatial.Samplings, spatial.Columns,
		combine.Linears, combine.Normalisations, combine.Reductions, combine.Searches, combine.Recurrences,
		quantisations, controls, backwards,
	} {
		for name, d := range family {
			table[name] = &Op{Infer: d.Infer, Eval: d.Eval, Types: d.Types.List()}
		}
	}
	for name, g := range gradients {
		table[name].Grad = g
	}
	for name, why := range refusals {
		table[name].Grad, table[name].NoGrad = vjp.Refuse(why), why
	}
}
