package dnn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

// TestBestOutputsAreAdded behind a network's own, and what identifies it is another than without them.
func TestBestOutputsAreAdded(t *testing.T) {
	steps := onnxtest.Graph{
		Inputs:  []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{"n", "t", 5}}},
		Outputs: []onnxtest.Value{{Name: "best", Type: onnxtest.Float32, Dims: []any{"n", "t", 5}}},
		Nodes:   []onnxtest.Node{{Op: "Neg", In: []string{"x"}, Out: []string{"best"}}},
	}
	file := filepath.Join(t.TempDir(), "n.onnx")
	if err := os.WriteFile(file, onnxtest.File(17, steps), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := Read(file, Options{Best: true})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	plain, err := Read(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if len(plain.limits.Outputs) != 1 || plain.print == n.print {
		t.Errorf("without them: %v; the fingerprints are %s and %s", plain.limits.Outputs, plain.print, n.print)
	}
	if out := n.limits.Outputs; len(out) != 3 || out[1].Name != "best_1" || out[1].Type != engine.Int64 || out[2].Name != ScoreOutput || out[2].Type != engine.FP32 ||
		!slices.Equal(out[1].Shape, []int{-1, -1}) || !slices.Equal(out[2].Shape, []int{-1, -1}) {
		t.Errorf("the outputs are %v", out)
	}
	steps.Nodes, steps.Outputs[0].Name = nil, "x"
	if err := os.WriteFile(file, onnxtest.File(17, steps), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file, Options{Best: true}); err == nil || !strings.Contains(err.Error(), "no first output") {
		t.Errorf("of an output that is an input: %v", err)
	}
}
