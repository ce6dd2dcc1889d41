// Package lower turns a specialised graph into a Net, which is a graph in the few operations that kernels.Networks computes, and leaves
// what they cannot express as nodes for the host. Operations are fused where that saves memory traffic: element-wise ones with each
// other and with the convolutions before them.
package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// Graph lowers a graph for a device. Without one, every node is the host's.
func Graph(g *graph.Graph, device kernels.Networks) *Net {
	t := &translator{net: &Net{}, values: map[*graph.Value]*Value{}, filters: map[filterKey]*Value{}}
	t.packer, _ = device.(kernels.Packer)
	for _, v := range g.Inputs {
		t.net.Inputs = append(t.net.Inputs, t.translatedValue(v))
	}
	for _, n := range g.Nodes {
		t.node = n
		before := len(t.net.Ops)
		if lowering := lowerings[n.Op]; device != nil && lowering != nil && t.suitsDevice(n) {
			if out := lowering(t, n); out != nil && shapesAgree(n, out) {
				t.bindOutputs(n, out)
				continue
			}
		}
		t.net.Ops = t.net.Ops[:before] // what was tried
		clear(t.filters)
		t.leaveToHost(n)
	}
	for _, v := range g.Outputs {
		out := t.translatedValue(v)
		out.Kept = true
		t.net.Outputs = append(t.net.Outputs, out)
	}
	t.net.Relink()
	fuse(t.net)
	placeHostValues(t.net, device != nil)
	return t.net
}

// lowerings make of a node the values of its outputs, or nothing where the host has to compute it. Inputs that
// are not constant are on the device, as are the outputs.
var lowerings map[string]func(t *translator, n *graph.Node) []*Value

func init() {
	lowerings = map[string]func(t *translator, n *graph.Node) []*Value{}
	for _, table := range []map[string]func(t *translator, n *graph.Node) *Value{
		elementLowerings(), shapeLowerings(), windowLowerings(), reduceLowerings(), matrixLowerings(), resampleLowerings(),
	} {
		for op, lowering := range table {
			lowerings[op] = func(t *translator, n *graph.Node) []*Value {
				if v := lowering(t, n); v != nil {
					return []*Value{v}
				}
				return nil
			}
		}
	}
	lowerings["Split"] = (*translator).split
}

type translator struct {
	net    *Net
	values map[*graph.Value]*Value
	node   *graph.Node // whose operations are added

	packer  kernels.Packer // nil: the device has none
	filters map[filterKey]*Value
}

// translatedValue is what a value of the graph has become.
func (t *translator) translatedValue(v *graph.Value) *Value {
	if v == nil {
		return nil
	}
	if t.values[v] == nil {
		t.values[v] = &Value{Name: v.Name, Type: v.Type, Shape: v.Shape, Const: v.Const}
	}
	return t.values[v]
}

// suitsDevice says whether a device may have the inputs and outputs that are wanted.
func (t *translator) suitsDevice(n *graph.Node) bool {
	for _, v := range n.In {
		if v != nil && v.Const == nil && !fitsDevice(v) {
			return false
		}
	}
	for i, v := range n.Out {
		if v != nil && (!fitsDevice(v) || i > 0 && n.Op != "Split") {
			return false
		}
	}
	return len(n.Out) > 0 && n.Out[0] != nil || n.Op == "Split"
}

// fitsDevice says whether a device can have a value: nothing empty, and as few dimensions as a kernels.Tensor has.
func fitsDevice(v *graph.Value) bool {
	return onDevice(v) && len(v.Shape) <= kernels.MaxDims && graph.Elements(v.Shape) > 0
}

// onDevice says whether a value of a graph can be one of the device's.
func onDevice(v *graph.Value) bool { return deviceType(v.Type) && v.Known() }

// deviceType are the types whose elements are float32 on the device.
func deviceType(t engine.DType) bool {
	return t == engine.FP32 || t == engine.FP16 || t == engine.BF16 || t == engine.Bool
}

// shapesAgree says whether values have the shapes of a node's outputs. Else the host is to say what is wrong with the node.
func shapesAgree(n *graph.Node, out []*Value) bool {
	for i, v := range out {
		if g := n.Out[i]; g != nil && !slices.Equal(v.Shape, g.Shape) {
			return false
		}
	}
	return true
}

// bindOutputs makes values those of a node's outputs.
func (t *translator) bindOutputs(n *graph.Node, out []*Value) {
	for i, v := range out {
		if n.Out[i] == nil {
			continue
		}
		g := n.Out[i]
		v = t.roundToType(v, g)
		if v.From == nil || v.Type != g.Type { // another value's
			v = t.addOp(&Reshape{}, g.Type, g.Shape, v)
		}
		t.values[g] = v
	}
}

// narrowing are the instructions that round to a type of 16 bits.
var narrowing = map[engine.DType]kernels.ElementOp{engine.FP16: kernels.Half, engine.BF16: kernels.Brain}

// roundToType is v, which the node has made or passes on, with numbers of the type that its output g has.
func (t *translator) roundToType(v *Value, g *graph.Value) *Value {
	round, narrow := narrowing[g.Type]
	made := v.From != nil && v.From.Nodes[0] == t.node && !isExact(v.From)
	if !narrow || !made && (v.Type == g.Type || v.Type == engine.Bool) {
		return v
	}
	c := newProgram(1)
	return t.addOp(&Element{Program: c.Finish(c.Op(round, 0))}, g.Type, g.Shape, v)
}

