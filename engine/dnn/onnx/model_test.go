package onnx

import (
	"os"
	"path/filepath"
	"testing"
)

// dataDir is where the data for tests is, or the test is skipped.
func dataDir(t testing.TB) string {
	dir := os.Getenv("PREFILLONLY_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no data for tests at %s (PREFILLONLY_DATA names another directory)", dir)
	}
	return dir
}

func TestOpenRealModels(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join(dataDir(t), "models", "*.onnx"))
	if len(paths) == 0 {
		t.Skip("no models there")
	}
	for _, path := range paths {
		m, err := Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Log(path, m.Producer, m.Opset, len(m.Graph.Nodes), m.Graph.Inputs, m.Graph.Outputs)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
