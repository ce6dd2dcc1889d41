package gradient_test

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// build is a graph of FP32 that f writes.
func build(t *testing.T, f func(b *graph.Builder) []*graph.Value) *graph.Graph {
	t.Helper()
	g := &graph.Graph{}
	b := graph.NewBuilder(g, infer)
	g.Outputs = f(b)
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	return g
}

// kernel is a convolution's weights.
func kernel(b *graph.Builder, shape ...int) *graph.Value {
	return b.Const("w", graph.NewTensor(engine.FP32, shape...))
}

func fp32(b *graph.Builder, name string, shape ...int) *graph.Value {
	return b.Input(name, engine.FP32, shape...)
}

// operations are those of a graph's nodes, in their order.
func operations(g *graph.Graph) string {
	var names []string
	for _, n := range g.Nodes {
		names = append(names, n.Op)
	}
	return strings.Join(names, " ")
}

func TestOnlyWhatIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name    string
		network func(b *graph.Builder) []*graph.Value
		request gradient.Request
		want    string
	}{
		{
			"of what is linear nothing is computed forward",
			func(b *graph.Builder) []*graph.Value {
				x := b.Op("Conv", nil, fp32(b, "x", 1, 3, 8, 8), kernel(b, 4, 3, 3, 3), kernel(b, 4))
				return []*graph.Value{b.Op("Conv", nil, x, kernel(b, 2, 4, 3, 3))}
			},
			gradient.Request{Seeded: []string{"Conv_1_out"}, Wanted: []string{"x"}},
			"ConvTranspose ConvTranspose",
		},
		{
			"a Relu needs its result and not its argument",
			func(b *graph.Builder) []*graph.Value {
				x := b.Op("Relu", nil, b.Op("Conv", nil, fp32(b, "x", 1, 3, 8, 8), kernel(b, 4, 3, 3, 3)))
				return []*graph.Value{b.Op("Conv", nil, x, kernel(b, 2, 4, 3, 3))}
			},
			gradient.Request{Seeded: []string{"Conv_1_out"}, Wanted: []string{"x"}},
			"Conv Relu ConvTranspose Less Where ConvTranspose",
		},
		{
			"outputs that are asked for are computed, and others not",
			func(b *graph.Builder) []*graph.Value {
				y := b.Op("Exp", nil, fp32(b, "x", 3))
				return []*graph.Value{y, b.Op("Neg", nil, y), b.Op("Tanh", nil, y), b.Op("Sin", nil, y)}
			},
			gradient.Request{Seeded: []string{"Neg_out"}, Wanted: []string{"x"}, Outputs: []string{"Tanh_out"}},
			"Exp Tanh Neg Mul",
		},
		{
			"branches that no wanted input is in get no gradient",
			func(b *graph.Builder) []*graph.Value {
				x := b.Op("Conv", nil, fp32(b, "x", 1, 3, 8, 8), kernel(b, 4, 3, 3, 3))
				y := b.Op("Conv", nil, fp32(b, "y", 1, 3, 8, 8), kernel(b, 4, 3, 3, 3))
				return []*graph.Value{b.Op("Mul", nil, x, y)}
			},
			gradient.Request{Seeded: []string{"Mul_out"}, Wanted: []string{"y"}},
			"Conv Mul ConvTranspose",
		},
		{
			"gradients that meet are summed once, and what they have in common is multiplied once",
			func(b *graph.Builder) []*graph.Value {
				x := fp32(b, "x", 1, 3, 8, 8)
				y := b.Op("Sigmoid", nil, x)
				return []*graph.Value{b.Op("Mul", nil, x, y), b.Op("Neg", nil, y)}
			},
			gradient.Request{Seeded: []string{"Mul_out", "Neg_out"}, Wanted: []string{"x"}},
			"Sigmoid Neg Mul Add Sub Mul Add Mul",
		},
		{
			"a picture that was sliced into phases comes back as one node",
			func(b *graph.Builder) []*graph.Value {
				x := fp32(b, "x", 1, 3, 8, 8)
				var parts []*graph.Value
				for _, at := range [][2]int64{{0, 0}, {1, 0}, {0, 1}, {1, 1}} {
					rows := slice(b, x, 2, at[0], 2)
					parts = append(parts, slice(b, rows, 3, at[1], 2))
				}
				return []*graph.Value{b.Op("Concat", graph.Attrs{"axis": int64(1)}, parts...)}
			},
			gradient.Request{Seeded: []string{"Concat_out"}, Wanted: []string{"x"}},
			"Slice Slice Slice Slice .SliceGrad",
		},
		{
			"both halves of a split are put together",
			func(b *graph.Builder) []*graph.Value {
				x := b.Op("Tanh", nil, fp32(b, "x", 1, 4, 8, 8))
				halves := b.Node("Split", []*graph.Value{x}, graph.Attrs{"axis": int64(1), "num_outputs": int64(2)}, 2)
				return []*graph.Value{b.Op("Concat", graph.Attrs{"axis": int64(1)}, halves[1], b.Op("Neg", nil, halves[0]))}
			},
			gradient.Request{Seeded: []string{"Concat_out"}, Wanted: []string{"x"}},
			"Tanh Slice Slice Neg .SliceGrad Mul Sub Mul",
		},
		{
			"two inputs of a sum have one gradient",
			func(b *graph.Builder) []*graph.Value {
				return []*graph.Value{b.Op("Neg", nil, b.Op("Add", nil, fp32(b, "x", 3), fp32(b, "y", 3)))}
			},
			gradient.Request{Seeded: []string{"Neg_out"}, Wanted: []string{"x", "y"}},
			"Neg Identity",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := build(t, c.network)
			before := g.String()
			back, err := gradient.NewGradient(g, c.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := operations(back); got != c.want {
				t.Errorf("%s, not %s\n%v", got, c.want, back)
			}
			if g.String() != before {
				t.Errorf("the network was changed:\n%v", g)
			}
			var names []string
			for _, v := range back.Outputs {
				names = append(names, v.Name)
			}
			var want []string
			want = append(want, c.request.Outputs...)
			for _, x := range c.request.Wanted {
				want = append(want, engine.GradientPrefix+x)
			}
			if strings.Join(names, " ") != strings.Join(want, " ") {
				t.Errorf("the outputs are %v, not %v", names, want)
			}
		})
	}
}

