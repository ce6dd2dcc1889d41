package specialize

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
)

// Of constants are computed, all together, at most so many bytes, and so many times those that the graph has: what a
// small file would make more of is computed by each pass.
const (
	maxFolded  = 64 << 20
	timesThere = 16
)

// folder computes what can be of a graph's copy.
type folder struct {
	build *graph.Builder
	room  int                           // bytes of constants that may still be computed
	alias map[*graph.Value]*graph.Value // of values that are others

	failed *graph.Node // that the last error is of; it may be in a branch that was taken
}

// foldGraph is a copy of g, with inputs of these shapes by name, in which all is known and computed that can be.
func foldGraph(g *graph.Graph, shapes map[string][]int) (*graph.Graph, error) {
	g, _ = g.Clone()
	for _, v := range g.Inputs {
		if shape, ok := shapes[v.Name]; ok {
			v.Set(v.Type, shape)
		}
	}
	f := &folder{build: newBuilder(g), room: maxFolded + timesThere*constantBytes(g, map[*graph.Value]bool{}), alias: map[*graph.Value]*graph.Value{}}
	if err := f.foldNodes(g); err != nil {
		return nil, err
	}
	f.build.In(g).SetOutputs(f.actualAll(g.Outputs))
	g.Prune()
	return g, nil
}

// constantBytes is how much the constants take that are not among those seen.
func constantBytes(g *graph.Graph, seen map[*graph.Value]bool) (bytes int) {
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil && v.Const != nil && !seen[v] {
				seen[v] = true
				bytes += len(v.Const.Data)
			}
		}
		for _, sub := range n.Subgraphs() {
			bytes += constantBytes(sub, seen)
		}
	}
	return bytes
}

func newBuilder(g *graph.Graph) *graph.Builder { return graph.NewBuilder(g, inferNode) }

func inferNode(n *graph.Node) error {
	op, err := lookupOp(n)
	if err != nil {
		return err
	}
	return op.Infer(n)
}

func lookupOp(n *graph.Node) (*ops.Op, error) {
	op, ok := ops.Lookup(n.Op)
	if !ok {
		return nil, fmt.Errorf("%v: the operation is not supported", n)
	}
	return op, nil
}

// foldNodes folds the nodes of g in their order.
func (f *folder) foldNodes(g *graph.Graph) error {
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		if err := f.foldNode(g, n); err != nil {
			return err
		}
	}
	return nil
}

// foldBranch folds what a node may compute. One that cannot be computed of these shapes is cut off behind the node that
// cannot, which is an error only where the branch is taken, or all others are such, too.
func (f *folder) foldBranch(g *graph.Graph) {
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		if err := f.foldNode(g, n); err != nil {
			n = f.failed
			g.Nodes = append(g.Nodes, n)
			first := n.Out[slices.IndexFunc(n.Out, func(v *graph.Value) bool { return v != nil })]
			g.Outputs = slices.Repeat([]*graph.Value{first}, len(g.Outputs))
			return
		}
	}
	g.Outputs = f.actualAll(g.Outputs)
}

// foldNode adds n, or what is left of it, to g.
func (f *folder) foldNode(g *graph.Graph, n *graph.Node) error {
	n.In = f.actualAll(n.In)
	if branch := takenBranch(n); branch != nil {
		return f.inlineBranch(g, n, branch)
	}
	for _, sub := range n.Subgraphs() {
		f.foldBranch(sub)
	}
	f.failed = n
	op, err := lookupOp(n)
	if err != nil {
		return err
	}
	if err := op.Infer(n); err != nil {
		return err
	}
	if f.isFoldable(n) {
		return f.computeConstants(op, n)
	}
	if same := unchangedInput(n); same != nil {
		f.alias[n.Out[0]] = same
		return nil
	}
	if f.wholeRows(g, n) {
		return nil
	}
	g.Nodes = append(g.Nodes, n)
	return nil
}

// actualValue is the value that v is another name of, or v.
func (f *folder) actualValue(v *graph.Value) *graph.Value {
	if other, ok := f.alias[v]; ok {
		return other
	}
	return v
}

func (f *folder) actualAll(values []*graph.Value) []*graph.Value {
	out := make([]*graph.Value, len(values))
	for i, v := range values {
		out[i] = f.actualValue(v)
	}
	return out
}

// takenBranch is the branch that an If of a constant condition takes; nil of other nodes.
func takenBranch(n *graph.Node) *graph.Graph {
	condition := n.Input(0)
	if n.Op != "If" || condition == nil || condition.Const == nil || condition.Const.Len() != 1 {
		return nil
	}
	name := "else_branch"
	if condition.Const.Ints()[0] != 0 {
		name = "then_branch"
	}
	branch := graph.Attr[*graph.Graph](n, name, nil)
	if branch == nil || len(branch.Inputs) > 0 || len(branch.Outputs) < len(n.Out) {
		return nil // inference says what is wrong
	}
	return branch
}

func (f *folder) inlineBranch(g *graph.Graph, n *graph.Node, branch *graph.Graph) error {
	for _, inner := range branch.Nodes {
		if err := f.foldNode(g, inner); err != nil {
			return err
		}
	}
	for i, v := range n.Out {
		if v != nil {
			f.alias[v] = f.actualValue(branch.Outputs[i])
		}
	}
	return nil
}

