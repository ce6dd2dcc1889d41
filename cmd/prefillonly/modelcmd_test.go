package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/internal/cli"
)

// tunedDemo is the demo model with other bits in the last layer's last tensor, and the demo model itself.
func tunedDemo(t *testing.T) (tuned, demo string) {
	t.Helper()
	tuned, demo = demoDir(t), demoDir(t)
	m, err := inspect.OpenCheckpoint(tuned)
	if err != nil {
		t.Fatal(err)
	}
	last := m.Tensors[len(m.Tensors)-1]
	file := filepath.Join(tuned, last.File)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{tuned, demo} {
		if err := os.Chtimes(filepath.Join(dir, last.File), time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	return tuned, demo
}

func TestModelShow(t *testing.T) {
	dir := demoDir(t)
	text := output(t, "model", "show", dir)
	for _, want := range []string{dir + "\n", "LlamaForCausalLM, 38 tensors in 1 file", "model.layers.0-3.mlp.down_proj.weight", "embedding", "layer 0 to layer 3", "head"} {
		if !strings.Contains(text, want) {
			t.Errorf("model show lacks %q:\n%s", want, text)
		}
	}
	var m inspect.Checkpoint
	if err := json.Unmarshal([]byte(output(t, "model", "show", "--json", dir)), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Tensors) == 0 || m.Bytes == 0 || len(m.Chunks) != 6 || m.DeviceBytes < m.Bytes {
		t.Errorf("as JSON: %d tensors of %d bytes, %d chunks of %d", len(m.Tensors), m.Bytes, len(m.Chunks), m.DeviceBytes)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"architectures":["GPT2Model"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := output(t, "model", "show", dir); !strings.Contains(text, `cannot be served: config.json: unsupported architecture [GPT2Model]`) {
		t.Errorf("model show of another architecture:\n%s", text)
	}
}

// TestModelDiff: the files are read once, and nothing is written beside them.
func TestModelDiff(t *testing.T) {
	t.Setenv("CACHE_DIRECTORY", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	tuned, demo := tunedDemo(t)
	before, err := os.ReadDir(demo)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		var c inspect.Comparison
		if err := json.Unmarshal([]byte(output(t, "model", "diff", demo, tuned, "--json")), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Differences) != 1 || c.A.SharedTensors != c.A.Tensors-1 || c.Device.Together <= c.Device.A || (c.HashedBytes > 0) != (i == 0) {
			t.Errorf("round %d: %+v, %+v", i, c, c.Device)
		}
	}
	text := output(t, "model", "diff", demo, tuned)
	for _, want := range []string{"A  " + demo, "B  " + tuned, "shared tensors", "5 of B's 6 chunks are A's, all but ", "other content"} {
		if !strings.Contains(text, want) {
			t.Errorf("model diff lacks %q:\n%s", want, text)
		}
	}
	if text := output(t, "model", "diff", demo, demo); !strings.Contains(text, "1.00 times") || strings.Contains(text, "DIFFERENT") {
		t.Errorf("model diff of one model with itself:\n%s", text)
	}
	after, err := os.ReadDir(demo)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d files are in the model's folder (%v), there were %d", len(after), err, len(before))
	}
}

// TestModelQuantize: a copy in int8 is served as the demo model is.
func TestModelQuantize(t *testing.T) {
	dir, to := demoDir(t), filepath.Join(t.TempDir(), "w8a8")
	for _, c := range []struct{ to, scheme, stored string }{{to, "W8A8", "I8 "}, {to + "16", "W8A16", "I32 "}} {
		if text := output(t, "model", "quantize", dir, "--out", c.to, "--scheme", c.scheme); !strings.Contains(text, c.to+": 28 matrices in int8, ") {
			t.Errorf("it prints %q", text)
		}
		if text := output(t, "model", "show", c.to); !strings.Contains(text, c.stored) || strings.Contains(text, "cannot be served") {
			t.Errorf("model show of the copy:\n%s", text)
		}
	}
	for line, want := range map[string]int{
		"model quantize " + dir: cli.ExitUsage, "model quantize " + dir + " --out " + to: cli.ExitConfig, "model quantize " + to + " --out " + to + "2": cli.ExitConfig,
		"model quantize /nowhere --out " + to + "2": cli.ExitConfig, "model quantize " + dir + " --out /proc/w8a8": cli.ExitConfig,
		"model quantize " + dir + " --scheme w8a8 --out " + to + "2": cli.ExitUsage,
	} {
		cmd := command(nil, strings.Fields(line)...)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || err == nil || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s ends with %d, want %d:\n%s", line, got, want, out)
		}
	}
}

// TestModelQuantizeLMHead: a copy whose LM head is in int8, too, is served, and differs from one in which that is not.
func TestModelQuantizeLMHead(t *testing.T) {
	dir, work := demoDir(t), t.TempDir()
	want := logprobs(t)
	for _, scheme := range []string{"W8A8", "W8A16"} {
		to, without := filepath.Join(work, scheme), filepath.Join(work, scheme+"-without")
		output(t, "model", "quantize", dir, "--out", without, "--scheme", scheme)
		if text := output(t, "model", "quantize", dir, "--out", to, "--scheme", scheme, "--lm-head"); !strings.Contains(text, to+": 29 matrices in int8, ") {
			t.Errorf("it prints %q", text)
		}
		if text := output(t, "model", "show", to); !strings.Contains(text, "lm_head.weight") || !strings.Contains(text, "model.embed_tokens.weight") || strings.Contains(text, "cannot be served") {
			t.Errorf("model show of the copy:\n%s", text)
		}
		got := logprobs(t, "--model", to)
		about(t, scheme+" with its LM head", got, want)
		if slices.Equal(got, logprobs(t, "--model", without)) {
			t.Errorf("%s: the LM head in int8 gives the bits of that in bfloat16", scheme)
		}
	}
	config := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(text), "LlamaForCausalLM", "LlamaModel", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(nil, "model", "quantize", dir, "--out", filepath.Join(work, "embedder"), "--lm-head")
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != cli.ExitUsage || err == nil || !strings.Contains(string(out), "--lm-head: "+config+": no LM head to quantise: architectures is [LlamaModel]") {
		t.Errorf("of a model without an LM head it ends with %d:\n%s", got, out)
	}
}

// TestModelQuantizeCalibrates: prompts of each form smooth a copy that is served; a file that has none is refused by name.
func TestModelQuantizeCalibrates(t *testing.T) {
	dir, work := demoDir(t), t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	to := filepath.Join(work, "smoothed")
	prompts := file("prompts.jsonl", `{"prompt":"User profile: age 31."}
{"text":"Will the user like it? Answer Yes or No:"}
{"messages":[{"role":"user","content":"Sailing and Finance"}]}
{"prompt_token_ids":[5,6,7]}
`)
	if text := output(t, "model", "quantize", dir, "--out", to, "--calibration", prompts, "--smoothing-strength", "0.6"); !strings.Contains(text, "; calibrated with 4 prompts, ") {
		t.Errorf("it prints %q", text)
	}
	if text := output(t, "model", "show", to); strings.Contains(text, "cannot be served") {
		t.Errorf("model show of the copy:\n%s", text)
	}
	pipe := filepath.Join(work, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	empty, broken := file("empty.jsonl", "\n"), file("broken.jsonl", "{\"prompt\":\"a\"}\n{\n")
	for arguments, want := range map[string]struct {
		code int
		text string
	}{
		"--calibration " + pipe:                         {cli.ExitConfig, pipe + " is a pipe, not a regular file"},
		"--calibration " + work:                         {cli.ExitConfig, work + " is a directory, not a regular file"},
		"--calibration " + empty:                        {cli.ExitConfig, empty + " has no prompts"},
		"--calibration " + broken:                       {cli.ExitConfig, broken + ", line 2: "},
		"--calibration " + work + "/nowhere":            {cli.ExitConfig, "nowhere: no such file"},
		"--smoothing-strength 0.3":                      {cli.ExitUsage, "--smoothing-strength needs --calibration"},
		"--smoothing-strength 3 --calibration " + empty: {cli.ExitUsage, "invalid smoothing strength 3: want 0 to 1"},
		"--scheme W8A16 --calibration " + empty:         {cli.ExitUsage, "which W8A16 does not have"},
	} {
		cmd := command(nil, strings.Fields("model quantize "+dir+" --out "+to+"2 "+arguments)...)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want.code || err == nil || !strings.Contains(string(out), want.text) || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s ends with %d, want %d and %q:\n%s", arguments, got, want.code, want.text, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(work, ".*")); err != nil || len(left) != 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
}

func TestModelExits(t *testing.T) {
	empty := t.TempDir()
	for line, want := range map[string]int{
		"model show": cli.ExitUsage, "model diff " + empty: cli.ExitUsage, "model shew x": cli.ExitUsage,
		"model show " + empty: cli.ExitConfig, "model show /nowhere": cli.ExitConfig, "model diff no/such " + empty: cli.ExitConfig,
	} {
		cmd := command([]string{"HF_HOME=" + empty}, strings.Fields(line)...)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || err == nil || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s ends with %d, want %d:\n%s", line, got, want, out)
		}
	}
}

// TestModelShowNetwork: a network with an open dimension and an operation that is not known.
func TestModelShowNetwork(t *testing.T) {
	g := onnxtest.Graph{
		Nodes:     []onnxtest.Node{{Op: "Add", In: []string{"x", "w"}, Out: []string{"s"}}, {Op: "Warp", Name: "odd", Domain: "com.example", In: []string{"s"}, Out: []string{"y"}}},
		Constants: []onnxtest.Tensor{onnxtest.Floats("w", []int{2}, 1, 2)}, Inputs: []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{"batch", 2}}},
		Outputs: []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{"batch", 2}}},
	}
	path := filepath.Join(t.TempDir(), "odd.ONNX")
	if err := os.WriteFile(path, onnxtest.File(17, g), 0o600); err != nil {
		t.Fatal(err)
	}
	text := output(t, "model", "show", path)
	for _, want := range []string{path + "\nONNX opset 17 by onnxtest, 1 tensors in 1 file, 8 B: FP32 8 B\n", "x      FP32  [batch 2]", "Add                1\n",
		"com.example::Warp  1  unknown", `It cannot be served: com.example::Warp node "odd"`} {
		if !strings.Contains(text, want) {
			t.Errorf("model show lacks %q:\n%s", want, text)
		}
	}
	g.Nodes = g.Nodes[:1]
	g.Nodes[0].Out = []string{"y"}
	if err := os.WriteFile(path, onnxtest.File(17, g), 0o600); err != nil {
		t.Fatal(err)
	}
	var n inspect.Network
	if err := json.Unmarshal([]byte(output(t, "model", "show", "--json", path)), &n); err != nil {
		t.Fatal(err)
	}
	if n.FLOP != 2 || n.Refused != "" || n.OneFrame != "" || n.Outputs[0].Shape[0] != -1 {
		t.Errorf("as JSON: %+v", n)
	}
}
