package onnx

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// builder makes graphs of messages.
type builder struct {
	model *Model
	taken map[string]int          // names of values of all graphs, and how often they were made others
	hints map[string]engine.DType // types that the file claims of computed values
}

// scope is the values by the names that nodes of a graph call them.
type scope struct {
	values map[string]*graph.Value
	outer  *scope
}

func (s *scope) findValue(name string) *graph.Value {
	for ; s != nil; s = s.outer {
		if v := s.values[name]; v != nil {
			return v
		}
	}
	return nil
}

func (m *Model) buildGraph(p *graphProto) (*graph.Graph, error) {
	b := &builder{model: m, taken: map[string]int{}, hints: map[string]engine.DType{}}
	g, err := b.buildGraph(p, nil)
	if err != nil {
		return nil, err
	}
	if len(g.Outputs) == 0 {
		return nil, fmt.Errorf("graph has no outputs")
	}
	if err := g.Sort(); err != nil {
		return nil, err
	}
	return g, liftOpset(g, m.Opset, b.hints)
}

func (b *builder) buildGraph(p *graphProto, outer *scope) (*graph.Graph, error) {
	if p.sparse > 0 {
		return nil, fmt.Errorf("graph %q: sparse initializers are not supported", p.name)
	}
	g, s := &graph.Graph{Name: p.name}, &scope{map[string]*graph.Value{}, outer}
	if err := b.addConstants(p, s); err != nil {
		return nil, err
	}
	if err := b.declareInputs(p, g, s); err != nil {
		return nil, err
	}
	for _, n := range p.nodes {
		made, err := b.declareNode(n, s)
		if err != nil {
			return nil, err
		}
		g.Nodes = append(g.Nodes, made)
	}
	for i, n := range p.nodes {
		if err := b.completeNode(g.Nodes[i], n, s); err != nil {
			return nil, err
		}
	}
	for _, info := range p.infos {
		b.hintType(info, s)
	}
	return g, b.setOutputs(p, g, s)
}

// newValue is a new value of the scope. Its name is another one if a value of another graph has it.
func (b *builder) newValue(name string, s *scope) (*graph.Value, error) {
	if s.values[name] != nil {
		return nil, fmt.Errorf("%q is defined twice", name)
	}
	unique := name
	for _, ok := b.taken[unique]; ok; _, ok = b.taken[unique] {
		b.taken[name]++
		unique = fmt.Sprintf("%s_%d", name, b.taken[name])
	}
	b.taken[unique] = 0
	v := graph.NewValue(unique)
	s.values[name] = v
	return v, nil
}

func (b *builder) addConstants(p *graphProto, s *scope) error {
	for _, t := range p.initializers {
		v, err := b.newValue(t.name, s)
		if err != nil {
			return fmt.Errorf("initializer %w", err)
		}
		c, err := b.model.makeTensor(t)
		if err != nil {
			return fmt.Errorf("initializer %q: %w", t.name, err)
		}
		v.Set(c.Type, c.Shape)
		v.Const = c
	}
	return nil
}

// declareInputs declares the inputs. Those that have an initializer are constants here.
func (b *builder) declareInputs(p *graphProto, g *graph.Graph, s *scope) error {
	for _, info := range p.inputs {
		if v := s.values[info.name]; v != nil && v.Const != nil {
			continue
		}
		v, err := b.newValue(info.name, s)
		if err != nil {
			return fmt.Errorf("input %w", err)
		}
		if info.kind != "" {
			return fmt.Errorf("input %q is a %s, want a tensor", info.name, info.kind)
		}
		if info.typ != 0 || s.outer == nil {
			if v.Type, err = elementType(info.typ); err != nil {
				return fmt.Errorf("input %q: %w", info.name, err)
			}
		}
		if info.shaped {
			setShape(v, info)
		}
		g.Inputs = append(g.Inputs, v)
	}
	return nil
}

