// Package ops is the table of operations on tensors: what types and shapes each makes of others, its values in
// plain Go, and its gradient.
package ops

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
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
	// Types are the element types that the first input may have.
	Types []engine.DType
}

// The most elements a tensor may have: as a value of a graph, and as a result of Eval.
const (
	MaxElements     = 1 << 31
	MaxEvalElements = 1 << 26
)

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

// definition says how an operation is applied, and to what.
type definition struct {
	apply        func(*call)
	types        kinds // of the first input
	fewest, most int   // inputs
	outputs      int   // at most
}

// many is a number of inputs or outputs without a bound.
const many = math.MaxInt

var table = map[string]*Op{}

// init, for some operations look others up.
func init() {
	for _, family := range []map[string]definition{
		unaries, binaries, selections, moves, scatters, shapes, convolutions, pools, linears, normalisations, reductions, searches, samplings, quantisations, recurrences, backwards,
	} {
		for name, d := range family {
			table[name] = &Op{Infer: d.infer, Eval: d.eval, Types: d.types.list()}
		}
	}
	for name, g := range gradients {
		table[name].Grad = g
	}
}
