package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

// oneLayer writes a network of a node, and reads its layers.
func oneLayer(t *testing.T, n onnxtest.Node, w onnxtest.Tensor) (signature string, bytes, own int64) {
	t.Helper()
	m, err := OpenLayers(network(t, n, input(1, 4, 8, 8), w))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Layers) != 1 || m.Name != "n" {
		t.Fatalf("got %+v, want one layer of the network", m)
	}
	return m.Layers[0].Signature, m.Layers[0].Bytes, m.Layers[0].Own
}

// TestSignatureHasWhatWeightsDependOn, and nothing of what is said as ONNX has it anyway.
func TestSignatureHasWhatWeightsDependOn(t *testing.T) {
	plain, bytes, own := oneLayer(t, onnxtest.Node{Op: "Conv"}, zeros(6, 4, 3, 3))
	if bytes != 6*4*3*3*4 || own != 0 {
		t.Errorf("got %d bytes and %d of its own, want %d and 0", bytes, own, 6*4*3*3*4)
	}
	for name, n := range map[string]onnxtest.Node{
		"equal": {Op: "Conv", Attrs: attrs{"strides": []int{1, 1}, "pads": []int{0, 0, 0, 0}, "dilations": []int{1, 1}, "group": 1, "auto_pad": "NOTSET"}},
		"other": {Op: "Conv", Attrs: attrs{"strides": []int{2, 1}}},
		"pads":  {Op: "Conv", Attrs: attrs{"pads": []int{0, 1, 0, 0}}},
		"auto":  {Op: "Conv", Attrs: attrs{"auto_pad": "SAME_UPPER"}},
		"wide":  {Op: "Conv", Attrs: attrs{"dilations": []int{2, 2}}},
	} {
		if got, _, _ := oneLayer(t, n, zeros(6, 4, 3, 3)); (got == plain) != (name == "equal") {
			t.Errorf("%s: %q and %q", name, got, plain)
		}
	}
	if got, _, _ := oneLayer(t, onnxtest.Node{Op: "Conv", Attrs: attrs{"group": 2}}, zeros(6, 2, 3, 3)); got == plain {
		t.Errorf("two groups are %q as well", got)
	}
}

// TestBiasIsItsOwn, and weights that two nodes have are one layer.
func TestBiasIsItsOwn(t *testing.T) {
	w, b := zeros(4, 4, 1, 1), zeros(4)
	b.Name = "b"
	g := onnxtest.Graph{
		Nodes: []onnxtest.Node{
			{Name: "one", Op: "Conv", In: []string{"x", "w", "b"}, Out: []string{"h"}},
			{Name: "again", Op: "Conv", In: []string{"h", "w", "b"}, Out: []string{"y"}},
		},
		Constants: []onnxtest.Tensor{w, b}, Inputs: []onnxtest.Value{input(1, 4, 8, 8)}, Outputs: []onnxtest.Value{{Name: "y", Type: onnxtest.Float32}},
	}
	path := filepath.Join(t.TempDir(), "twice.onnx")
	if err := os.WriteFile(path, onnxtest.File(13, g), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := OpenLayers(path)
	if err != nil || len(m.Layers) != 1 || m.Layers[0].Name != "one" || m.Layers[0].Bytes != 64 || m.Layers[0].Own != 16 {
		t.Errorf("got %+v, %v, want one layer of 64 bytes and 16 of its own", m, err)
	}
}

// TestNetworkWithoutLayersIsNamed in the error.
func TestNetworkWithoutLayersIsNamed(t *testing.T) {
	path := network(t, onnxtest.Node{Op: "Add"}, input(1, 4, 8, 8), zeros(8))
	if _, err := OpenLayers(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names %s", err, path)
	}
}
