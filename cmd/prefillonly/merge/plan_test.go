package merge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

// plans runs `merge plan`.
func plans(args ...string) (string, error) { return execute(append([]string{"plan"}, args...)...) }

// writeEye writes a small network.
func writeEye(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, onnxtest.File(13, onnxtest.Eye(1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEqualNetworksShareAll that is weights.
func TestEqualNetworksShareAll(t *testing.T) {
	a, b := writeEye(t, "a.onnx"), writeEye(t, "b.onnx")
	text, err := plans(a, b, "--json")
	var p plan
	if err != nil || json.Unmarshal([]byte(text), &p) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if p.SharedBytes == 0 || 2*p.SharedBytes > p.TotalBytes || p.SharedBytes != p.StemBytes || len(p.Models) != 2 || p.Models[1].Name != "b" {
		t.Errorf("got %+v", p)
	}
	if text, err = plans(a, b); err != nil || !strings.Contains(text, "At most ") || !strings.Contains(text, "MatMul FP32[") {
		t.Errorf("%v, for people:\n%s", err, text)
	}
}

func TestWorkloadInPlaceOfFiles(t *testing.T) {
	text, err := plans("--workload", "LP2", "--json")
	var p plan
	if err != nil || json.Unmarshal([]byte(text), &p) != nil || p.OptimalPercent < 34.1 || p.OptimalPercent > 34.2 || p.Workload != "LP2" {
		t.Errorf("%v: %.300s", err, text)
	}
}

func TestBadArgumentsAreNamed(t *testing.T) {
	a := writeEye(t, "a.onnx")
	bad := filepath.Join(t.TempDir(), "bad.onnx")
	if err := os.WriteFile(bad, []byte("no network"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		args []string
		want string
	}{
		{nil, "got 0"}, {[]string{a}, "got 1"}, {[]string{a, bad}, bad}, {[]string{a, a + "x"}, a + "x"},
		{[]string{"--workload", "XX"}, `"XX"`}, {[]string{"--workload", "LP1", a}, "--workload LP1"},
	} {
		if _, err := plans(of.args...); err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%q: got %v, want %q in it", of.args, err, of.want)
		}
	}
}
