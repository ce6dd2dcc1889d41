package onnx

import (
	"path/filepath"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/golden"
)

func TestOpenRealModels(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join(golden.Data(t), "models", "*.onnx"))
	if len(paths) == 0 {
		t.Skip("no models there")
	}
	for _, path := range paths {
		m, err := Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(m.Graph.Nodes) < 10 || len(m.Files()) != 1 {
			t.Errorf("%s: %d nodes, by %q, in %d files", path, len(m.Graph.Nodes), m.Producer, len(m.Files()))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
