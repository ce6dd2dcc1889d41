package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// logprobs asks the demo model, or that of the arguments, about a few prompts: with each the first token of the answer, and the same
// where two tokens alone are allowed.
func logprobs(t *testing.T, args ...string) (values []float64) {
	t.Helper()
	p := serve(t, nil, append([]string{"--device", "cpu"}, args...)...)
	defer p.wait(30 * time.Second)
	defer func() { _ = p.cmd.Process.Signal(os.Interrupt) }()
	client := &http.Client{Timeout: time.Minute}
	for _, prompt := range []string{"The user likes", "Would this reader open a post on bicycles?", "a"} {
		for _, more := range []string{"", `,"allowed_token_ids":[300,301]`} {
			response, err := client.Post(p.base+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"temperature":0,"logprobs":5%s}`, prompt, more)))
			if err != nil {
				t.Fatal(err)
			}
			var body struct {
				Choices []struct {
					Logprobs struct {
						Values []float64 `json:"token_logprobs"`
					}
				}
			}
			text := readAll(t, response)
			err = json.Unmarshal([]byte(text), &body)
			if err != nil || response.StatusCode != 200 || len(body.Choices) != 1 || len(body.Choices[0].Logprobs.Values) != 1 {
				t.Fatalf("%q: %d %s %v", prompt, response.StatusCode, text, err)
			}
			values = append(values, body.Choices[0].Logprobs.Values[0])
		}
	}
	return values
}

// about demands log-probabilities that are near those wanted, and not the same.
func about(t *testing.T, form string, got, want []float64) {
	t.Helper()
	for i := range want {
		if off := math.Abs(got[i] - want[i]); off > 0.1 {
			t.Errorf("logprob %d is %.4f in %s, %.4f in bfloat16", i, got[i], form, want[i])
		}
	}
	if slices.Equal(got, want) {
		t.Errorf("%s gives the bits of bfloat16: its weights are not in use", form)
	}
}

// TestServeFP8 serves the demo model in FP8 on the processor: it says nearly what it says in bfloat16.
func TestServeFP8(t *testing.T) {
	about(t, "FP8", logprobs(t, "--model", quantisedDemo(t)), logprobs(t))
}

// TestRefusesOtherQuantisation: the message names the key and what is supported.
func TestRefusesOtherQuantisation(t *testing.T) {
	dir := demoDir(t)
	announce(t, dir, `{"quant_method":"bitsandbytes","load_in_4bit":true}`)
	text, err := command(nil, "serve", "--port", "0", "--model", dir).CombinedOutput()
	exit, ok := err.(*exec.ExitError)
	if !ok || exit.ExitCode() != cli.ExitConfig || !strings.Contains(string(text), `quant_method is "bitsandbytes"`) || !strings.Contains(string(text), "FP8-dynamic") {
		t.Errorf("%v: %s", err, text)
	}
}
