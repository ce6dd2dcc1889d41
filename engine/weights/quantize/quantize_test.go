package quantize

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

const up = "model.layers.0.mlp.up_proj.weight"

// checkpoint writes one of two shards with a projection of each type, and what else a model has.
func checkpoint(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	random := func(typ kernels.DType, name string, shape ...int) kernels.HostTensor {
		tensor, err := weights.Random{Seed: 3, Type: typ}.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return tensor
	}
	shards := map[string][]kernels.HostTensor{
		"model-00001-of-00002.safetensors": {
			random(kernels.BF16, "model.embed_tokens.weight", 40, 24), random(kernels.BF16, up, 33, 24), random(kernels.F16, "model.layers.0.mlp.gate_proj.weight", 33, 24),
		},
		"model-00002-of-00002.safetensors": {
			random(kernels.F32, "model.layers.0.mlp.down_proj.weight", 24, 33), random(kernels.BF16, "model.norm.weight", 24), random(kernels.BF16, "lm_head.weight", 40, 24),
			{Name: "model.layers.0.self_attn.o_proj.weight", Type: kernels.BF16, Rows: 2, Cols: 3, Data: make([]byte, 12)},
		},
	}
	index := map[string]string{}
	for name, tensors := range shards {
		if err := weights.WriteFile(filepath.Join(dir, name), tensors); err != nil {
			t.Fatal(err)
		}
		for _, tensor := range tensors {
			index[tensor.Name] = name
		}
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		indexFile: string(text), configFile: `{"architectures":["LlamaForCausalLM"],"rope_theta":1e6}`, "tokenizer.json": "{}", "pytorch_model.bin": "old",
		".cache": "not of the model", "1_Pooling/config.json": "{}", "2_Dense/model.safetensors": "of a module",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRun: codes stand for the values that were there, to their scale (the largest alone are off by more than half of it, where that
// was rounded down); all else is as it was.
func TestRun(t *testing.T) {
	for scheme, want := range map[Scheme]weights.Scheme{W8A8: {Type: kernels.I8}, W8A16: {Type: kernels.I8, WeightOnly: true}} {
		t.Run(string(scheme), func(t *testing.T) { testRun(t, scheme, want) })
	}
}

func testRun(t *testing.T, scheme Scheme, want weights.Scheme) {
	from, to := checkpoint(t), filepath.Join(t.TempDir(), "new", "w8a8")
	if err := os.MkdirAll(to, 0o700); err != nil { // empty, as mkdir leaves it
		t.Fatal(err)
	}
	var done, total int64
	result, err := Run(t.Context(), from, to, Options{Scheme: scheme, Progress: func(d, of int64) { done, total = d, of }})
	if err != nil {
		t.Fatal(err)
	}
	if result.Matrices != 4 || result.After >= result.Before || done != total || total != result.Before {
		t.Errorf("result %+v, progress %d of %d", result, done, total)
	}
	before, after := open(t, from), open(t, to)
	for name, shape := range map[string][]int{up: {33, 24}, "model.layers.0.mlp.gate_proj.weight": {33, 24}, "model.layers.0.mlp.down_proj.weight": {24, 33}, "model.layers.0.self_attn.o_proj.weight": {2, 3}} {
		checkCodes(t, tensor(t, before, name, shape), tensor(t, after, name, shape))
	}
	for name, shape := range map[string][]int{"model.embed_tokens.weight": {40, 24}, "model.norm.weight": {24}, "lm_head.weight": {40, 24}} {
		if was, is := tensor(t, before, name, shape), tensor(t, after, name, shape); was.Type != is.Type || string(was.Data) != string(is.Data) {
			t.Errorf("%s has changed", name)
		}
	}
	if left := after.Untaken(); len(left) != 0 {
		t.Errorf("there are %v, too", left)
	}
	config, err := weights.ReadConfig(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.QuantizationConfig.Check(); err != nil {
		t.Error(err)
	}
	if s := config.QuantizationConfig.Linear("model.layers.0.mlp.up_proj"); s != want {
		t.Errorf("scheme %+v, want %+v", s, want)
	}
	for _, module := range []string{"lm_head", "score", "score.2"} {
		if config.QuantizationConfig.Linear(module).Quantized() {
			t.Errorf("%s is said to be quantised", module)
		}
	}
	for name, want := range map[string]bool{"tokenizer.json": true, "1_Pooling/config.json": true, "2_Dense/model.safetensors": true, "pytorch_model.bin": false, ".cache": false} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// checkCodes demands of a matrix that its codes stand for the values that were there.
func checkCodes(t *testing.T, was, is kernels.HostTensor) {
	t.Helper()
	values, data := make([]float32, len(is.Data)), make([]byte, len(is.Data))
	kernels.Expand(values, was.Type, was.Data)
	if err := is.ReadPart(data, is.Data); err != nil { // a view of codes that are packed has others
		t.Fatal(err)
	}
	if is.Type != kernels.I8 {
		t.Errorf("%s is %s", is.Name, is.Type)
		return
	}
	for i, v := range values {
		scale := is.Scale[i/is.Cols]
		if off := math.Abs(float64(float32(int8(data[i]))*scale - v)); off > float64(scale) {
			t.Fatalf("%s: element %d is %v, code %d of %v", is.Name, i, v, int8(data[i]), scale)
		}
	}
}

func open(t *testing.T, dir string) *weights.Checkpoint {
	t.Helper()
	c, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func tensor(t *testing.T, c *weights.Checkpoint, name string, shape []int) kernels.HostTensor {
	t.Helper()
	found, err := c.Tensor(name, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestRunRefuses: what fails leaves nothing, neither the directory nor one beside.
func TestRunRefuses(t *testing.T) {
	edit := func(name, text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	for want, spoil := range map[string]func(dir string) error{
		"config.json":                      func(dir string) error { return os.Remove(filepath.Join(dir, configFile)) },
		"unexpected end of JSON input":     edit(configFile, `{`),
		"config.json is null":              edit(configFile, `null`),
		"is quantised already":             edit(configFile, `{"quantization_config":{"quant_method":"gptq"}}`),
		"no projections of a decoder":      func(dir string) error { return onlyNorm(dir) },
		"want a finite number":             func(dir string) error { return withNaN(dir) },
		"model-00002-of-00002.safetensors": edit("model-00002-of-00002.safetensors", "short"),
	} {
		from, beside := checkpoint(t), t.TempDir()
		if err := spoil(from); err != nil {
			t.Fatal(err)
		}
		_, err := Run(t.Context(), from, filepath.Join(beside, "to"), Options{Scheme: W8A8})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to hold %q", err, want)
		}
		if left, _ := os.ReadDir(beside); len(left) != 0 {
			t.Errorf("%s: left is %v", want, left)
		}
	}
	from := checkpoint(t)
	if _, err := Run(t.Context(), from, from, Options{Scheme: W8A8}); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("onto itself: %v", err)
	}
	if _, err := Run(t.Context(), from, filepath.Join(t.TempDir(), "to"), Options{Scheme: "W4A16"}); err == nil || !strings.Contains(err.Error(), `unknown scheme "W4A16": want one of [W8A8 W8A16]`) {
		t.Errorf("another scheme: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	beside := t.TempDir()
	if _, err := Run(ctx, from, filepath.Join(beside, "to"), Options{Scheme: W8A8}); err == nil {
		t.Error("interrupted, it ends well")
	}
	if left, _ := os.ReadDir(beside); len(left) != 0 {
		t.Errorf("interrupted, it leaves %v", left)
	}
}

// TestRunRemovesWhatIsLeft: what a run to the same directory has left that was killed is removed, and nothing else.
func TestRunRemovesWhatIsLeft(t *testing.T) {
	from, beside := checkpoint(t), t.TempDir()
	for _, name := range []string{".to.unfinished-1", ".to.unfinished-2", ".other.unfinished-1"} {
		if err := os.MkdirAll(filepath.Join(beside, name, "1_Pooling"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lives, err := lockDir(filepath.Join(beside, ".to.unfinished-2"))
	if err != nil {
		t.Fatal(err)
	}
	defer lives.Close()
	if _, err := Run(t.Context(), from, filepath.Join(beside, "to"), Options{Scheme: W8A8}); err != nil {
		t.Fatal(err)
	}
	var left []string
	list, err := os.ReadDir(beside)
	for _, entry := range list {
		left = append(left, entry.Name())
	}
	if want := []string{".other.unfinished-1", ".to.unfinished-2", "to"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("there are %v, want %v (%v)", left, want, err)
	}
}

// single makes the checkpoint one of a single file.
func single(dir string, tensors ...kernels.HostTensor) error {
	for _, name := range []string{indexFile, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return weights.WriteFile(filepath.Join(dir, "model.safetensors"), tensors)
}

func onlyNorm(dir string) error {
	return single(dir, kernels.HostTensor{Name: "model.norm.weight", Type: kernels.BF16, Rows: 1, Cols: 2, Data: make([]byte, 4)})
}

func withNaN(dir string) error {
	return single(dir, kernels.HostTensor{Name: up, Type: kernels.BF16, Rows: 2, Cols: 1, Data: []byte{0, 0, 0xc0, 0x7f}})
}
