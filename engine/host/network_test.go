package host

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
)

// perceptron is a network of two layers over rows of so many columns, whose layers are drawn from seeds.
func perceptron(in, hidden, out int, first, second uint64) onnxtest.Graph {
	return onnxtest.Graph{
		Inputs:    []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{"n", in}}},
		Outputs:   []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{"n", out}}, {Name: "h", Type: onnxtest.Float32, Dims: []any{"n", hidden}}},
		Constants: []onnxtest.Tensor{matrix("a", in, hidden, first), matrix("b", hidden, out, second)},
		Nodes: []onnxtest.Node{
			{Op: "MatMul", In: []string{"x", "a"}, Out: []string{"ax"}},
			{Op: "Tanh", In: []string{"ax"}, Out: []string{"h"}},
			{Op: "MatMul", In: []string{"h", "b"}, Out: []string{"y"}},
		},
	}
}

func matrix(name string, rows, columns int, seed uint64) onnxtest.Tensor {
	random := rand.New(rand.NewPCG(seed, 1))
	values := make([]float64, rows*columns)
	for i := range values {
		values[i] = random.NormFloat64() / 8
	}
	return onnxtest.Floats(name, []int{rows, columns}, values...)
}

// writeNetwork makes a file of a network in a new directory.
func writeNetwork(t testing.TB, g onnxtest.Graph) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "network.onnx")
	if err := os.WriteFile(file, onnxtest.File(17, g), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// withBlobs is a host with the blobs that its networks read.
type withBlobs struct {
	*Host
	*runnertest.Memory
}

func (h withBlobs) Held() int64 { return h.store.Bytes() }

// TestRunnerOfBothKinds holds a host of an LLM and two networks to the suite of runners.
func TestRunnerOfBothKinds(t *testing.T) {
	base := write(t, testConfig, 1)
	faces, plates := writeNetwork(t, perceptron(50, 40, 7, 4, 5)), writeNetwork(t, perceptron(50, 40, 3, 4, 6))
	runnertest.Run(t, func(t *testing.T) executor.Runner {
		o, blobs := testOptions(), &runnertest.Memory{}
		o.Blobs = blobs
		h, err := Open(o, []Model{
			{Name: "base", Path: base, Prompts: Prompts{MaxLen: 400, BlockTokens: 32}}, {Name: "faces", Path: faces}, {Name: "plates", Path: plates},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range h.Info().Models {
			if m.Reason != "" {
				t.Fatal(m.Name, m.Reason)
			}
		}
		return withBlobs{h, blobs}
	})
}
