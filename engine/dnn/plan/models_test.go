package plan_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// dataDir is where data for tests is.
func dataDir() string {
	if dir := os.Getenv("PREFILLONLY_DATA"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "..", "shared", "data")
}

// open reads a model of the data for tests.
func open(t *testing.T, file string) *graph.Graph {
	t.Helper()
	path := filepath.Join(dataDir(), "models", file)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not there: set PREFILLONLY_DATA", path)
	}
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.Graph
}

// models are files of the data for tests, with the shapes of their inputs that they are computed for: small ones
// where the model has them, since the oracle takes its time.
var models = []struct {
	file   string
	shapes map[string][]int
	slow   bool
}{
	{"yolox_nano_416.onnx", map[string][]int{"images": {2, 3, 96, 160}}, false},
	{"fastestdet_352.onnx", nil, false},
	{"light_person_192.onnx", map[string][]int{"images": {3, 3, 64, 96}}, false},
	{"face_rfb_320.onnx", nil, false},
	{"deeplab_v3_mnv2_257.onnx", nil, true},
	{"road_segmentation_adas_0001.onnx", nil, true},
}

// TestModels compares plans of real networks with the operations' own values.
func TestModels(t *testing.T) {
	for _, m := range models {
		t.Run(m.file, func(t *testing.T) {
			list := backends(t)
			if m.slow {
				if testing.Short() || len(list) == 1 {
					t.Skip("takes long")
				}
				list = list[1:]
			}
			special, err := specialize.Run(open(t, m.file), m.shapes)
			if err != nil {
				t.Fatal(err)
			}
			equalsOracle(t, special, list)
		})
	}
}

func equalsOracle(t *testing.T, g *graph.Graph, list []kernels.Backend) {
	w := &writer{random: rand.New(rand.NewPCG(1, 5))}
	inputs := map[string]*graph.Tensor{}
	for _, v := range g.Inputs {
		inputs[v.Name] = w.tensor(v.Type, v.Shape...)
	}
	want, err := oracle(g, inputs)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		p, err := bind(b, g, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.pass(inputs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if apart, err := differ(got[i], want[i]); err != nil || apart > 1e-4 {
				t.Errorf("%s: output %q is %g of its range off: %v", b.Name(), g.Outputs[i].Name, apart, err)
			}
		}
	}
}

// backends are the reference and, where it can be built, that of the processor.
func backends(t *testing.T) []kernels.Backend {
	list := []kernels.Backend{ref.New()}
	if b, err := cpu.New(cpu.Config{Threads: 2}); err == nil {
		list = append(list, b)
	} else {
		t.Logf("without the processor's kernels: %v", err)
	}
	t.Cleanup(func() {
		for _, b := range list {
			b.Close()
		}
	})
	return list
}
