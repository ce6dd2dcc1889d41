package inspect

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

type attrs = map[string]any

// network writes a file of one node that computes y of x and a constant w.
func network(t *testing.T, n onnxtest.Node, x onnxtest.Value, w onnxtest.Tensor) string {
	t.Helper()
	n.In, n.Out = []string{"x", w.Name}, []string{"y"}
	g := onnxtest.Graph{Nodes: []onnxtest.Node{n}, Constants: []onnxtest.Tensor{w}, Inputs: []onnxtest.Value{x}, Outputs: []onnxtest.Value{{Name: "y", Type: onnxtest.Float32}}}
	path := filepath.Join(t.TempDir(), "n.onnx")
	if err := os.WriteFile(path, onnxtest.File(13, g), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// zeros is a FLOAT tensor w of zeros.
func zeros(dims ...int) onnxtest.Tensor {
	n := 4
	for _, d := range dims {
		n *= d
	}
	return onnxtest.Tensor{Name: "w", Type: onnxtest.Float32, Dims: dims, Raw: make([]byte, n)}
}

func input(dims ...any) onnxtest.Value {
	return onnxtest.Value{Name: "x", Type: onnxtest.Float32, Dims: dims}
}

func TestNetwork(t *testing.T) {
	path := network(t, onnxtest.Node{Op: "Conv", Attrs: attrs{"group": 2}}, input("n", 4, 8, 8), zeros(6, 2, 3, 3))
	n, err := OpenNetwork(path)
	if err != nil {
		t.Fatal(err)
	}
	want := &Network{
		Path: path, Producer: "onnxtest", Opset: 13, Files: 1, Bytes: 432, Types: map[string]int64{"FP32": 432},
		Inputs:     []Port{{"x", "FP32", []int{-1, 4, 8, 8}, []string{"n", "", "", ""}}},
		Outputs:    []Port{{"y", "FP32", []int{-1, 6, 6, 6}, nil}},
		Operations: []Operation{{"Conv", 1, true}},
		Tensors:    []Tensor{{"w", "FP32", []int{6, 2, 3, 3}, 432, "n.onnx"}},
		FLOP:       2 * 6 * 6 * 6 * 2 * 3 * 3,
	}
	n.Outputs[0].Dims = nil
	if !reflect.DeepEqual(n, want) {
		t.Errorf("got  %+v\nwant %+v", n, want)
	}
}

func TestNetworkFLOP(t *testing.T) {
	for name, c := range map[string]struct {
		node onnxtest.Node
		x    onnxtest.Value
		w    onnxtest.Tensor
		want int64
	}{
		"Conv":          {onnxtest.Node{Op: "Conv"}, input(1, 4, 8, 8), zeros(6, 4, 3, 3), 2 * 6 * 6 * 6 * 4 * 9},
		"ConvTranspose": {onnxtest.Node{Op: "ConvTranspose", Attrs: attrs{"strides": []int{2, 2}}}, input(1, 4, 8, 8), zeros(4, 6, 2, 2), 2 * 8 * 8 * 4 * 6 * 4},
		"MatMul":        {onnxtest.Node{Op: "MatMul"}, input(1, 5, 7), zeros(7, 3), 2 * 5 * 7 * 3},
		"Gemm":          {onnxtest.Node{Op: "Gemm", Attrs: attrs{"transB": 1}}, input("n", 7), zeros(3, 7), 2 * 7 * 3},
		"Add":           {onnxtest.Node{Op: "Add"}, input(1, 7), zeros(7), 7},
		"open":          {onnxtest.Node{Op: "Add"}, input(1, "width"), zeros(1), 0},
	} {
		n, err := OpenNetwork(network(t, c.node, c.x, c.w))
		if err != nil || n.FLOP != c.want || n.Refused != "" {
			t.Errorf("%s: %d, want %d; %v %+v", name, n.FLOP, c.want, err, n)
		}
	}
}

func TestNetworkRefused(t *testing.T) {
	n, err := OpenNetwork(network(t, onnxtest.Node{Op: "Gelu", Domain: "com.microsoft", Name: "act"}, input(1, 4), zeros(4)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(n.Refused, `com.microsoft::Gelu node "act"`) || n.Operations[0].Known || len(n.Outputs) != 1 {
		t.Errorf("got %+v", n)
	}
	n, err = OpenNetwork(network(t, onnxtest.Node{Op: "Concat", Name: "c", Attrs: attrs{"axis": 0}}, input(1, 4), zeros(1, 4)))
	if err != nil || n.Refused != "" || !strings.Contains(n.OneFrame, `Concat node "c"`) {
		t.Errorf("%v, got %+v", err, n)
	}
}
