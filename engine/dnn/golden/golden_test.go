package golden_test

import (
	"math"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
)

// mostElements of input are computed in plain Go, within seconds.
const mostElements = 3 << 20

// Every model, read, specialised and computed in plain Go, gives what ONNX Runtime gives.
func TestModelsInPlainGo(t *testing.T) {
	for _, c := range golden.Cases(t) {
		t.Run(c.Name(), func(t *testing.T) {
			if n := graph.Elements(c.Inputs[0].Shape); n > mostElements {
				t.Skipf("%d elements of input are too many for plain Go; devices compute them", n)
			}
			m, err := onnx.Open(c.Path(t))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			g, err := specialize.Run(m.Graph, c.Shapes())
			if err != nil {
				t.Fatal(err)
			}
			out, err := golden.Evaluate(g, c.Tensors())
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range c.Outputs {
				if err := o.Compare(out[i]); err != nil || g.Outputs[i].Name != o.Name {
					t.Error(err, g.Outputs[i].Name)
				}
			}
		})
	}
}

// Nodes of old opsets, lifted, compute what ONNX Runtime computes of them.
func TestOldOpsets(t *testing.T) {
	for _, c := range golden.Olds(t) {
		t.Run(c.Name, func(t *testing.T) {
			m, err := onnx.Parse(c.Model)
			if err != nil {
				t.Fatal(err)
			}
			g, err := specialize.Run(m.Graph, map[string][]int{"x": c.Input.Shape})
			if err != nil {
				t.Fatal(err)
			}
			out, err := golden.Evaluate(g, map[string]*graph.Tensor{"x": c.Input.Tensor()})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out[0].Shape, c.Shape) {
				t.Fatalf("the shape is %v, and ONNX Runtime's %v", out[0].Shape, c.Shape)
			}
			for i, x := range out[0].Floats() {
				if math.Abs(x-c.Values[i]) > 1e-5*math.Max(1, math.Abs(c.Values[i])) {
					t.Fatalf("element %d is %g, and ONNX Runtime's %g\n%s", i, x, c.Values[i], g)
				}
			}
		})
	}
}
