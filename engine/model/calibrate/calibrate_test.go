package calibrate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

const hidden, vocabulary = 32, 64

// checkpoint writes a model of two layers whose norms before the attention have equal weights. An edit changes tensors by name.
func checkpoint(t *testing.T, edit func(name string, values []float32)) string {
	t.Helper()
	dir := t.TempDir()
	shapes := map[string][]int{"model.embed_tokens.weight": {vocabulary, hidden}, "model.norm.weight": {hidden}}
	for i := range 2 {
		for name, shape := range map[string][]int{
			"input_layernorm": {hidden}, "post_attention_layernorm": {hidden}, "self_attn.q_proj": {hidden, hidden}, "self_attn.k_proj": {hidden, hidden},
			"self_attn.v_proj": {hidden, hidden}, "self_attn.o_proj": {hidden, hidden}, "mlp.gate_proj": {48, hidden}, "mlp.up_proj": {48, hidden}, "mlp.down_proj": {hidden, 48},
		} {
			shapes[fmt.Sprintf("model.layers.%d.%s.weight", i, name)] = shape
		}
	}
	var tensors []kernels.HostTensor
	for name, shape := range shapes {
		drawn := strings.Replace(name, "layers.1.input", "layers.0.input", 1)
		tensor, err := weights.Random{Seed: 5, Type: kernels.F32}.Tensor(drawn, shape...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float32, tensor.Rows*tensor.Cols)
		kernels.Expand(values, kernels.F32, tensor.Data)
		if edit != nil {
			edit(name, values)
		}
		for i, v := range values {
			weights.Put(kernels.F32, tensor.Data, i, v)
		}
		tensor.Name = name
		tensors = append(tensors, tensor)
	}
	if err := weights.WriteFile(filepath.Join(dir, "model.safetensors"), tensors); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": 48, "num_hidden_layers": 2,
		"num_attention_heads": 2, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 1e4,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func tokens(from, n int) []engine.TokenID {
	list := make([]engine.TokenID, n)
	for i := range list {
		list[i] = engine.TokenID((from + 7*i + i*i) % vocabulary)
	}
	return list
}

func opened(t *testing.T, dir string, b kernels.Backend) *Calibration {
	t.Helper()
	c, err := Open(dir, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func peaksOf(t *testing.T, c *Calibration) map[string][]float32 {
	t.Helper()
	peaks, err := c.Peaks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return peaks
}

// TestPeaks: of the first norm they are those of the embeddings' rows, computed here; each norm has its own, although two have
// equal weights; those of the processor are the reference's; every row of the last layer counts.
func TestPeaks(t *testing.T) {
	dir := checkpoint(t, nil)
	c := opened(t, dir, ref.New())
	var used []engine.TokenID
	for i := range 70 { // more prompts than a pass has
		ids := tokens(i%5, 3+i)
		used = append(used, ids...)
		if err := c.Add(t.Context(), "here", ids); err != nil {
			t.Fatal(err)
		}
	}
	peaks := peaksOf(t, c)
	if c.Prompts != 70 || c.Tokens != len(used) || c.Cut != 0 || len(peaks) != 4 {
		t.Fatalf("%+v, %d norms", c.Counts, len(peaks))
	}
	source, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	floats := func(name string, shape ...int) []float32 {
		tensor, err := source.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float32, len(tensor.Data)/4)
		kernels.Expand(values, kernels.F32, tensor.Data)
		return values
	}
	table, weight := floats("model.embed_tokens.weight", vocabulary, hidden), floats("model.layers.0.input_layernorm.weight", hidden)
	want := make([]float64, hidden)
	for _, id := range used {
		row, sum := table[int(id)*hidden:(int(id)+1)*hidden], 0.0
		for _, v := range row {
			sum += float64(v) * float64(v)
		}
		for i, v := range row {
			want[i] = max(want[i], math.Abs(float64(v)/math.Sqrt(sum/hidden+1e-5)*float64(weight[i])))
		}
	}
	for i, v := range peaks["model.layers.0.input_layernorm.weight"] {
		if math.Abs(float64(v)-want[i]) > 1e-5*want[i] {
			t.Errorf("channel %d: %g, want %g", i, v, want[i])
		}
	}
	if fmt.Sprint(peaks["model.layers.0.input_layernorm.weight"]) == fmt.Sprint(peaks["model.layers.1.input_layernorm.weight"]) {
		t.Error("norms of equal weights have one list of peaks")
	}
	first := opened(t, dir, ref.New())
	if err := first.Add(t.Context(), "here", used[:4]); err != nil {
		t.Fatal(err)
	}
	some := peaksOf(t, first)["model.layers.1.post_attention_layernorm.weight"]
	every := opened(t, dir, ref.New())
	if err := every.Add(t.Context(), "here", append([]engine.TokenID{}, used[:40]...)); err != nil {
		t.Fatal(err)
	}
	for i, v := range peaksOf(t, every)["model.layers.1.post_attention_layernorm.weight"] {
		if v < some[i]*0.99999 {
			t.Errorf("channel %d of the last layer: %g of 40 tokens, and %g of the first 4", i, v, some[i])
		}
	}
}

func TestPeaksOfTheProcessor(t *testing.T) {
	dir := checkpoint(t, nil)
	exact, fast := opened(t, dir, ref.New()), opened(t, dir, cputest.Open(t, cpu.Config{}))
	for _, c := range []*Calibration{exact, fast} {
		if err := c.Add(t.Context(), "here", tokens(3, 200)); err != nil {
			t.Fatal(err)
		}
	}
	got := peaksOf(t, fast)
	for name, want := range peaksOf(t, exact) {
		for i, v := range want {
			if math.Abs(float64(got[name][i]-v)) > 0.05*float64(v) {
				t.Errorf("%s, channel %d: %g, the reference has %g", name, i, got[name][i], v)
			}
		}
	}
}

// TestAddCuts: of a long prompt its beginning is computed.
func TestAddCuts(t *testing.T) {
	dir := checkpoint(t, nil)
	long, short := opened(t, dir, ref.New()), opened(t, dir, ref.New())
	ids := tokens(1, MaxTokens+500)
	for c, ids := range map[*Calibration][]engine.TokenID{long: ids, short: ids[:MaxTokens]} {
		if err := c.Add(t.Context(), "here", ids); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(peaksOf(t, long)) != fmt.Sprint(peaksOf(t, short)) || long.Counts != (Counts{1, MaxTokens, 1}) || short.Counts != (Counts{1, MaxTokens, 0}) {
		t.Errorf("%+v and %+v", long.Counts, short.Counts)
	}
}

func TestRefuses(t *testing.T) {
	c := opened(t, checkpoint(t, nil), ref.New())
	if err := c.Add(t.Context(), "file, line 3", []engine.TokenID{1, vocabulary}); err == nil || err.Error() != "file, line 3: token 64 at position 1 is outside the vocabulary of 64" {
		t.Errorf("a token outside: %v", err)
	}
	if err := c.Add(t.Context(), "file, line 4", tokens(1, 9)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Peaks(ctx); err == nil {
		t.Error("interrupted, it ends well")
	}
	for name, value := range map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1))} {
		c := opened(t, checkpoint(t, func(name string, values []float32) {
			if name == "model.layers.1.input_layernorm.weight" {
				values[7] = value
			}
		}), ref.New())
		for i := range 2 {
			if err := c.Add(t.Context(), fmt.Sprint("file, line ", 5+i), tokens(i, 9)); err != nil {
				t.Fatal(err)
			}
		}
		want := "file, line 5 to file, line 6: the model gives " + name + ` in channel 7 behind "model.layers.1.input_layernorm.weight"`
		if _, err := c.Peaks(t.Context()); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := Open(t.TempDir(), ref.New()); err == nil {
		t.Error("a directory without a checkpoint is opened")
	}
}

// TestRefusesNormsWithOffset: Gemma's weights of norms count from one, so dividing them would not smooth.
func TestRefusesNormsWithOffset(t *testing.T) {
	if _, err := Open("../testdata/gemma", ref.New()); err == nil || !strings.Contains(err.Error(), "norms whose weights count from 1") {
		t.Errorf("error %v", err)
	}
}

func TestLines(t *testing.T) {
	const text = `{"prompt":"a","yes":true}

{"text":"b", "prompt_token_ids": null}
{"messages":[{"role":"user"}]}
{"prompt_token_ids":[1,2]}`
	var got []string
	err := Lines(strings.NewReader(text), "file", func(place string, l Line) error {
		got = append(got, fmt.Sprint(place, ": ", l.Text, string(l.Messages), l.Tokens, l.End))
		return nil
	})
	want := `[file, line 1: a[] 26 file, line 3: b[] 66 file, line 4: [{"role":"user"}][] 97 file, line 5: [1 2] 123]`
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
	long := `{"prompt":"` + strings.Repeat("x", MaxLine) + `"}`
	for text, want := range map[string]string{
		"": "file has no prompts", "\n \r\n": "file has no prompts",
		"{\"prompt\":\"a\"}\n{": "file, line 2: it is not a JSON object with a prompt: unexpected end of JSON input",
		`[1]`:                   "file, line 1: it is not a JSON object with a prompt: it is a JSON array; it must be an object",
		"\x7fELF\x00\x01":       "file, line 1: it is not a JSON object with a prompt: invalid character",
		`null`:                  "file, line 1: it has 0 of", `{"prompt":"a","text":"b"}`: "file, line 1: it has 2 of",
		`{"prompt":""}`: "file, line 1: its prompt is empty", `{"prompt_token_ids":[]}`: "file, line 1: its prompt is empty",
		`{"prompt":["a"]}`: "file, line 1: it is not a JSON object with a prompt: prompt must be a string, not array", `{"prompt_token_ids":[-1]}`: "number -1",
		`{"prompt_token_ids":[4294967296]}`: "number 4294967296", "{\"text\":\"a\"}\n" + long: "file, line 2: it has more than 4194303 bytes",
	} {
		if err := Lines(strings.NewReader(text), "file", func(string, Line) error { return nil }); err == nil || !strings.HasPrefix(err.Error(), "file") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}
