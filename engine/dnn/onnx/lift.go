package onnx

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// rule gives a node of an opset below before the meaning it has since. Nodes that it adds come ahead of n, which
// it may change; n is left out if it says so.
type rule struct {
	before int64
	apply  func(l *lifter, n *graph.Node) (drop bool, err error)
}

// always is above every opset.
const always = newestOpset + 1

// rules are those of an operation, from the oldest opset on. A rule may change the operation; it is the last then.
var rules = map[string][]rule{
	"BatchNormalization": {{9, spatialNormalization}, {14, trainingOutputs}},
	"Clip":               {{11, clipBounds}},
	"Constant":           {{always, liftConstant}},
	"Dropout":            {{always, liftDropout}},
	"GridSample":         {{20, gridSampleModes}},
	"GroupNormalization": {{21, groupScales}},
	"Hardmax":            {{13, liftFlattened}},
	"Identity":           {{always, liftIdentity}},
	"LogSoftmax":         {{13, liftFlattened}},
	"Pad":                {{11, padInputs}},
	"ReduceL1":           {{18, axesInput}},
	"ReduceL2":           {{18, axesInput}},
	"ReduceLogSum":       {{18, axesInput}},
	"ReduceLogSumExp":    {{18, axesInput}},
	"ReduceMax":          {{18, axesInput}},
	"ReduceMean":         {{18, axesInput}},
	"ReduceMin":          {{18, axesInput}},
	"ReduceProd":         {{18, axesInput}},
	"ReduceSum":          {{13, axesInput}},
	"ReduceSumSquare":    {{18, axesInput}},
	"Resize":             {{11, resizeOfScales}, {13, resizeModes}, {always, resizeInputs}},
	"RoiAlign":           {{16, roiCoordinates}},
	"Scatter":            {{always, renameOp("ScatterElements")}},
	"Slice":              {{10, sliceInputs}},
	"Softmax":            {{13, liftFlattened}},
	"Split":              {{13, splitInput}, {18, splitCount}},
	"Squeeze":            {{13, axesInput}},
	"TopK":               {{10, topKInput}},
	"Unsqueeze":          {{13, axesInput}},
	"Upsample":           {{9, upsampleScales}, {always, liftUpsample}},
}

// lifter lifts graphs that are sorted.
type lifter struct {
	opset int64
	build *graph.Builder                // of the graph that is being made
	hints map[string]engine.DType       // types of values by name
	alias map[*graph.Value]*graph.Value // of values that are others
}

// liftOpset gives all nodes of g the meaning of opset 21.
func liftOpset(g *graph.Graph, opset int64, hints map[string]engine.DType) error {
	none := func(*graph.Node) error { return nil }
	l := &lifter{opset: opset, build: graph.NewBuilder(g, none), hints: hints, alias: map[*graph.Value]*graph.Value{}}
	if err := l.liftGraph(g); err != nil {
		return err
	}
	outputs := make([]*graph.Value, len(g.Outputs))
	for i, v := range g.Outputs {
		outputs[i] = l.actualValue(v)
		if outputs[i].Type == 0 {
			outputs[i].Set(v.Type, v.Shape)
		}
	}
	l.build.SetOutputs(outputs)
	g.Prune()
	return nil
}

func (l *lifter) liftGraph(g *graph.Graph) error {
	outer := l.build
	defer func() { l.build = outer }()
	l.build = outer.In(g)
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		if err := l.liftNode(n); err != nil {
			return fmt.Errorf("%v: %w", n, err)
		}
	}
	if outer.Graph != g {
		for i, v := range g.Outputs {
			g.Outputs[i] = l.actualValue(v)
		}
	}
	return nil
}

func (l *lifter) liftNode(n *graph.Node) error {
	for i, v := range n.In {
		n.In[i] = l.actualValue(v)
	}
	for _, sub := range n.Subgraphs() {
		if err := l.liftGraph(sub); err != nil {
			return err
		}
	}
	for _, r := range rules[n.Op] {
		if l.opset >= r.before {
			continue
		}
		if drop, err := r.apply(l, n); drop || err != nil {
			return err
		}
	}
	for len(n.In) > 0 && n.Input(len(n.In)-1) == nil {
		n.In = n.In[:len(n.In)-1]
	}
	l.build.Graph.Nodes = append(l.build.Graph.Nodes, n)
	return nil
}

// actualValue is the value that v is another name of, or v.
func (l *lifter) actualValue(v *graph.Value) *graph.Value {
	if other, ok := l.alias[v]; ok {
		return other
	}
	return v
}

// typeOf is the type of a value, as far as the file tells without inference; 0 if it does not.
func (l *lifter) typeOf(v *graph.Value) engine.DType {
	var t engine.DType
	var passed []*graph.Value
	for v != nil && t == 0 {
		passed = append(passed, v)
		if t = v.Type; t == 0 {
			var asked bool
			if t, asked = l.hints[v.Name]; asked && t == 0 {
				break
			}
		}
		switch n := v.From; {
		case n == nil:
			v = nil
		case n.Op == "Where":
			v = n.Input(1)
		case n.Op == "Cast" && t == 0:
			t, _ = graph.ElementType(graph.Attr(n, "to", int64(0)))
			v = nil
		default:
			v = n.Input(0)
		}
	}
	for _, p := range passed {
		l.hints[p.Name] = t
	}
	return t
}

// scalarLike is a constant of the type of v.
func (l *lifter) scalarLike(v *graph.Value, stem string, x float64) *graph.Value {
	t := l.typeOf(v)
	if t == 0 {
		t = engine.FP32
	}
	return l.build.Const(stem, graph.Scalar(t, x))
}

// integerVector is a constant of integers.
func (l *lifter) integerVector(stem string, elements ...int64) *graph.Value {
	return l.build.Const(stem, graph.Vector(elements...))
}

// attributeToInput moves a list of integers from an attribute to input i. Without the attribute there is none.
func (l *lifter) attributeToInput(n *graph.Node, name string, i int) {
	list, ok := n.Attrs[name].([]int64)
	delete(n.Attrs, name)
	if ok {
		setInput(n, i, l.integerVector(name, list...))
	}
}

// setInput sets input i, with none between it and those there are.
func setInput(n *graph.Node, i int, v *graph.Value) {
	for len(n.In) <= i {
		n.In = append(n.In, nil)
	}
	n.In[i] = v
}

// needInputs refuses a node without some of its first inputs.
func needInputs(n *graph.Node, count int) error {
	for i := range count {
		if n.Input(i) == nil {
			return fmt.Errorf("missing input %d", i)
		}
	}
	return nil
}