// isExact says of an operation that it makes no number that it was not given, but whole ones.
func isExact(op *Op) bool {
	switch kind := op.Kind.(type) {
	case *Reshape, *Transpose, *Slice, *Expand, *Assemble:
		return true
	case *Pool:
		return kind.Spec.Max
	case *Reduce:
		return kind.How == kernels.Largest || kind.How == kernels.Smallest
	case *Element:
		return !slices.ContainsFunc(kind.Program.Code, func(in kernels.Instruction) bool { return !exactly[in.Op] })
	}
	return false
}

// exactly are the instructions that make no number that they were not given, but whole ones.
var exactly = map[kernels.ElementOp]bool{
	kernels.Constant: true, kernels.Copy: true, kernels.Min: true, kernels.Max: true, kernels.Less: true, kernels.LessEqual: true,
	kernels.Equal: true, kernels.Select: true, kernels.Neg: true, kernels.Abs: true, kernels.Floor: true, kernels.Ceil: true, kernels.Round: true,
}

// leaveToHost leaves a node to the host.
func (t *translator) leaveToHost(n *graph.Node) {
	op := &Op{Kind: &Host{Node: n}, Nodes: []*graph.Node{n}}
	reads := n.In
	if len(n.Subgraphs()) > 0 { // which read values of this graph
		reads = n.Reads()
	}
	for _, v := range reads {
		op.In = append(op.In, t.translatedValue(v))
	}
	for _, v := range n.Out {
		out := t.translatedValue(v)
		if out != nil {
			out.From = op
		}
		op.Out = append(op.Out, out)
	}
	t.net.Ops = append(t.net.Ops, op)
}

// addOp adds an operation of one output.
func (t *translator) addOp(kind any, typ engine.DType, shape []int, in ...*Value) *Value {
	op := &Op{Kind: kind, In: in, Nodes: []*graph.Node{t.node}}
	v := &Value{Name: t.name(), Type: typ, Shape: slices.Clone(shape), From: op}
	op.Out = []*Value{v}
	t.net.Ops = append(t.net.Ops, op)
	return v
}

// name is that of the node's first output that is wanted.
func (t *translator) name() string {
	for _, v := range t.node.Out {
		if v != nil {
			return v.Name
		}
	}
	return t.node.Name
}

// constant is a new constant, which is named after the node.
func (t *translator) constant(what string, shape []int, elements []float64) *Value {
	tensor := graph.FromFloats(engine.FP32, shape, elements)
	return &Value{Name: t.name() + " " + what, Type: engine.FP32, Shape: shape, Const: tensor}
}

// addElementwise applies a program that write writes, given the registers of its operands; constants of one element
// become part of it.
func (t *translator) addElementwise(shape []int, in []*Value, write func(c *programBuilder, in []int) int) *Value {
	registers := make([]int, len(in))
	var operands []*Value
	for i, v := range in {
		registers[i] = -1
		if v != nil && !isSingleElement(v) {
			at := slices.Index(operands, v)
			if at < 0 {
				at = len(operands)
				operands = append(operands, v)
			}
			registers[i] = at
		}
	}
	c := newProgram(len(operands))
	for i, v := range in {
		if v != nil && isSingleElement(v) {
			registers[i] = c.Constant(v.Const.Floats()[0])
		}
	}
	p := c.Finish(write(c, registers))
	return t.addOp(&Element{Program: p}, t.node.Out[0].Type, shape, operands...)
}

// isSingleElement says whether v is a constant of one element.
func isSingleElement(v *Value) bool { return v.Const != nil && graph.Elements(v.Shape) == 1 }

// constantInts are the elements of a constant input; ok is false if it is not given, or not constant.
func constantInts(n *graph.Node, i int) (list []int, ok bool) {
	v := n.Input(i)
	if v == nil || v.Const == nil {
		return nil, false
	}
	for _, x := range v.Const.Ints() {
		list = append(list, int(x))
	}
	return list, true
}

// attrInts are the elements of an attribute, or nil.
func attrInts(n *graph.Node, name string) (list []int) {
	for _, x := range graph.Attr[[]int64](n, name, nil) {
		list = append(list, int(x))
	}
	return list
}

func attrInt(n *graph.Node, name string, fallback int) int {
	return int(graph.Attr(n, name, int64(fallback)))
}

// reshape is v in another shape of as many elements.
func (t *translator) reshape(v *Value, shape ...int) *Value {
	switch {
	case slices.Equal(v.Shape, shape):
		return v
	case v.Const != nil:
		return &Value{Name: v.Name, Type: v.Type, Shape: shape, Const: v.Const.Reshaped(shape...)}
	}
	return t.addOp(&Reshape{}, v.Type, shape, v)
}

// transpose makes dimension order[i] of v dimension i.
func (t *translator) transpose(v *Value, order ...int) *Value {
	shape, same := make([]int, len(order)), true
	for i, d := range order {
		shape[i], same = v.Shape[d], same && i == d
	}
	if same {
		return v
	}
	return t.addOp(&Transpose{Order: order}, v.Type, shape, v)
}

// expand broadcasts v.
func (t *translator) expand(v *Value, shape ...int) *Value {
	if slices.Equal(v.Shape, shape) {
		return v
	}
	return t.addOp(&Expand{}, v.Type, shape, v)
}

// placeHostValues says which values are in host memory: those that a device cannot have, and those that only the host makes
// and reads.
func placeHostValues(n *Net, networks bool) {
	values := slices.Clone(n.Inputs)
	for _, op := range n.Ops {
		values = append(values, op.Out...)
	}
	for _, v := range values {
		if v == nil {
			continue
		}
		made := v.From == nil || onHost(v.From)
		users := !slices.ContainsFunc(v.Users, func(u *Op) bool { return !onHost(u) })
		v.Host = !networks || made && users
	}
}

func onHost(o *Op) bool {
	_, ok := o.Kind.(*Host)
	return ok
}
