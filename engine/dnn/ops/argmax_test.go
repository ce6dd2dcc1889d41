package ops

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// TestArgMaxIsThatOfAnyType: what is searched by itself, rows of FP32, finds what the same values of FP64 do, equal ones, infinities and
// what are no numbers included.
func TestArgMaxIsThatOfAnyType(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1}
	argMax, _ := Lookup("ArgMax")
	for range 3000 {
		shape := []int{random.IntN(4), 1 + random.IntN(5)}
		values := make([]float64, shape[0]*shape[1])
		for i := range values {
			values[i] = odd[random.IntN(len(odd))]
		}
		n := &graph.Node{Op: "ArgMax", Attrs: graph.Attrs{"axis": int64(-1), "keepdims": int64(random.IntN(2))}, Out: []*graph.Value{graph.NewValue("y")}}
		find := func(of engine.DType) *graph.Tensor {
			x := graph.FromFloats(of, shape, values)
			n.In = []*graph.Value{graph.NewConst("x", x)}
			out, err := argMax.Eval(n, []*graph.Tensor{x})
			if err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		if got, want := find(engine.FP32), find(engine.FP64); !slices.Equal(got.Ints(), want.Ints()) || !slices.Equal(got.Shape, want.Shape) {
			t.Fatalf("%v of %v: got %v %v, want %v %v", values, shape, got, got.Ints(), want, want.Ints())
		}
	}
}
