package ops_test

import (
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
)

func benchmark(b *testing.B, name string, attrs graph.Attrs, in ...*graph.Tensor) {
	op, _ := ops.Lookup(name)
	n := &graph.Node{Op: name, Attrs: attrs, Out: []*graph.Value{graph.NewValue("y")}}
	for b.Loop() {
		if _, err := op.Eval(n, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkConv3x3(b *testing.B) {
	benchmark(b, "Conv", graph.Attrs{"pads": []int64{1, 1, 1, 1}}, fp(1, 16, 416, 416), fp(16, 16, 3, 3))
}

func BenchmarkConv1x1(b *testing.B) {
	benchmark(b, "Conv", nil, fp(1, 256, 13, 13), fp(256, 256, 1, 1))
}

func BenchmarkAdd(b *testing.B) { benchmark(b, "Add", nil, fp(1, 64, 104, 104), fp(1, 64, 104, 104)) }

func BenchmarkClip(b *testing.B) { benchmark(b, "Clip", nil, fp(1, 64, 104, 104), fp(), fp()) }

func BenchmarkNonMaxSuppression(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	benchmark(b, "NonMaxSuppression", nil, uniform(random, 1, 3549, 4), uniform(random, 1, 1, 3549), graph.Vector(100), graph.Scalar(engine.FP32, 0.5))
}

func uniform(random *rand.Rand, shape ...int) *graph.Tensor {
	x := make([]float64, graph.Elements(shape))
	for i := range x {
		x[i] = random.Float64()
	}
	return graph.FromFloats(engine.FP32, shape, x)
}

func BenchmarkTopK(b *testing.B) {
	benchmark(b, "TopK", nil, uniform(rand.New(rand.NewPCG(1, 2)), 3549), graph.Vector(100))
}

func BenchmarkTranspose(b *testing.B) {
	benchmark(b, "Transpose", graph.Attrs{"perm": []int64{0, 2, 3, 1}}, fp(1, 64, 104, 104))
}
