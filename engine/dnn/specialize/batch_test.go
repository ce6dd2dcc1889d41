package specialize

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

type (
	value = *graph.Value
	attrs = graph.Attrs
)

func random(rng *rand.Rand, shape ...int) *graph.Tensor {
	x := make([]float64, graph.Elements(shape))
	for i := range x {
		x[i] = float64(rng.IntN(200)-100) / 64
	}
	return graph.FromFloats(engine.FP32, shape, x)
}

// ints is a constant of integers.
func ints(b *graph.Builder, elements ...int64) value { return b.Const("c", graph.Vector(elements...)) }

// floats is a constant of random numbers, the same ones for the same shape.
func floats(b *graph.Builder, shape ...int) value {
	return b.Const("w", random(rand.New(rand.NewPCG(7, uint64(len(shape)))), shape...))
}

// batchCases are graphs of one frame x; refused is what is said of those that do not go with several.
var batchCases = map[string]struct {
	shape   []int
	build   func(b *graph.Builder, x value) value
	refused string
}{
	"elementwise":            {[]int{1, 2, 3}, func(b *graph.Builder, x value) value { return b.Op("Mul", nil, x, floats(b, 2, 1)) }, ""},
	"of itself":              {[]int{1, 2, 3}, func(b *graph.Builder, x value) value { return b.Op("Add", nil, b.Op("Relu", nil, x), x) }, ""},
	"gains a dimension":      {[]int{1, 3}, func(b *graph.Builder, x value) value { return b.Op("Add", nil, x, floats(b, 4, 1, 3)) }, "has no dimension of frames"},
	"repeats the frame":      {[]int{1, 3}, func(b *graph.Builder, x value) value { return b.Op("Add", nil, x, floats(b, 4, 3)) }, "it repeats frames"},
	"convolution":            {[]int{1, 2, 5, 5}, func(b *graph.Builder, x value) value { return b.Op("Conv", nil, x, floats(b, 3, 2, 3, 3)) }, ""},
	"transposed convolution": {[]int{1, 2, 5, 5}, func(b *graph.Builder, x value) value { return b.Op("ConvTranspose", nil, x, floats(b, 2, 3, 3, 3)) }, ""},
	"pool": {[]int{1, 2, 5, 5}, func(b *graph.Builder, x value) value {
		return b.Op("MaxPool", attrs{"kernel_shape": []int64{2, 2}}, x)
	}, ""},
	"convolution of rows": {[]int{1, 2, 5, 5}, func(b *graph.Builder, x value) value {
		return b.Op("Conv", nil, b.Op("Transpose", attrs{"perm": []int64{1, 0, 2, 3}}, x), floats(b, 3, 1, 3, 3))
	}, "the frames are along axis 1"},
	"softmax":               {[]int{1, 2, 3}, func(b *graph.Builder, x value) value { return b.Op("Softmax", attrs{"axis": int64(-2)}, x) }, ""},
	"softmax of the frames": {[]int{1, 2, 3}, func(b *graph.Builder, x value) value { return b.Op("Softmax", attrs{"axis": int64(0)}, x) }, "works along axis 0"},
	"normalised": {[]int{1, 2, 3}, func(b *graph.Builder, x value) value {
		return b.Op("LayerNormalization", attrs{"axis": int64(1)}, x, floats(b, 2, 3))
	}, ""},
	"cumulated": {[]int{1, 2, 3}, func(b *graph.Builder, x value) value { return b.Op("CumSum", nil, x, ints(b, 1)) }, ""},
	"concatenation": {[]int{1, 2, 3}, func(b *graph.Builder, x value) value {
		return b.Op("Concat", attrs{"axis": int64(1)}, x, floats(b, 1, 1, 3), x)
	}, ""},
	"concatenated frames": {[]int{1, 2}, func(b *graph.Builder, x value) value { return b.Op("Concat", attrs{"axis": int64(0)}, x, x) },
		"works along axis 0"},
	"gather": {[]int{1, 4, 3}, func(b *graph.Builder, x value) value {
		return b.Op("Gather", attrs{"axis": int64(1)}, x, ints(b, 3, 0))
	}, ""},
	"gather of the frame": {[]int{1, 4}, func(b *graph.Builder, x value) value { return b.Op("Gather", nil, x, ints(b, 0)) }, "works along axis 0"},
	"embedding": {[]int{1, 4}, func(b *graph.Builder, x value) value {
		places := b.Op("Cast", attrs{"to": int64(7)}, b.Op("Abs", nil, x))
		return b.Op("Gather", nil, floats(b, 5, 3), places)
	}, ""},
	"fully connected": {[]int{1, 4, 1, 1}, func(b *graph.Builder, x value) value {
		return b.Op("Gemm", nil, b.Op("Reshape", nil, x, ints(b, 1, -1)), floats(b, 4, 3), floats(b, 1, 3))
	}, ""},
	"sum over frames": {[]int{1, 4}, func(b *graph.Builder, x value) value {
		return b.Op("Gemm", attrs{"transA": int64(1)}, x, floats(b, 1, 3))
	}, "it sums over the axis of frames"},
	"matrix": {[]int{1, 2, 4}, func(b *graph.Builder, x value) value { return b.Op("MatMul", nil, x, floats(b, 4, 3)) }, ""},
	"attention": {[]int{1, 2, 4}, func(b *graph.Builder, x value) value {
		scores := b.Op("MatMul", nil, x, b.Op("Transpose", attrs{"perm": []int64{0, 2, 1}}, x))
		return b.Op("MatMul", nil, b.Op("Softmax", nil, scores), x)
	}, ""},
	"matrices of constants": {[]int{1, 2, 4}, func(b *graph.Builder, x value) value { return b.Op("MatMul", nil, floats(b, 1, 3, 2), x) }, ""},
	"frames by frames": {[]int{1, 4}, func(b *graph.Builder, x value) value {
		return b.Op("MatMul", nil, x, b.Op("Transpose", nil, x))
	}, "it multiplies frames by each other"},
	"pad": {[]int{1, 2, 3}, func(b *graph.Builder, x value) value { return b.Op("Pad", nil, x, ints(b, 0, 0, 1, 0, 0, 2)) }, ""},
	"pad of axes": {[]int{1, 2, 3}, func(b *graph.Builder, x value) value {
		return b.Op("Pad", nil, x, ints(b, 1, 2), nil, ints(b, -1))
	}, ""},
	"more frames by padding": {[]int{1, 2}, func(b *graph.Builder, x value) value { return b.Op("Pad", nil, x, ints(b, 1, 0, 0, 0)) }, "it pads the axis of frames"},
	"resize": {[]int{1, 2, 3, 3}, func(b *graph.Builder, x value) value {
		return b.Op("Resize", attrs{"mode": "linear"}, x, nil, nil, ints(b, 1, 2, 5, 7))
	}, ""},
	"resize by scales": {[]int{1, 2, 3, 3}, func(b *graph.Builder, x value) value {
		return b.Op("Resize", nil, x, nil, b.Const("s", graph.FromFloats(engine.FP32, []int{4}, []float64{1, 1, 2, 2})))
	}, ""},
	"slice": {[]int{1, 4, 3}, func(b *graph.Builder, x value) value {
		return b.Op("Slice", nil, x, ints(b, 1), ints(b, 3), ints(b, 1))
	}, ""},
	"slice of all frames": {[]int{1, 4}, func(b *graph.Builder, x value) value { return b.Op("Slice", nil, x, ints(b, 0, 1), ints(b, 1, 3)) }, ""},
	"slice of one frame": {[]int{1, 4}, func(b *graph.Builder, x value) value { return b.Op("Slice", nil, x, ints(b, -1, 1), ints(b, 9, 3)) },
		"it takes a part of the frames"},
	"split": {[]int{1, 4}, func(b *graph.Builder, x value) value {
		parts := b.Node("Split", []value{x, ints(b, 1, 3)}, attrs{"axis": int64(1)}, 2)
		return b.Op("Mul", nil, parts[0], parts[1])
	}, ""},
	"reduction": {[]int{1, 4, 3}, func(b *graph.Builder, x value) value {
		return b.Op("ReduceMax", attrs{"keepdims": int64(0)}, x, ints(b, -1))
	}, ""},
	"reduction ahead": {[]int{1, 4, 3}, func(b *graph.Builder, x value) value {
		t := b.Op("Transpose", attrs{"perm": []int64{1, 0, 2}}, x)
		return b.Op("ReduceSum", attrs{"keepdims": int64(0)}, t, ints(b, 0))
	}, ""},
	"reduction of all": {[]int{1, 4}, func(b *graph.Builder, x value) value { return b.Op("ReduceSum", nil, x) }, "works along axis 0"},
	"best": {[]int{1, 4, 3}, func(b *graph.Builder, x value) value {
		return b.Op("ArgMax", attrs{"axis": int64(1), "keepdims": int64(0)}, x)
	}, ""},
	"best few": {[]int{1, 4, 3}, func(b *graph.Builder, x value) value {
		return b.Node("TopK", []value{x, ints(b, 2)}, attrs{"axis": int64(1)}, 2)[0]
	}, ""},
	"expansion":           {[]int{1, 1, 3}, func(b *graph.Builder, x value) value { return b.Op("Expand", nil, x, ints(b, 1, 4, 3)) }, ""},
	"expansion of frames": {[]int{1, 3}, func(b *graph.Builder, x value) value { return b.Op("Expand", nil, x, ints(b, 4, 3)) }, "it repeats frames"},
	"tiles":               {[]int{1, 2, 3}, func(b *graph.Builder, x value) value { return b.Op("Tile", nil, x, ints(b, 1, 2, 2)) }, ""},
	"shuffle": {[]int{1, 6, 2, 2}, func(b *graph.Builder, x value) value { // of channels, as by view(b*3, 2, h*w)
		pairs := b.Op("Transpose", attrs{"perm": []int64{1, 0, 2}}, b.Op("Reshape", nil, x, ints(b, 3, 2, 4)))
		halves := b.Op("Reshape", nil, pairs, ints(b, 2, -1, 3, 2, 2))
		return b.Op("Gather", nil, halves, b.Const("i", graph.FromInts(engine.Int64, []int{}, []int64{1})))
	}, ""},
	"squeeze":        {[]int{1, 4, 1}, func(b *graph.Builder, x value) value { return b.Op("Squeeze", nil, x, ints(b, 2)) }, ""},
	"squeezed frame": {[]int{1, 4}, func(b *graph.Builder, x value) value { return b.Op("Squeeze", nil, x, ints(b, 0)) }, "has no dimension of frames"},
	"there and back": {[]int{1, 4}, func(b *graph.Builder, x value) value {
		return b.Op("Unsqueeze", nil, b.Op("Relu", nil, b.Op("Squeeze", nil, x, ints(b, 0))), ints(b, 0))
	}, ""},
	"flat":       {[]int{1, 4, 2}, func(b *graph.Builder, x value) value { return b.Op("Flatten", nil, x) }, ""},
	"transposed": {[]int{1, 4, 2}, func(b *graph.Builder, x value) value { return b.Op("Transpose", nil, x) }, "has no dimension of frames"},
	"bias of all": {[]int{1, 4, 2}, func(b *graph.Builder, x value) value { // a constant for merged dimensions
		merged := b.Op("Reshape", nil, x, ints(b, 4, 2))
		return b.Op("Reshape", nil, b.Op("Add", nil, merged, floats(b, 4, 1)), ints(b, 1, 4, 2))
	}, ""},
	"recurrent": {[]int{1, 5, 3}, func(b *graph.Builder, x value) value {
		steps := b.Op("Transpose", attrs{"perm": []int64{1, 0, 2}}, x)
		outs := b.Node("LSTM", []value{steps, floats(b, 1, 8, 3), floats(b, 1, 8, 2), nil, nil, floats(b, 1, 1, 2)}, attrs{"hidden_size": int64(2)}, 2)
		all := b.Op("Transpose", attrs{"perm": []int64{1, 0, 2}}, b.Op("Squeeze", nil, outs[0], ints(b, 1)))
		last := b.Op("Transpose", attrs{"perm": []int64{1, 0, 2}}, outs[1])
		return b.Op("Concat", attrs{"axis": int64(1)}, all, last)
	}, ""},
	"unknown": {[]int{1, 4, 3}, func(b *graph.Builder, x value) value {
		return b.Op("NonMaxSuppression", nil, floats(b, 1, 3, 4), b.Op("Transpose", attrs{"perm": []int64{0, 2, 1}}, b.Op("Slice", nil, x, ints(b, 0), ints(b, 3), ints(b, 1))), ints(b, 3))
	}, "depend on the frame's content"},
	"not known": {[]int{1, 4}, func(b *graph.Builder, x value) value { return b.Op("GatherND", nil, x, ints(b, 0, 1)) }, "it is not known to compute each frame alone"},
}