// isFoldable says whether all is there to compute a node, and there is room for what it computes. Room is taken.
func (f *folder) isFoldable(n *graph.Node) bool {
	if len(n.Subgraphs()) > 0 {
		return false
	}
	for _, v := range n.In {
		if v != nil && v.Const == nil && !(onlyShape(n) && v.Known()) {
			return false
		}
	}
	if slices.Contains(views, n.Op) {
		return true
	}
	room := f.room
	for _, v := range n.Out {
		if v == nil || !v.Known() {
			continue // not more than there is of its inputs
		}
		bytes, ok := (&engine.Ref{Type: v.Type, Shape: v.Shape}).Bytes()
		if room -= bytes; !ok || room < 0 {
			return false
		}
	}
	f.room = room
	return true
}

// onlyShape says of an operation that it reads no elements.
func onlyShape(n *graph.Node) bool { return n.Op == "Shape" || n.Op == "Size" }

// computeConstants makes constants of a node's outputs.
func (f *folder) computeConstants(op *ops.Op, n *graph.Node) error {
	out, err := evalNode(op, n)
	if err != nil {
		return err
	}
	for _, v := range n.In {
		if v != nil && v.Const != nil {
			v.Folded = true
		}
	}
	for i, v := range n.Out {
		if v != nil {
			v.Set(out[i].Type, out[i].Shape)
			v.Const, v.From = out[i], nil
		}
	}
	return nil
}

// views are operations whose output has the elements of their first input in the same order.
var views = []string{"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}

func evalNode(op *ops.Op, n *graph.Node) ([]*graph.Tensor, error) {
	if slices.Contains(views, n.Op) && n.Out[0] != nil && n.Out[0].Known() {
		return []*graph.Tensor{n.In[0].Const.Reshaped(n.Out[0].Shape...)}, nil
	}
	in := make([]*graph.Tensor, len(n.In))
	for i, v := range n.In {
		switch {
		case v == nil:
		case v.Const != nil:
			in[i] = v.Const
		default:
			in[i] = &graph.Tensor{Type: v.Type, Shape: v.Shape} // of which nobody reads more
		}
	}
	return op.Eval(n, in)
}

// movers are operations that, if they change neither type nor shape, may change nothing.
var movers = append([]string{"Cast", "Expand", "Pad", "Slice", "Tile", "Transpose"}, views...)

// unchangedInput is the input that a node returns as it is, or nil.
func unchangedInput(n *graph.Node) *graph.Value {
	in, out := n.Input(0), n.Output(0)
	if in == nil || out == nil || !out.Known() || in.Type != out.Type || !slices.Equal(in.Shape, out.Shape) {
		return nil
	}
	if slices.Contains(movers, n.Op) && !mayPermute(n) {
		return in
	}
	return nil
}

// mayPermute says of a node whose output has the shape of its input that it may still move elements.
func mayPermute(n *graph.Node) bool {
	switch n.Op {
	case "Transpose":
		perm, ok := n.Attrs["perm"].([]int64)
		return !ok && n.In[0].Rank > 1 || !slices.IsSorted(perm)
	case "Slice": // by a step of -1
		return n.Input(4) != nil && (n.In[4].Const == nil || slices.Min(append(n.In[4].Const.Ints(), 1)) < 0)
	case "Pad": // by as much as it cuts at the other end
		return n.Input(1) == nil || n.In[1].Const == nil || slices.Min(append(n.In[1].Const.Ints(), 0)) < 0
	}
	return false
}

// wholeRows replaces Reshape(Softmax(Flatten(x)), Shape(x)), which Softmax was before opset 13, by a Softmax of x where
// the rows are one dimension of x.
func (f *folder) wholeRows(g *graph.Graph, n *graph.Node) bool {
	if n.Op != "Reshape" || n.Out[0] == nil || n.In[0].From == nil {
		return false
	}
	soft := n.In[0].From
	if !slices.Contains([]string{"Softmax", "LogSoftmax", "Hardmax"}, soft.Op) || graph.Attr(soft, "axis", int64(-1)) != -1 {
		return false
	}
	flat := soft.In[0].From
	if flat == nil || !slices.Contains(views, flat.Op) {
		return false
	}
	x := flat.In[0]
	if !x.Known() || x.Rank == 0 || !slices.Equal(x.Shape, n.Out[0].Shape) {
		return false
	}
	axis := rowAxis(x.Shape, soft.In[0].Shape[soft.In[0].Rank-1])
	if axis < 0 {
		return false
	}
	b := f.build.In(g)
	f.alias[n.Out[0]] = b.Op(soft.Op, graph.Attrs{"axis": int64(axis)}, x)
	return true
}

// rowAxis is the dimension that alone makes the rows of a matrix of a tensor's elements, or -1.
func rowAxis(shape []int, row int) int {
	inner := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if inner == 1 && shape[i] == row && row > 1 {
			return i
		}
		inner *= shape[i]
	}
	return -1
}
