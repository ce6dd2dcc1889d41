package specialize

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

// FuzzRun: whatever a file holds, it is specialised or refused, for one frame and for two; and inference of what came of
// it says nothing else.
func FuzzRun(f *testing.F) {
	for _, c := range golden.Olds(f) {
		f.Add(c.Model)
	}
	for _, batch := range []any{1, "n"} {
		f.Add(onnxtest.File(13, onnxtest.Graph{
			Inputs:    []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{batch, 4, 2}}},
			Outputs:   []onnxtest.Value{{Name: "y", Type: onnxtest.Float32}},
			Constants: []onnxtest.Tensor{onnxtest.Ints("s", 1, -1), onnxtest.Floats("w", []int{8, 3}, make([]float64, 24)...)},
			Nodes: []onnxtest.Node{
				{Op: "Reshape", In: []string{"x", "s"}, Out: []string{"r"}}, {Op: "Gemm", In: []string{"r", "w"}, Out: []string{"g"}},
				{Op: "Shape", In: []string{"g"}, Out: []string{"n"}}, {Op: "Reshape", In: []string{"g", "n"}, Out: []string{"y"}},
			},
		}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := onnx.Parse(data)
		if err != nil {
			return
		}
		one, err := Run(m.Graph, nil)
		if err != nil {
			return
		}
		again(t, one)
		shapes := map[string][]int{}
		for _, v := range m.Graph.Inputs {
			if v.Rank > 0 {
				shapes[v.Name] = append([]int{2}, v.Shape[1:]...)
			}
		}
		if two, err := Run(m.Graph, shapes); err == nil {
			again(t, two)
		}
	})
}

// again infers the types and shapes of a graph's nodes once more.
func again(t *testing.T, g *graph.Graph) {
	for _, n := range g.Nodes {
		before := n.String()
		for _, v := range n.Out {
			before += v.String()
		}
		if err := inferNode(n); err != nil {
			t.Errorf("%v\n%s", err, g)
		}
		after := n.String()
		for _, v := range n.Out {
			after += v.String()
		}
		if before != after {
			t.Errorf("%s is then %s", before, after)
		}
	}
}

// FuzzOddNodes: graphs with nodes that make little sense are refused, or specialised so that inference agrees, and of
// two frames comes what comes of each alone.
func FuzzOddNodes(f *testing.F) {
	names := slices.Sorted(maps.Keys(batchCases))
	known := slices.Sorted(maps.Keys(batchRules))
	for i := range names {
		f.Add(uint64(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, which, seed uint64) {
		rng := rand.New(rand.NewPCG(which, seed))
		c := batchCases[names[which%uint64(len(names))]]
		g := &graph.Graph{Name: "g"}
		b := newBuilder(g)
		g.Outputs = []value{c.build(b, b.Input("x", engine.FP32, c.shape...))}
		for range 1 + rng.IntN(3) {
			spoil(rng, g.Nodes[rng.IntN(len(g.Nodes))], known)
		}
		var results [3]*graph.Tensor
		all := random(rng, append([]int{2}, c.shape[1:]...)...)
		for _, frames := range []int{1, 2, 0} {
			shape := slices.Clone(c.shape)
			shape[0] = frames
			out, err := Run(g, map[string][]int{"x": shape})
			if frames == 0 {
				break // as long as it is no panic
			}
			if err != nil {
				return
			}
			again(t, out)
			in := &graph.Tensor{Type: all.Type, Shape: shape, Data: all.Data[:len(all.Data)/2*frames]}
			y, err := golden.Evaluate(out, map[string]*graph.Tensor{"x": in})
			if err != nil {
				return
			}
			results[frames] = y[0]
		}
		sameFrames(t, g, all, results[1], results[2])
	})
}

// sameFrames compares what comes of two frames at once with what comes of the first and of the second alone.
func sameFrames(t *testing.T, g *graph.Graph, all, first, both *graph.Tensor) {
	shape := append([]int{1}, all.Shape[1:]...)
	second, err := golden.Evaluate(g, map[string]*graph.Tensor{"x": {Type: all.Type, Shape: shape, Data: all.Data[len(all.Data)/2:]}})
	if err != nil {
		return
	}
	want := slices.Concat(first.Data, second[0].Data)
	if slices.Equal(first.Data, both.Data) && slices.Equal(first.Data, second[0].Data) {
		return // depends on no frame
	}
	if !slices.Equal(both.Data, want) {
		t.Errorf("two frames at once give\n%v\nand alone\n%v\n%v\n%s", both.Floats(), first.Floats(), second[0].Floats(), g)
	}
}

// spoil changes something about a node.
func spoil(rng *rand.Rand, n *graph.Node, ops []string) {
	odd := func() int64 {
		return []int64{0, 1, -1, 2, -2, 3, 5, 1 << 31, 1 << 40, math.MaxInt64, math.MinInt64}[rng.IntN(11)]
	}
	some := func() []int64 {
		list := make([]int64, rng.IntN(5))
		for i := range list {
			list[i] = odd()
		}
		return list
	}
	attributes := []string{"axis", "axes", "perm", "keepdims", "transA", "pads", "strides", "kernel_shape", "group", "hidden_size", "layout", "mode", "allowzero"}
	n.Attrs = maps.Clone(n.Attrs)
	if n.Attrs == nil {
		n.Attrs = attrs{}
	}
	switch name := attributes[rng.IntN(len(attributes))]; rng.IntN(7) {
	case 0:
		n.Op = ops[rng.IntN(len(ops))]
	case 1:
		n.Attrs[name] = odd()
	case 2:
		n.Attrs[name] = some()
	case 3:
		n.Attrs[name] = "linear"
	case 4:
		n.In = n.In[:rng.IntN(len(n.In)+1)]
	case 5:
		n.In = append(n.In, graph.NewConst("odd", graph.Vector(some()...)))
	case 6:
		if len(n.In) > 0 {
			n.In[rng.IntN(len(n.In))] = []value{nil, graph.NewConst("odd", graph.Vector(some()...)), graph.NewConst("zero", graph.NewTensor(engine.FP32, 0, 3)), n.In[0]}[rng.IntN(4)]
		}
	}
}