// Of several frames at once comes, bit for bit, what comes of each alone; or a word why that is not to be had.
func TestFramesAtOnce(t *testing.T) {
	const frames = 3
	for name, c := range batchCases {
		t.Run(name, func(t *testing.T) {
			g := &graph.Graph{Name: "g"}
			b := newBuilder(g)
			x := b.Input("x", engine.FP32, c.shape...)
			g.Outputs = []value{c.build(b, x)}
			if b.Err() != nil {
				t.Fatal(b.Err())
			}
			shape := slices.Clone(c.shape)
			shape[0] = frames
			many, err := Run(g, map[string][]int{"x": shape})
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v, want %s", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			all := random(rand.New(rand.NewPCG(1, 2)), shape...)
			var want []byte
			for i := range frames {
				part := len(all.Data) / frames
				one := &graph.Tensor{Type: all.Type, Shape: c.shape, Data: all.Data[i*part : (i+1)*part]}
				want = append(want, evaluate(t, g, map[string]*graph.Tensor{"x": one})[0].Data...)
			}
			got := evaluate(t, many, map[string]*graph.Tensor{"x": all})[0]
			if got.Shape[0] != frames*g.Outputs[0].Shape[0] || !slices.Equal(got.Data, want) {
				t.Errorf("frames at once differ\n%s", many)
			}
			if many.Outputs[0].Name != g.Outputs[0].Name || !slices.Equal(many.Outputs[0].Shape, got.Shape) {
				t.Errorf("output %v, computed %v", many.Outputs[0], got)
			}
		})
	}
}
