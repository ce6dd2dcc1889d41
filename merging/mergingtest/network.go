package mergingtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

// Network is a file of a chain of layers, alike in all networks, with biases of their own, and a head for so many classes. The elements are drawn.
func Network(seed uint64, layers, classes int) []byte {
	rng := rand.New(rand.NewPCG(seed, 4))
	draw := func(name string, dims ...int) onnxtest.Tensor {
		n := 1
		for _, d := range dims {
			n *= d
		}
		t := onnxtest.Tensor{Name: name, Type: onnxtest.Float32, Dims: dims}
		for range n {
			t.Floats = append(t.Floats, rng.NormFloat64())
		}
		return t
	}
	g := onnxtest.Graph{
		Inputs:  []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{1, 4}}},
		Outputs: []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{1, classes}}},
	}
	before := "x"
	for i := range layers {
		w, b, out := fmt.Sprint("w", i), fmt.Sprint("b", i), fmt.Sprint("v", i)
		g.Constants = append(g.Constants, draw(w, 4, 4), draw(b, 4))
		g.Nodes = append(g.Nodes, onnxtest.Node{Name: fmt.Sprint("layer", i), Op: "Gemm", In: []string{before, w, b}, Out: []string{out}})
		before = out
	}
	g.Constants = append(g.Constants, draw("head", 4, classes))
	g.Nodes = append(g.Nodes, onnxtest.Node{Name: "head", Op: "MatMul", In: []string{before, "head"}, Out: []string{"y"}})
	return onnxtest.File(13, g)
}
