package specialize

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// batcher changes a graph for one frame into one for several. Of each value that depends on frames it knows the axis
// along which the frames follow one another: where the value of one frame has k elements, that of n frames has n*k, of
// the first frame first.
type batcher struct {
	graph  *graph.Graph
	build  *graph.Builder
	frames int
	one    map[*graph.Value][]int // shapes for one frame
	axis   map[*graph.Value]int   // of values that depend on frames
}

// batchGraph changes g, in which all shapes are known, so that the inputs named have so many frames, and computes
// the same of each. It is an error if that cannot be proven.
func batchGraph(g *graph.Graph, inputs map[string]bool, frames int) error {
	b := &batcher{graph: g, build: newBuilder(g), frames: frames, one: map[*graph.Value][]int{}, axis: map[*graph.Value]int{}}
	for _, v := range g.Inputs {
		b.one[v] = slices.Clone(v.Shape)
		if inputs[v.Name] {
			b.axis[v] = 0
			v.Set(v.Type, b.batchedShape(v))
		}
	}
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		if err := b.batchNode(n); err != nil {
			return fmt.Errorf("the graph is for 1 frame, and cannot be changed to %d: %w", frames, err)
		}
	}
	for _, v := range g.Outputs {
		if axis, ok := b.axis[v]; ok && (axis != 0 || b.one[v][0] != 1) {
			return fmt.Errorf("the graph is for 1 frame, and cannot be changed to %d: output %q of the shape %v has no dimension of frames", frames, v.Name, b.one[v])
		}
	}
	return nil
}

// batchedShape is that of a value for all frames.
func (b *batcher) batchedShape(v *graph.Value) []int {
	shape := slices.Clone(b.one[v])
	if axis, ok := b.axis[v]; ok {
		shape[axis] *= b.frames
	}
	return shape
}

// batchNode adds a node to the graph, changed where it depends on frames.
func (b *batcher) batchNode(n *graph.Node) error {
	depends := false
	for _, v := range n.Reads() {
		if b.one[v] == nil {
			b.one[v] = v.Shape // of a constant
		}
		_, ok := b.axis[v]
		depends = depends || ok
	}
	known := true
	for _, v := range n.Out {
		if v != nil {
			b.one[v] = slices.Clone(v.Shape)
			known = known && v.Known()
		}
	}
	if depends {
		if !known {
			return fmt.Errorf("%v: the shapes of its outputs depend on the frame's content", n)
		}
		if err := b.applyRule(n); err != nil {
			return err
		}
	}
	b.graph.Nodes = append(b.graph.Nodes, n)
	return nil
}

// applyRule applies the operation's rule, and holds what it says against inference.
func (b *batcher) applyRule(n *graph.Node) error {
	rule := batchRules[n.Op]
	if rule == nil {
		return fmt.Errorf("%v: it is not known to compute each frame alone", n)
	}
	axes, err := rule(b, n)
	if err != nil {
		return fmt.Errorf("%v: %w", n, err)
	}
	if err := inferNode(n); err != nil {
		return err
	}
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		b.axis[v] = axes[min(i, len(axes)-1)]
		if want := b.batchedShape(v); !slices.Equal(v.Shape, want) {
			return fmt.Errorf("%v: its output %d would have the shape %v, and not %v", n, i, v.Shape, want)
		}
	}
	return b.build.Err()
}

// frameAxis says along which axis the frames are of input i of a node; ok is false if it does not depend on them.
func (b *batcher) frameAxis(n *graph.Node, i int) (axis int, ok bool) {
	axis, ok = b.axis[n.Input(i)]
	return axis, ok
}

// onlyFirst is the axis of frames of input 0. It is an error if another input depends on frames.
func (b *batcher) onlyFirst(n *graph.Node) (int, error) {
	for i := range n.In {
		if _, ok := b.frameAxis(n, i); ok && i > 0 {
			return 0, fmt.Errorf("its input %d depends on the frame", i)
		}
	}
	return b.axis[n.In[0]], nil
}

// repeatFrames is a value that does not depend on frames as one that has it for each of them.
func (b *batcher) repeatFrames(v *graph.Value, axis int) (*graph.Value, error) {
	times := make([]int64, len(b.one[v]))
	for i := range times {
		times[i] = 1
	}
	times[axis] = int64(b.frames)
	out := b.build.Op("Tile", nil, v, b.build.Const("repeats", graph.Vector(times...)))
	if err := b.build.Err(); err != nil {
		return nil, err
	}
	b.one[out], b.axis[out] = b.one[v], axis
	if v.Const == nil {
		return out, nil
	}
	n := out.From
	b.graph.Nodes = b.graph.Nodes[:len(b.graph.Nodes)-1]
	op, err := lookupOp(n)
	if err != nil {
		return nil, err
	}
	t, err := evalNode(op, n)
	if err != nil {
		return nil, err
	}
	out.Const, out.From = t[0], nil
	return out, nil
}

// constantIntegers are the elements of a constant input; ok is false if it is none, or not given.
func constantIntegers(n *graph.Node, i int) (list []int64, ok bool) {
	if v := n.Input(i); v != nil && v.Const != nil {
		return v.Const.Ints(), true
	}
	return nil, false
}

// setIntegers makes input i another constant.
func (b *batcher) setIntegers(n *graph.Node, i int, list []int64) {
	t := n.In[i].Type
	n.In[i] = b.build.Const(n.In[i].Name, graph.FromInts(t, []int{len(list)}, list))
}

// dimensionIndex is a dimension's number that may be counted from the end.
func dimensionIndex(axis int64, rank int) int {
	if axis < 0 {
		return int(axis) + rank
	}
	return int(axis)
}