// slice takes every step-th element along an axis.
func slice(b *graph.Builder, x *graph.Value, axis, from, step int64) *graph.Value {
	v := func(n int64) *graph.Value { return b.Const("n", graph.Vector(n)) }
	return b.Op("Slice", nil, x, v(from), v(1<<31-1), v(axis), v(step))
}

func TestNetworksWithoutGradientAreRefused(t *testing.T) {
	network := func(b *graph.Builder) []*graph.Value {
		x := fp32(b, "x", 2, 3)
		unknown := graph.NewValue("unknown")
		unknown.Set(engine.FP32, []int{-1, 3})
		b.Graph.Inputs = append(b.Graph.Inputs, unknown)
		b.Input("n", engine.Int64, 2)
		b.Input("gradient:x", engine.FP32)
		y := b.Op("Mul", nil, x, fp32(b, "y", 2, 3))
		rounded := b.Op("Round", nil, x)
		chosen := b.Op("OneHot", nil, b.Const("i", graph.Vector(1)), b.Const("d", graph.Vector(2)), b.Op("ReduceSum", attrs{"keepdims": int64(0)}, x, b.Const("a", graph.Vector(1))))
		loose := b.Op("Tanh", nil, b.Op("Add", nil, b.Op("Transpose", nil, unknown), b.Op("Transpose", nil, x)))
		return []*graph.Value{y, rounded, chosen, loose, b.Op("Shape", nil, x), b.Op("ReduceSum", nil, loose), b.Op("Neg", nil, unknown)}
	}
	for _, c := range []struct {
		request gradient.Request
		want    string
	}{
		{gradient.Request{Seeded: []string{"z"}, Wanted: []string{"y"}}, `no output "z"`},
		{gradient.Request{Seeded: []string{"Mul_out"}, Wanted: []string{"z"}}, `no input "z"`},
		{gradient.Request{Seeded: []string{"Mul_out"}, Wanted: []string{"y"}, Outputs: []string{"z"}}, `no output "z"`},
		{gradient.Request{Seeded: []string{"Mul_out", "Mul_out"}, Wanted: []string{"y"}}, `"Mul_out" is named twice`},
		{gradient.Request{Seeded: []string{"Mul_out"}, Wanted: []string{"y", "y"}}, `"y" is named twice`},
		{gradient.Request{Wanted: []string{"y"}}, `no output is seeded`},
		{gradient.Request{Seeded: []string{"Mul_out"}}, `no gradient is wanted`},
		{gradient.Request{Seeded: []string{"Mul_out"}, Wanted: []string{"x"}}, `has a value "gradient:x" itself`},
		{gradient.Request{Seeded: []string{"Round_out"}, Wanted: []string{"x"}}, `no seeded output depends on input "x"`},
		{gradient.Request{Seeded: []string{"Mul_out"}, Wanted: []string{"n"}}, `no seeded output depends on input "n"`},
		{gradient.Request{Seeded: []string{"OneHot_out"}, Wanted: []string{"x"}}, `OneHot node "OneHot"`},
		{gradient.Request{Seeded: []string{"Shape_out"}, Wanted: []string{"x"}}, `"Shape_out", INT64[2], cannot be seeded`},
		{gradient.Request{Seeded: []string{"Neg_out"}, Wanted: []string{"x"}}, `"Neg_out", FP32[?,3], cannot be seeded`},
		{gradient.Request{Seeded: []string{"ReduceSum_1_out"}, Wanted: []string{"x"}}, `Add node "Add": the shape of "Transpose_out" is not known`},
	} {
		_, err := gradient.NewGradient(build(t, network), c.request)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, not %s", c.request, err, c.want)
		}
	}
}
