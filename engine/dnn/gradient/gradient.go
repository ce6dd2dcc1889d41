// Package gradient makes of a network one that computes its gradients to inputs, which weights are once graph.Free has
// freed them.
package gradient

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
	"github.com/prefillonly/prefillonly/engine/dnn/vjp"
)

// Request says what is to be computed.
type Request struct {
	Seeded  []string // outputs y whose gradients d are given, each as an input engine.SeedPrefix + y of y's type and shape
	Wanted  []string // inputs x whose gradients, of x's type and shape, are outputs engine.GradientPrefix + x
	Outputs []string // outputs of the network itself that are asked for beside
}

// Of is a new graph with the inputs of g and the seeds, in the request's order, and the outputs asked for, the
// network's own first. The gradient of x is that of the sum over all seeded y and their elements of d y: back
// along each path from a seeded output to a wanted input, through nodes that are differentiable almost everywhere.
// Nothing else is computed; what forward and backward both need is so once.
//
// On these paths all types and shapes have to be known. A wanted input from which no path leads to a seeded output
// is an error, and so is a node on a path whose operation has no gradient.
func NewGradient(g *graph.Graph, r Request) (*graph.Graph, error) {
	switch {
	case len(r.Seeded) == 0:
		return nil, fmt.Errorf("no output is seeded")
	case len(r.Wanted) == 0:
		return nil, fmt.Errorf("no gradient is wanted")
	}
	own, _ := g.Clone()
	p := &product{
		b:         graph.NewBuilder(own, infer),
		gradients: map[*graph.Value][]*graph.Value{},
	}
	seeded, err := valuesNamed("output", own.Outputs, r.Seeded)
	if err != nil {
		return nil, err
	}
	wanted, err := valuesNamed("input", own.Inputs, r.Wanted)
	if err != nil {
		return nil, err
	}
	outputs, err := valuesNamed("output", own.Outputs, r.Outputs)
	if err != nil {
		return nil, err
	}
	p.followInputs(wanted)
	for _, y := range seeded {
		if err := p.seed(y); err != nil {
			return nil, err
		}
	}
	if err := p.propagateBack(); err != nil {
		return nil, err
	}
	own.Outputs = outputs
	for _, x := range wanted {
		if err := p.output(x); err != nil {
			return nil, err
		}
	}
	own.Prune()
	return own, p.b.Err()
}

// infer sets what is known of a node's outputs.
func infer(n *graph.Node) error {
	op, ok := ops.Lookup(n.Op)
	if !ok {
		return fmt.Errorf("%v: unknown operation", n)
	}
	return op.Infer(n)
}

// valuesNamed are the values of these names, which have to differ.
func valuesNamed(kind string, all []*graph.Value, names []string) ([]*graph.Value, error) {
	var out []*graph.Value
	for i, name := range names {
		at := slices.IndexFunc(all, func(v *graph.Value) bool { return v.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("the network has no %s %q", kind, name)
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%s %q is named twice", kind, name)
		}
		out = append(out, all[at])
	}
	return out, nil
}

// product is a vector-Jacobian product that is being written.
type product struct {
	b         *graph.Builder
	forward   []*graph.Node                   // the network's nodes through which wanted inputs act
	active    map[*graph.Value]bool           // what depends on wanted inputs, differentiably
	gradients map[*graph.Value][]*graph.Value // what has come to each value
}

// followInputs finds what depends on the wanted inputs.
func (p *product) followInputs(wanted []*graph.Value) {
	p.active = map[*graph.Value]bool{}
	for _, x := range wanted {
		p.active[x] = true
	}
	for _, n := range p.b.Graph.Nodes {
		op, ok := ops.Lookup(n.Op)
		if ok && op.Grad == nil || !slices.ContainsFunc(n.Reads(), func(v *graph.Value) bool { return p.active[v] }) {
			continue
		}
		p.forward = append(p.forward, n)
		for _, v := range n.Out {
			if v != nil && (v.Type == 0 || graph.Floating(v.Type)) {
				p.active[v] = true
			}
		}
	}
}

// seed adds the input for the gradient of an output.
func (p *product) seed(y *graph.Value) error {
	if !y.Known() || !graph.Floating(y.Type) {
		return fmt.Errorf("output %q, %v%s, cannot be seeded: it has to be of floating-point numbers and of a known shape",
			y.Name, y.Type, graph.ShapeString(y.Shape, y.Rank))
	}
	seed := p.b.Input(engine.SeedPrefix+y.Name, y.Type, y.Shape...)
	if seed.Name != engine.SeedPrefix+y.Name {
		return fmt.Errorf("the network has a value %q itself", engine.SeedPrefix+y.Name)
	}
	p.gradients[y] = append(p.gradients[y], seed)
	return nil
}

// propagateBack goes from the seeds to the wanted inputs.
func (p *product) propagateBack() error {
	for _, n := range slices.Backward(p.forward) {
		out := make([]*graph.Value, len(n.Out))
		comes := false
		for i, v := range n.Out {
			if v != nil && p.active[v] && len(p.gradients[v]) > 0 {
				out[i], comes = p.totalGradient(v), true
			}
		}
		if !comes {
			continue
		}
		if err := p.propagateThrough(n, out); err != nil {
			return fmt.Errorf("gradient of %v: %w", n, err)
		}
	}
	return nil
}

// totalGradient is the sum of what has come to a value.
func (p *product) totalGradient(v *graph.Value) *graph.Value {
	sum := vjp.Total(p.b, p.gradients[v])
	p.gradients[v] = []*graph.Value{sum}
	return sum
}

// propagateThrough passes gradients of a node's outputs on to its inputs.
func (p *product) propagateThrough(n *graph.Node, out []*graph.Value) error {
	op, ok := ops.Lookup(n.Op)
	if !ok {
		return fmt.Errorf("there is no operation %q", n.Op)
	}
	for _, v := range append(n.Reads(), n.Out...) {
		if v != nil && !v.Known() {
			return fmt.Errorf("the shape of %q is not known", v.Name)
		}
	}
	in, err := op.Grad(p.b, n, out)
	if err != nil {
		return err
	}
	for i, x := range n.In {
		if x == nil || !p.active[x] {
			continue
		}
		if i >= len(in) || in[i] == nil {
			return fmt.Errorf("no gradient to its input %d (%q)", i, x.Name)
		}
		if p.b.Err() == nil && (in[i].Type != x.Type || !slices.Equal(in[i].Shape, x.Shape)) {
			return fmt.Errorf("the gradient to its input %d (%q) is %v%v, want %v%v", i, x.Name, in[i].Type, in[i].Shape, x.Type, x.Shape)
		}
		p.gradients[x] = append(p.gradients[x], in[i])
	}
	return p.b.Err()
}

// output makes the gradient of a wanted input an output.
func (p *product) output(x *graph.Value) error {
	if len(p.gradients[x]) == 0 {
		return fmt.Errorf("no seeded output depends on input %q differentiably", x.Name)
	}
	name := engine.GradientPrefix + x.Name
	if p.b.Fresh(name) != name {
		return fmt.Errorf("the network has a value %q itself", name)
	}
	d := p.totalGradient(x)
	if d.From == nil || slices.Contains(p.b.Graph.Outputs, d) {
		d = p.b.Op("Identity", nil, d)
	}
	d.Name = name
	p.b.Graph.Outputs = append(p.b.Graph.Outputs, d)
	return nil
}
