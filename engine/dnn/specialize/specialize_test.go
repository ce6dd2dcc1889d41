package specialize

import (
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
)

// flattening is x[?,3,?,4] -> Reshape(x, Concat(Gather(Shape(x), 0), -1)), as exporters write it.
func flattening() *graph.Graph {
	g := &graph.Graph{Name: "g"}
	b := newBuilder(g)
	x := b.Input("x", engine.FP32, -1, 3, -1, 4)
	first := b.Op("Gather", nil, b.Op("Shape", nil, x), b.Const("i", graph.FromInts(engine.Int64, []int{}, []int64{0})))
	shape := b.Op("Concat", attrs{"axis": int64(0)}, b.Op("Unsqueeze", nil, first, ints(b, 0)), ints(b, -1))
	g.Outputs = []value{b.Op("Reshape", nil, x, shape)}
	return g
}

func TestShapeArithmeticIsComputed(t *testing.T) {
	g := flattening()
	before := g.String()
	out, err := Run(g, map[string][]int{"x": {2, -1, 5, -1}})
	if err != nil {
		t.Fatal(err)
	}
	want := `g(x FP32[2,3,5,4])
Reshape_out FP32[2,60] = Reshape(x, [2 -1])
return Reshape_out
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if g.String() != before {
		t.Error("the graph itself was changed")
	}
}

// What depends on a size that is open stays as it is.
func TestOpenSizes(t *testing.T) {
	out, err := Run(flattening(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Nodes) != 5 || out.Outputs[0].Known() {
		t.Errorf("got\n%s", out)
	}
}

func TestBranchesOfConstantConditions(t *testing.T) {
	branch := func(op string, x value) *graph.Graph {
		sub := &graph.Graph{Name: op}
		sub.Outputs = []value{graph.NewBuilder(sub, func(*graph.Node) error { return nil }).Op(op, nil, x)}
		return sub
	}
	for _, known := range []bool{true, false} {
		g := &graph.Graph{Name: "g"}
		b := newBuilder(g)
		x, size := b.Input("x", engine.FP32, -1), b.Input("size", engine.Int64)
		if known {
			size = b.Op("Size", nil, x)
		}
		large := b.Op("Greater", nil, size, b.Const("c", graph.FromInts(engine.Int64, []int{}, []int64{3})))
		y := b.Op("If", attrs{"then_branch": branch("Exp", x), "else_branch": branch("Neg", x)}, large)
		g.Outputs = []value{b.Op("Abs", nil, y)}
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		out, err := Run(g, map[string][]int{"x": {4}})
		if err != nil {
			t.Fatal(err)
		}
		var ops []string
		for _, n := range out.Nodes {
			ops = append(ops, n.Op)
		}
		want := "Greater If Abs"
		if known {
			want = "Exp Abs"
		}
		if got := strings.Join(ops, " "); got != want || !out.Outputs[0].Known() {
			t.Errorf("size known %v: got %s of %v, want %s", known, got, out.Outputs[0], want)
		}
		in := map[string]*graph.Tensor{"x": graph.FromFloats(engine.FP32, []int{4}, []float64{0, 0, 0, 0}), "size": graph.Scalar(engine.Int64, 9)}
		if got := evaluate(t, out, in)[0].Floats()[0]; got != 1 {
			t.Errorf("size known %v: got %v", known, got)
		}
	}
}

// A branch that does not fit the shapes is an error where it is taken, or if no branch fits.
func TestBranchThatDoesNotFit(t *testing.T) {
	branch := func(rows ...int) *graph.Graph { // a product, and what is computed of it
		sub := &graph.Graph{Name: "sub"}
		b := graph.NewBuilder(sub, func(*graph.Node) error { return nil })
		x := &graph.Value{Name: "x", Type: engine.FP32, Rank: -1}
		w := b.Const("w", graph.FromFloats(engine.FP32, rows, make([]float64, rows[0]*rows[1])))
		sub.Outputs = []value{b.Op("Exp", nil, b.Op("MatMul", nil, x, w))}
		return sub
	}
	for _, c := range []struct{ then, otherwise int }{{3, 4}, {4, 4}} {
		g := &graph.Graph{Name: "g"}
		b := newBuilder(g)
		x, condition := b.Input("x", engine.FP32, 2, -1), b.Input("condition", engine.Bool)
		then, otherwise := branch(c.then, 1), branch(c.otherwise, 1)
		for _, sub := range []*graph.Graph{then, otherwise} {
			sub.Nodes[0].In[0] = x
		}
		g.Outputs = []value{b.Op("If", attrs{"then_branch": then, "else_branch": otherwise}, condition)}
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		out, err := Run(g, map[string][]int{"x": {2, 3}})
		if c.then != 3 {
			if err == nil || !strings.Contains(err.Error(), "MatMul") {
				t.Errorf("no branch fits: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]*graph.Tensor{"x": graph.FromFloats(engine.FP32, []int{2, 3}, make([]float64, 6)), "condition": graph.Scalar(engine.Bool, 1)}
		if got := evaluate(t, out, in)[0]; got.Len() != 2 || got.Floats()[0] != 1 || !slices.Equal(out.Outputs[0].Shape, []int{2, 1}) {
			t.Errorf("the branch that fits makes %v of %v", got, out.Outputs[0])
		}
		taken := out.Nodes[len(out.Nodes)-1]
		known, _ := ops.Lookup("If")
		if _, err := known.Eval(taken, []*graph.Tensor{graph.Scalar(engine.Bool, 0), in["x"]}); err == nil || !strings.Contains(err.Error(), "MatMul") {
			t.Errorf("the branch that does not fit: %v", err)
		}
	}
}

// Outputs that are constants, or inputs, are outputs under their names all the same.
func TestOutputsOfNoNodes(t *testing.T) {
	g := &graph.Graph{Name: "g"}
	b := newBuilder(g)
	x := b.Input("x", engine.FP32, 2)
	c := b.Const("c", graph.Vector(3, 4))
	g.Outputs = []value{b.Op("Reshape", nil, x, b.Op("Shape", nil, x)), b.Op("Neg", nil, c)}
	out, err := Run(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := evaluate(t, out, map[string]*graph.Tensor{"x": graph.FromFloats(engine.FP32, []int{2}, []float64{1, 2})})
	if out.Outputs[0].Name != "Reshape_out" || got[0].Floats()[1] != 2 || out.Outputs[1].Name != "Neg_out" || got[1].Ints()[1] != -4 {
		t.Errorf("got %v\n%s", got, out)
	}
}

// Softmax before opset 13 worked on matrices; where these are those of one dimension, it is a Softmax of that.
func TestSoftmaxOfMatrices(t *testing.T) {
	for name, c := range map[string]struct {
		shape []int
		axis  int64 // of Flatten
		want  int64 // of Softmax; 9: it stays as it is
	}{
		"last":           {[]int{2, 3, 4}, 2, 2},
		"channels":       {[]int{2, 5, 1, 1}, 1, 1},
		"two dimensions": {[]int{2, 3, 4}, 1, 9},
	} {
		t.Run(name, func(t *testing.T) {
			g := &graph.Graph{Name: "g"}
			b := newBuilder(g)
			x := b.Input("x", engine.FP32, c.shape...)
			rows := b.Op("Softmax", nil, b.Op("Flatten", attrs{"axis": c.axis}, x))
			g.Outputs = []value{b.Op("Reshape", nil, rows, b.Op("Shape", nil, x))}
			out, err := Run(g, nil)
			if err != nil {
				t.Fatal(err)
			}
			if single := len(out.Nodes) == 1; single != (c.want != 9) || single && graph.Attr(out.Nodes[0], "axis", int64(9)) != c.want {
				t.Errorf("got\n%s", out)
			}
			n := graph.Elements(c.shape)
			in := make([]float64, n)
			for i := range in {
				in[i] = float64(i%7) / 3
			}
			inputs := map[string]*graph.Tensor{"x": graph.FromFloats(engine.FP32, c.shape, in)}
			if got, want := evaluate(t, out, inputs)[0], evaluate(t, g, inputs)[0]; string(got.Data) != string(want.Data) {
				t.Errorf("got %v\nwant %v", got.Floats(), want.Floats())
			}
		})
	}
}

// Nodes that change nothing vanish, and those that only look so stay.
func TestNodesThatChangeNothing(t *testing.T) {
	for name, c := range map[string]struct {
		build func(b *graph.Builder, x value) value
		stays bool
	}{
		"Cast":       {func(b *graph.Builder, x value) value { return b.Op("Cast", attrs{"to": int64(1)}, x) }, false},
		"Transpose":  {func(b *graph.Builder, x value) value { return b.Op("Transpose", attrs{"perm": []int64{0, 1}}, x) }, false},
		"transposed": {func(b *graph.Builder, x value) value { return b.Op("Transpose", nil, x) }, true},
		"Slice":      {func(b *graph.Builder, x value) value { return b.Op("Slice", nil, x, ints(b, 0), ints(b, 9)) }, false},
		"reversed": {func(b *graph.Builder, x value) value {
			return b.Op("Slice", nil, x, ints(b, -1), ints(b, -9), ints(b, 0), ints(b, -1))
		}, true},
		"Pad":           {func(b *graph.Builder, x value) value { return b.Op("Pad", nil, x, ints(b, 0, 0, 0, 0)) }, false},
		"shifted":       {func(b *graph.Builder, x value) value { return b.Op("Pad", nil, x, ints(b, -1, 0, 1, 0)) }, true},
		"another shape": {func(b *graph.Builder, x value) value { return b.Op("Reshape", nil, x, ints(b, 4)) }, true},
	} {
		g := &graph.Graph{Name: "g"}
		b := newBuilder(g)
		x := b.Input("x", engine.FP32, 2, 2)
		g.Outputs = []value{b.Op("Relu", nil, c.build(b, x))}
		out, err := Run(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		if stays := len(out.Nodes) == 2; stays != c.stays {
			t.Errorf("%s: got\n%s", name, out)
		}
	}
}

func TestUnfitShapesAreRefused(t *testing.T) {
	conv := func() *graph.Graph {
		g := &graph.Graph{Name: "g"}
		b := newBuilder(g)
		x, k := b.Input("x", engine.FP32, 1, 2, 8, 8), b.Input("k", engine.FP32, 1, 4)
		y := b.Op("Conv", nil, x, floats(b, 4, 2, 1, 1))
		g.Outputs = []value{b.Op("Reshape", nil, y, ints(b, 1, 4, 8, 8)), b.Op("Exp", nil, k)}
		for i := range g.Nodes {
			g.Nodes[i].Name = "n" + g.Nodes[i].Op
		}
		return g
	}
	for name, c := range map[string]struct {
		shapes map[string][]int
		want   string
	}{
		"no input":          {map[string][]int{"z": {1}}, `there is no input "z"`},
		"rank":              {map[string][]int{"x": {1, 2, 8}}, `input "x" has 4 dimensions, and the shape [1 2 8] has 3`},
		"frames":            {map[string][]int{"x": {2, 2, 8, 8}, "k": {3, 4}}, `input "k" is of 3 frames, and others of 2`},
		"channels":          {map[string][]int{"x": {1, 3, 8, 8}}, `Conv node "nConv"`},
		"another size":      {map[string][]int{"x": {1, 2, 9, 8}}, `Reshape node "nReshape"`},
		"fits by chance":    {map[string][]int{"x": {1, 2, 4, 16}}, `Reshape node "nReshape" makes the shape [1 4 8 8] of [1 4 4 16]: it is one of the size that the file fixes`},
		"nothing to refuse": {map[string][]int{"x": {3, 2, 8, 8}}, ""},
	} {
		_, err := Run(conv(), c.shapes)
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	g := conv()
	g.Nodes[0].Op = "com.example::Conv"
	if _, err := Run(g, nil); err == nil || err.Error() != `com.example::Conv node "nConv": the operation is not supported` {
		t.Errorf("got %v", err)
	}
}

// What makes huge constants of small ones is no reason to make them: neither one, nor many together.
func TestHugeConstantsAreNotMade(t *testing.T) {
	for _, c := range []struct{ nodes, side, folded int64 }{{1, 1 << 13, 0}, {100, 1 << 11, 4}} {
		g := &graph.Graph{Name: "g"}
		b := newBuilder(g)
		x := b.Input("x", engine.FP32, 1)
		for range c.nodes {
			g.Outputs = append(g.Outputs, b.Op("Add", nil, x, b.Op("ConstantOfShape", nil, ints(b, c.side, c.side))))
		}
		out, err := Run(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := 2*int(c.nodes) - len(out.Nodes); got != int(c.folded) {
			t.Errorf("of %d constants of %d MiB, %d were made", c.nodes, c.side*c.side*4>>20, got)
		}
	}
}

func evaluate(t *testing.T, g *graph.Graph, inputs map[string]*graph.Tensor) []*graph.Tensor {
	t.Helper()
	out, err := golden.Evaluate(g, inputs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
