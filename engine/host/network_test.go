package host

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/ref"
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

// filter is a convolution of pictures.
func filter(seed uint64) onnxtest.Graph {
	w := matrix("w", 4, 27, seed)
	w.Dims = []int{4, 3, 3, 3}
	return onnxtest.Graph{
		Inputs:    []onnxtest.Value{{Name: "image", Type: onnxtest.Float32, Dims: []any{"n", 3, 10, 12}}},
		Outputs:   []onnxtest.Value{{Name: "map", Type: onnxtest.Float32, Dims: []any{"n", 4, 5, 6}}},
		Constants: []onnxtest.Tensor{w},
		Nodes: []onnxtest.Node{
			{Op: "Conv", In: []string{"image", "w"}, Out: []string{"c"}, Attrs: map[string]any{"pads": []int{1, 1, 1, 1}, "strides": []int{2, 2}}},
			{Op: "Sigmoid", In: []string{"c"}, Out: []string{"map"}},
		},
	}
}

// backends are those that tests run on here.
func backends(t *testing.T) map[string]func() kernels.Backend {
	all := map[string]func() kernels.Backend{
		"reference": func() kernels.Backend { return ref.New() },
		"GPU":       func() kernels.Backend { return cuda.New(simt.New()) },
	}
	if b, err := cpu.New(cpu.Config{Threads: 2}); err != nil {
		t.Logf("not on the processor: %v", err)
	} else {
		b.Close()
		all["processor"] = func() kernels.Backend { b, _ := cpu.New(cpu.Config{Threads: 2}); return b }
	}
	return all
}

// TestEncoderOnGPU: a GPU computes no encoders, and hosts what there is beside one.
func TestEncoderOnGPU(t *testing.T) {
	o := testOptions()
	o.Backend = cuda.New(simt.New())
	h := open(t, o, []Model{{Name: "texts", Path: write(t, textsConfig, 8)}, {Name: "base", Path: write(t, testConfig, 1), Prompts: Prompts{MaxLen: 400, BlockTokens: 32}}})
	if texts, base := infoOf(t, h, "texts"), infoOf(t, h, "base"); !strings.Contains(texts.Reason, "does not compute encoders") || base.Reason != "" {
		t.Errorf("the encoder: %q; the LLM: %q", texts.Reason, base.Reason)
	}
}

// TestRunnerOfAllKinds holds a host of an LLM, networks and, where the device computes some, encoders to the suite of
// runners.
func TestRunnerOfAllKinds(t *testing.T) {
	base, texts := write(t, testConfig, 1), Model{Name: "texts", Path: write(t, textsConfig, 8), Prompts: Prompts{MaxLen: 100}}
	shared := []Model{
		{Name: "base", Path: base, Prompts: Prompts{MaxLen: 400, BlockTokens: 32}}, {Name: "faces", Path: writeNetwork(t, perceptron(50, 40, 7, 4, 5))},
		{Name: "plates", Path: writeNetwork(t, perceptron(50, 40, 3, 4, 6))}, {Name: "filter", Path: writeNetwork(t, filter(7))},
	}
	for name, backend := range backends(t) {
		models := shared
		if name != "GPU" {
			models = append(models[:len(models):len(models)], texts)
		}
		t.Run(name, func(t *testing.T) {
			runnertest.Run(t, func(t *testing.T) executor.Runner {
				o, blobs := testOptions(), &runnertest.Memory{}
				o.Blobs, o.Backend = blobs, backend()
				h, err := Open(o, models)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range h.Info().Models {
					if m.Reason != "" || m.Tensors != nil && m.Tensors.Backward == 0 {
						t.Fatalf("%+v", m)
					}
				}
				return withBlobs{h, blobs}
			})
		})
	}
}

// TestMeasured: what passes cost is known when a network is loaded, in steps between which others run; of one of free
// size also what larger frames do. What is in the middle of it when the weights go begins anew.
func TestMeasured(t *testing.T) {
	free := filter(8)
	free.Inputs[0].Dims, free.Outputs[0].Dims = []any{"n", 3, "h", "w"}, []any{"n", 4, "a", "b"}
	o := testOptions()
	o.Blobs, o.CacheDir = &runnertest.Memory{}, t.TempDir()
	h, err := Open(o, []Model{{Name: "fixed", Path: writeNetwork(t, filter(7))}, {Name: "free", Path: writeNetwork(t, free), Frames: Frames{Height: 64, Width: 48}}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if l := infoOf(t, h, "free").Tensors; l.Elements != 3*64*48 || l.Growth != 1 || infoOf(t, h, "fixed").Tensors.Growth != 0 {
		t.Errorf("before: %+v", l)
	}
	for _, name := range []string{"fixed", "free"} {
		weights := infoOf(t, h, name).Weights
		for _, w := range weights[:len(weights)-1] {
			if done, err := h.Load(name, w); !done || err != nil {
				t.Fatal(done, err)
			}
		}
		last := weights[len(weights)-1]
		for range 3 {
			if done, err := h.Load(name, last); done || err != nil {
				t.Fatalf("%s: its cost is measured in one step: %v, %v", name, done, err)
			}
		}
		h.Drop([]uint32{last})
		steps := 0
		for done := false; !done; steps++ {
			if done, err = h.Load(name, last); err != nil {
				t.Fatal(err)
			}
		}
		m := infoOf(t, h, name)
		if steps < 3 || m.Cost.Unit <= 0 || m.Step <= 0 || m.Tensors.Backward <= 0 {
			t.Errorf("%s after %d steps: %+v, %+v", name, steps, m, m.Tensors)
		}
		if g := m.Tensors.Growth; (name == "free") != (g > 0) {
			t.Errorf("%s: cost grows by %v with the size", name, g)
		}
	}
}
