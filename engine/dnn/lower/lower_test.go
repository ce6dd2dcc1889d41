package lower_test

import (
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/lower"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

func infer(n *graph.Node) error {
	op, ok := ops.Lookup(n.Op)
	if !ok {
		return fmt.Errorf("there is no %s", n.Op)
	}
	return op.Infer(n)
}

// TestFused: what is lowered to how many operations. That they are right, the tests of package plan tell.
func TestFused(t *testing.T) {
	type value = *graph.Value
	cases := map[string]struct {
		build func(b *graph.Builder, x value, constant func(shape ...int) value) value
		want  string // the kinds of the operations
	}{
		"batch normalisation, SiLU and a residual go into the convolution": {func(b *graph.Builder, x value, constant func(...int) value) value {
			y := b.Op("Conv", nil, x, constant(4, 4, 1, 1), constant(4))
			y = b.Op("BatchNormalization", nil, y, constant(4), constant(4), constant(4), constant(4))
			return b.Op("Add", nil, b.Op("Mul", nil, y, b.Op("Sigmoid", nil, y)), x)
		}, "Conv"},
		"zeros around an image move the window": {func(b *graph.Builder, x value, constant func(...int) value) value {
			pads := b.Const("pads", graph.Vector(0, 0, 1, 1, 0, 0, 1, 1))
			return b.Op("Conv", nil, b.Op("Pad", nil, x, pads), constant(4, 4, 3, 3))
		}, "Conv"},
		"a chain of element-wise nodes is one program": {func(b *graph.Builder, x value, constant func(...int) value) value {
			return b.Op("Tanh", nil, b.Op("Mul", nil, b.Op("Relu", nil, x), b.Op("Exp", nil, x)))
		}, "Element"},
		"a convolution that two read keeps its sum": {func(b *graph.Builder, x value, constant func(...int) value) value {
			y := b.Op("Conv", nil, x, constant(4, 4, 1, 1))
			return b.Op("Concat", graph.Attrs{"axis": int64(1)}, y, b.Op("Relu", nil, y))
		}, "Conv Element Assemble"},
		"an activation's slope is a result of the convolution before it": {func(b *graph.Builder, x value, constant func(...int) value) value {
			y := b.Op("Conv", nil, x, constant(4, 4, 1, 1))
			return b.Op("Concat", graph.Attrs{"axis": int64(1)}, b.Op("Tanh", nil, y), b.Op("Mul", nil, x, b.Op("Cos", nil, y)))
		}, "Conv(2) Element Assemble"},
		"a product with a constant matrix and its bias are a convolution": {func(b *graph.Builder, x value, constant func(...int) value) value {
			return b.Op("Relu", nil, b.Op("Add", nil, b.Op("MatMul", nil, x, constant(8, 3)), constant(3)))
		}, "Conv"},
		"large maxima are taken along one dimension after the other": {func(b *graph.Builder, x value, constant func(...int) value) value {
			return b.Op("MaxPool", graph.Attrs{"kernel_shape": []int64{7, 7}}, x)
		}, "Pool Pool"},
		"integers are the host's": {func(b *graph.Builder, x value, constant func(...int) value) value {
			return b.Op("ArgMax", nil, b.Op("Relu", nil, x))
		}, "Element Host"},
	}
	for name, c := range cases {
		g := &graph.Graph{}
		b := graph.NewBuilder(g, infer)
		x := b.Input("x", engine.FP32, 1, 4, 8, 8)
		constant := func(shape ...int) *graph.Value {
			elements := make([]float64, graph.Elements(shape))
			for i := range elements {
				elements[i] = 1 + float64(i%3)
			}
			return b.Const("c", graph.FromFloats(engine.FP32, shape, elements))
		}
		g.Outputs = []*graph.Value{c.build(b, x, constant)}
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		net := lower.Graph(g, ref.New().(kernels.Networks))
		if err := net.Check(); err != nil {
			t.Error(err)
		}
		got := ""
		for i, op := range net.Ops {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprintf("%T", op.Kind)[len("*lower."):]
			if len(op.Out) > 1 {
				got += fmt.Sprintf("(%d)", len(op.Out))
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		for _, op := range lower.Graph(g, nil).Ops {
			if _, ok := op.Kind.(*lower.Host); !ok {
				t.Errorf("%s: %T without networks", name, op.Kind)
			}
		}
	}
}