// setShape sets the shape that the file claims. Dimensions below 1 stand for any.
func setShape(v *graph.Value, info *valueInfo) {
	shape := make([]int, len(info.dims))
	v.Dims = make([]string, len(info.dims))
	for i, d := range info.dims {
		shape[i], v.Dims[i] = -1, d.param
		if d.param == "" && d.value > 0 {
			shape[i] = int(d.value)
		}
	}
	v.Set(v.Type, shape)
}

// hintType keeps the type that the file claims of a value.
func (b *builder) hintType(info *valueInfo, s *scope) {
	v := s.values[info.name]
	if t, ok := graph.ElementType(info.typ); ok && v != nil && info.kind == "" {
		b.hints[v.Name] = t
	}
}

// declareNode makes a node with its outputs.
func (b *builder) declareNode(p *nodeProto, s *scope) (*graph.Node, error) {
	n := &graph.Node{Name: p.name, Op: p.op}
	if !isDefault(p.domain) {
		n.Op = p.domain + "::" + p.op
	}
	n.Out = make([]*graph.Value, len(p.out))
	for i, name := range p.out {
		if name == "" {
			continue
		}
		v, err := b.newValue(name, s)
		if err != nil {
			return nil, fmt.Errorf("%v: output %w", n, err)
		}
		v.From, n.Out[i] = n, v
	}
	return n, nil
}

// completeNode gives a node its inputs and attributes.
func (b *builder) completeNode(n *graph.Node, p *nodeProto, s *scope) error {
	for _, name := range p.in {
		v := s.findValue(name)
		if v == nil && name != "" {
			return fmt.Errorf("%v reads %q: want an input, a constant or an output of a node", n, name)
		}
		n.In = append(n.In, v)
	}
	n.Attrs = graph.Attrs{}
	for _, a := range p.attributes {
		if _, ok := n.Attrs[a.name]; ok {
			return fmt.Errorf("%v has attribute %q twice", n, a.name)
		}
		if err := b.setAttribute(n, a, s); err != nil {
			return fmt.Errorf("%v: attribute %q: %w", n, a.name, err)
		}
	}
	return nil
}

// setAttribute sets an attribute. Kinds that no operation here has are left out.
func (b *builder) setAttribute(n *graph.Node, a *attributeProto, s *scope) error {
	if a.reference != "" {
		return fmt.Errorf("refers to %q of a function: functions are not supported", a.reference)
	}
	switch a.typ {
	case 1:
		n.Attrs[a.name] = a.f
	case 2:
		n.Attrs[a.name] = a.i
	case 3:
		n.Attrs[a.name] = a.s
	case 4:
		if a.t == nil {
			return fmt.Errorf("missing tensor")
		}
		t, err := b.model.makeTensor(a.t)
		if err != nil {
			return err
		}
		n.Attrs[a.name] = t
	case 5:
		if a.g == nil {
			return fmt.Errorf("missing graph")
		}
		g, err := b.buildGraph(a.g, s)
		if err != nil {
			return err
		}
		n.Attrs[a.name] = g
	case 6:
		n.Attrs[a.name] = a.floats
	case 7:
		n.Attrs[a.name] = a.ints
	case 8:
		n.Attrs[a.name] = a.strings
	}
	return nil
}

func (b *builder) setOutputs(p *graphProto, g *graph.Graph, s *scope) error {
	seen := map[string]bool{}
	for _, info := range p.outputs {
		v := s.findValue(info.name)
		if v == nil {
			return fmt.Errorf("output %q is computed by no node", info.name)
		}
		if seen[info.name] && s.outer == nil {
			return fmt.Errorf("output %q is listed twice", info.name)
		}
		seen[info.name] = true
		b.hintType(info, s)
		if info.shaped && v.From != nil && info.kind == "" {
			v.Type = b.hints[v.Name]
			setShape(v, info)
		}
		g.Outputs = append(g.Outputs, v)
	}
	return nil
}
