package model

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// editedConfig is testdata's configuration with some keys set to other JSON values, or removed ("").
func editedConfig(t *testing.T, name string, edits map[string]string) weights.Config {
	t.Helper()
	keys := map[string]json.RawMessage{}
	readJSON(t, "testdata/"+name+"/config.json", &keys)
	for k, v := range edits {
		if v == "" {
			delete(keys, k)
		} else {
			keys[k] = json.RawMessage(v)
		}
	}
	raw, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	c, err := weights.ParseConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSpecRefuses(t *testing.T) {
	for _, c := range []struct{ name, key, value, want string }{
		{"llama2", "architectures", `["GPT2LMHeadModel"]`, "[GPT2LMHeadModel], want one of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM"},
		{"llama2", "architectures", `[]`, "want one of Llama"},
		{"llama2", "hidden_act", `"gelu"`, `hidden_act is "gelu", want silu`},
		{"llama2", "mlp_bias", `true`, "mlp_bias is true"},
		{"llama2", "quantization_config", `{"quant_method":"gptq"}`, `quantization_config: quant_method is "gptq"; supported are FP8-dynamic`},
		{"llama2", "num_key_value_heads", `4`, "6 attention heads cannot share 4 key-value heads"},
		{"llama2", "head_dim", `15`, "head dimension 15"},
		{"llama2", "partial_rotary_factor", `0.5`, "partial_rotary_factor is 0.5"},
		{"llama2", "rope_theta", `-1`, "rope_theta is -1"},
		{"llama2", "rms_norm_eps", `-1`, "rms_norm_eps is -1"},
		{"llama2", "rope_scaling", `{"type":"yarn","factor":2}`, `rope type "yarn" is unknown, want one of default, linear, llama3`},
		{"llama2", "rope_scaling", `{"type":"linear"}`, "rope type linear: factor is 0"},
		{"llama3", "rope_scaling", `{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":1}`, "low_freq_factor 4, high_freq_factor 1"},
		{"mistral", "sliding_window", `-5`, "sliding_window is -5"},
		{"qwen3", "layer_types", `["full_attention"]`, "layer_types has 1 entries for 3 layers"},
		{"qwen3", "layer_types", `["full_attention","full_attention","linear_attention"]`, `layer_types[2] is "linear_attention"`},
	} {
		config := editedConfig(t, c.name, map[string]string{c.key: c.value})
		if _, err := newSpec(&config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s %s: error %v, want it to hold %q", c.name, c.key, c.value, err, c.want)
		}
	}
}

func TestSpecWindows(t *testing.T) {
	for _, c := range []struct {
		name  string
		edits map[string]string
		want  []int
	}{
		{"mistral", nil, []int{48, 48, 48}},
		{"mistral", map[string]string{"sliding_window": "null"}, []int{0, 0, 0}},
		{"mistral", map[string]string{"sliding_window": ""}, []int{4096, 4096, 4096}},
		{"qwen2", nil, []int{0, 0, 0}},
		{"qwen2-window", nil, []int{0, 24, 24}},
		{"qwen2-window", map[string]string{"layer_types": `["sliding_attention","full_attention","full_attention"]`}, []int{24, 0, 0}},
		{"qwen2-window", map[string]string{"max_window_layers": ""}, []int{0, 0, 0}},
		{"llama2", map[string]string{"sliding_window": "16", "use_sliding_window": "true"}, []int{0, 0, 0}},
	} {
		config := editedConfig(t, c.name, c.edits)
		s, err := newSpec(&config)
		if err != nil || !slices.Equal(s.windows, c.want) {
			t.Errorf("%s with %v: windows %v (%v), want %v", c.name, c.edits, s.windows, err, c.want)
		}
	}
}

// TestSpecDefaults checks what absent keys mean to transformers.
func TestSpecDefaults(t *testing.T) {
	config := editedConfig(t, "qwen3", map[string]string{"head_dim": "", "rms_norm_eps": "", "num_key_value_heads": "", "rope_theta": ""})
	s, err := newSpec(&config)
	if err != nil {
		t.Fatal(err)
	}
	if s.heads.Dim != 128 || s.heads.KV != 5 || s.eps != 1e-6 || s.invFreq[1] != 1/float32(math.Pow(10000, 1.0/64)) {
		t.Errorf("heads %+v, eps %g, second frequency %g", s.heads, s.eps, s.invFreq[1])
	}
}

// TestLlama3Frequencies pins the scaling with figures computed by transformers 5.5.4 for Llama 3.1
// (head_dim 128, theta 500,000, factor 8, 1 to 4, 8,192 tokens).
func TestLlama3Frequencies(t *testing.T) {
	config := editedConfig(t, "llama3", map[string]string{"head_dim": "128",
		"rope_scaling": `{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}`})
	s, err := newSpec(&config)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]float32{0: 1, 1: 0.814617217, 20: 0.0165604409, 28: 0.00321144611, 30: 0.00137189368, 32: 0.000524846022, 34: 0.000178507791, 36: 7.78465546e-05, 50: 4.41153452e-06, 63: 3.06892588e-07} {
		if off := math.Abs(float64(s.invFreq[i]/want - 1)); off > 2e-7 {
			t.Errorf("frequency %d is %g, want %g", i, s.invFreq[i], want)
		}
	}
}

func TestOptionsRefuse(t *testing.T) {
	config, source := goldenSource(t, "llama2")
	for want, opts := range map[string]Options{
		"maximum length 1025 is outside 1..1024": {MaxLen: 1025},
		"maximum length -1 is outside":           {MaxLen: -1},
		"block size 24 is not":                   {BlockTokens: 24},
		"none may be negative":                   {ChunkRows: -1},
	} {
		if _, err := New(config, source, ref.New(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want it to hold %q", opts, err, want)
		}
	}
}

// FuzzSpec checks that no configuration makes the graph's own sizes impossible.
func FuzzSpec(f *testing.F) {
	for _, name := range slices.Concat(fp8Models, int8Models, goldenModels) {
		raw, err := os.ReadFile("testdata/" + name + "/config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := weights.ParseConfig(raw)
		if err != nil {
			return
		}
		if s, err := newSpec(&config); err == nil {
			if s.heads.QKVCols() <= 0 || len(s.windows) != s.layers || len(s.invFreq) != s.heads.Dim/2 {
				t.Fatalf("accepted %+v", s)
			}
			if plan, err := Predict(config, ref.New(), Options{MaxLen: 1}); err != nil || plan.Weights <= 0 {
				t.Fatalf("%+v: %+v, %v", s, plan, err)
			}
		}
	})
}
