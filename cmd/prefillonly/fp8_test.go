package main

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/kernels"
)

// quantisedDemo is the demo model as llm-compressor's FP8-dynamic scheme leaves it.
func quantisedDemo(t *testing.T) string {
	t.Helper()
	dir := demoDir(t)
	c, err := weights.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer checkpoint.Close()
	q, kv := c.NumAttentionHeads**c.HeadDim, *c.NumKeyValueHeads**c.HeadDim
	shapes := map[string][]int{
		"q_proj": {q, c.HiddenSize}, "k_proj": {kv, c.HiddenSize}, "v_proj": {kv, c.HiddenSize}, "o_proj": {c.HiddenSize, q},
		"gate_proj": {c.IntermediateSize, c.HiddenSize}, "up_proj": {c.IntermediateSize, c.HiddenSize}, "down_proj": {c.HiddenSize, c.IntermediateSize},
		"embed_tokens": {c.VocabSize, c.HiddenSize},
	}
	var tensors []kernels.HostTensor
	for _, name := range checkpoint.Untaken() {
		module := name[:strings.LastIndexByte(name, '.')]
		shape := shapes[module[strings.LastIndexByte(module, '.')+1:]]
		if shape == nil {
			shape = []int{c.HiddenSize}
		}
		tensor, err := checkpoint.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(module, "_proj") {
			tensor = quantised(tensor)
		}
		tensors = append(tensors, tensor)
	}
	file := filepath.Join(dir, "model.safetensors")
	if err := weights.WriteFile(file+".fp8", tensors); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".fp8", file); err != nil {
		t.Fatal(err)
	}
	announce(t, dir, `{"quant_method":"compressed-tensors","format":"float-quantized","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],
		"weights":{"num_bits":8,"type":"float","strategy":"channel","symmetric":true,"dynamic":false},
		"input_activations":{"num_bits":8,"type":"float","strategy":"token","symmetric":true,"dynamic":true}}}}`)
	return dir
}

func quantised(t kernels.HostTensor) kernels.HostTensor {
	row, codes := make([]float32, t.Cols), make([]kernels.E4M3, t.Cols)
	out := kernels.HostTensor{Name: t.Name, Type: kernels.F8E4M3, Rows: t.Rows, Cols: t.Cols}
	for i := range t.Rows {
		width := t.Cols * int(t.Type.Size())
		kernels.Expand(row, t.Type, t.Data[i*width:])
		out.Scale = append(out.Scale, kernels.QuantizeE4M3(codes, row))
		for _, c := range codes {
			out.Data = append(out.Data, byte(c))
		}
	}
	return out
}

// announce sets config.json's quantization_config.
func announce(t *testing.T, dir, quantization string) {
	t.Helper()
	file := filepath.Join(dir, "config.json")
	keys := map[string]json.RawMessage{}
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &keys)
	}
	if err == nil {
		keys["quantization_config"] = json.RawMessage(quantization)
		raw, err = json.Marshal(keys)
	}
	if err == nil {
		err = os.WriteFile(file, raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestServeFP8 serves the demo model in FP8 on the processor: it says nearly what it says in bfloat16.
func TestServeFP8(t *testing.T) {
	logprobs := func(args ...string) []float64 {
		p := serve(t, nil, append([]string{"--device", "cpu"}, args...)...)
		defer p.wait(30 * time.Second)
		defer func() { _ = p.cmd.Process.Signal(os.Interrupt) }()
		var values []float64
		for _, prompt := range []string{"The user likes", "Would this reader open a post on bicycles?", "a"} {
			status, text, err := p.complete(&http.Client{Timeout: time.Minute}, prompt, 1)
			var body struct {
				Choices []struct {
					Logprobs struct {
						Values []float64 `json:"token_logprobs"`
					}
				}
			}
			if err == nil {
				err = json.Unmarshal([]byte(text), &body)
			}
			if err != nil || status != 200 || len(body.Choices) != 1 || len(body.Choices[0].Logprobs.Values) != 1 {
				t.Fatalf("%q: %d %s %v", prompt, status, text, err)
			}
			values = append(values, body.Choices[0].Logprobs.Values[0])
		}
		return values
	}
	want, got := logprobs(), logprobs("--model", quantisedDemo(t))
	same := true
	for i := range want {
		same = same && got[i] == want[i]
		if off := math.Abs(got[i] - want[i]); off > 0.1 {
			t.Errorf("logprob %d is %.4f in FP8, %.4f in bfloat16", i, got[i], want[i])
		}
	}
	if same {
		t.Error("FP8 weights give the bits of bfloat16: they are not in use")
	}
}

// TestRefusesOtherQuantisation: the message names the key and what is supported.
func TestRefusesOtherQuantisation(t *testing.T) {
	dir := demoDir(t)
	announce(t, dir, `{"quant_method":"gptq","bits":4}`)
	text, err := command(nil, "serve", "--port", "0", "--model", dir).CombinedOutput()
	exit, ok := err.(*exec.ExitError)
	if !ok || exit.ExitCode() != cli.ExitConfig || !strings.Contains(string(text), `quant_method is "gptq"`) || !strings.Contains(string(text), "FP8-dynamic") {
		t.Errorf("%v: %s", err, text)
	}
}
