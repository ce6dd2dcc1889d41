package architecture

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// editedConfig is testdata's configuration with some keys set to other JSON values, or removed ("").
func editedConfig(t *testing.T, name string, edits map[string]string) weights.Config {
	t.Helper()
	raw, err := os.ReadFile("../testdata/" + name + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &keys); err != nil {
		t.Fatal(err)
	}
	for k, v := range edits {
		if v == "" {
			delete(keys, k)
		} else {
			keys[k] = json.RawMessage(v)
		}
	}
	if raw, err = json.Marshal(keys); err != nil {
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
		{"llama2", "architectures", `["GPT2LMHeadModel"]`, "[GPT2LMHeadModel], want one of Cohere2ForCausalLM, CohereForCausalLM, Ernie4_5ForCausalLM, GPTNeoXForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, GemmaForCausalLM, Glm4ForCausalLM, GlmForCausalLM, GraniteForCausalLM, LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, Olmo2ForCausalLM, Olmo3ForCausalLM, Phi3ForCausalLM, Qwen2ForCausalLM, Qwen2MoeForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM"},
		{"llama2", "architectures", `[]`, "want one of Cohere2ForCausalLM, Cohere"},
		{"llama2", "hidden_act", `"relu"`, `hidden_act is "relu", want silu`},
		{"llama2", "mlp_bias", `true`, "mlp_bias is true"},
		{"llama2", "quantization_config", `{"quant_method":"hqq"}`, `quantization_config: quant_method is "hqq"; supported are FP8-dynamic`},
		{"llama2", "num_key_value_heads", `4`, "6 attention heads cannot share 4 key-value heads"},
		{"llama2", "head_dim", `15`, "head dimension 15"},
		{"llama2", "partial_rotary_factor", `0.5`, "partial_rotary_factor is 0.5"},
		{"llama2", "rope_theta", `-1`, "rope_theta is -1"},
		{"llama2", "rms_norm_eps", `-1`, "the epsilon of norms is -1"},
		{"llama2", "rope_scaling", `{"type":"dynamic","factor":2}`, `rope type "dynamic" is unknown, want one of default, linear, llama3, longrope, su, yarn`},
		{"llama2", "rope_scaling", `{"type":"linear"}`, "rope type linear: factor is 0"},
		{"llama3", "rope_scaling", `{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":1}`, "low_freq_factor 4, high_freq_factor 1"},
		{"granite", "residual_multiplier", `0`, "residual_multiplier 0"},
		{"granite", "logits_scaling", `-8`, "logits_scaling -8"},
		{"granite", "attention_multiplier", `1e-40`, "attention_multiplier 1e-40"},
		{"granite", "embedding_multiplier", `"12"`, "embedding_multiplier must be a number, not string"},
		{"gemma", "use_bidirectional_attention", `true`, "use_bidirectional_attention is true"},
		{"cohere", "use_qk_norm", `true`, "use_qk_norm is true"},
		{"cohere", "logit_scale", `0`, "logit_scale is 0"},
		{"cohere", "layer_norm_eps", `2`, "the epsilon of norms is 2"},
		{"cohere2", "sliding_window", `null`, "sliding_window is null"},
		{"cohere2", "sliding_window_pattern", `-1`, "sliding_window_pattern is -1"},
		{"gpt_neox", "hidden_act", `"silu"`, `hidden_act is "silu", which is computed of gated MLPs alone`},
		{"gpt_neox", "rotary_pct", `2`, "partial_rotary_factor is 2"},
		{"gpt_neox", "num_key_value_heads", `1`, "num_key_value_heads is 1, want 3, as"},
		{"starcoder2", "quantization_config", `{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"int","strategy":"channel"}}}}`, "families with gated MLPs alone"},
		{"starcoder2", "quantization_config", `{"quant_method":"gptq","bits":3,"group_size":128}`, "quantization_config: bits is 3, want 4 or 8"},
		{"starcoder2", "sliding_window", `-4`, "sliding_window is -4"},
		{"gemma2", "final_logit_softcapping", `0`, "final_logit_softcapping is 0, want a number from 0.01 to 1e+06, or null"},
		{"gemma2", "query_pre_attn_scalar", `0`, "query_pre_attn_scalar is 0"},
		{"gemma2", "layer_types", `["full_attention"]`, "layer_types has 1 entries for 3 layers"},
		{"gemma3", "attn_logit_softcapping", `50`, "want null"},
		{"gemma3", "sliding_window_pattern", `0`, "sliding_window_pattern is 0"},
		{"gemma3", "rope_local_base_freq", `-1`, "layers with a sliding window: rope_theta is -1"},
		{"gemma3", "use_bidirectional_attention", `true`, "use_bidirectional_attention is true"},
		{"gemma3", "architectures", `["Gemma3TextForCausalLMs"]`, "unsupported architecture [Gemma3TextForCausalLMs]"},
		{"olmo3", "sliding_window", `null`, "sliding_window is missing"},
		{"mistral", "sliding_window", `-5`, "sliding_window is -5"},
		{"phi3", "partial_rotary_factor", `1.5`, "partial_rotary_factor is 1.5, want a number up to 1"},
		{"phi3", "partial_rotary_factor", `0.01`, "leaves an even part of the 32 dimensions"},
		{"phi3", "partial_rotary_factor", `0.5`, "short_factor has 12 numbers and long_factor 12, want 8 each"},
		{"phi3", "original_max_position_embeddings", `-5`, "original_max_position_embeddings is -5"},
		{"qwen3-yarn", "rope_scaling", `{"rope_type":"yarn"}`, "factor 0, original_max_position_embeddings 512"},
		{"qwen3-yarn", "rope_scaling", `{"rope_type":"yarn","factor":4,"attention_factor":1e9}`, "what is turned is scaled by 1e+09"},
		{"smollm3", "no_rope_layers", `[1]`, "no_rope_layers has 1 entries for 3 layers"},
		{"ernie4_5", "use_bias", `true`, "use_bias is true"},
		{"qwen3moe", "num_experts", `1000000`, "num_experts is 1000000, want 1 to 1024"},
		{"qwen3moe", "num_experts", `0`, "num_experts is 0, want 1 to 1024"},
		{"qwen3moe", "num_experts", `"16"`, "num_experts must be an integer, not string"},
		{"qwen3moe", "num_experts_per_tok", `17`, "num_experts_per_tok is 17, want 1 to 16, the number of experts"},
		{"qwen3moe", "num_experts_per_tok", `0`, "num_experts_per_tok is 0, want 1 to 16"},
		{"qwen3moe", "moe_intermediate_size", ``, "invalid or missing moe_intermediate_size (0)"},
		{"qwen3moe", "moe_intermediate_size", `1000000000`, "invalid or missing moe_intermediate_size (1000000000)"},
		{"qwen3moe", "decoder_sparse_step", `0`, "decoder_sparse_step is 0"},
		{"qwen2moe", "shared_expert_intermediate_size", ``, "invalid or missing shared_expert_intermediate_size (0)"},
		{"mixtral", "num_local_experts", `-1`, "num_local_experts is -1"},
		{"mixtral", "intermediate_size", ``, "invalid or missing intermediate_size (0)"},
		{"mixtral", "num_experts_per_tok", `7`, "num_experts_per_tok is 7, want 1 to 6"},
		{"qwen3", "layer_types", `["full_attention"]`, "layer_types has 1 entries for 3 layers"},
		{"qwen3", "layer_types", `["full_attention","full_attention","linear_attention"]`, `layer_types[2] is "linear_attention"`},
	} {
		config := editedConfig(t, c.name, map[string]string{c.key: c.value})
		if _, err := New(&config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s %s: error %v, want it to hold %q", c.name, c.key, c.value, err, c.want)
		}
	}
}

// TestSpecTakesTransformersDefaults is of keys that files lack, and of Gemma's first, which said gelu.
func TestSpecTakesTransformersDefaults(t *testing.T) {
	config := editedConfig(t, "gemma", map[string]string{"hidden_act": `"gelu"`, "head_dim": "", "tie_word_embeddings": ""})
	s, err := New(&config)
	if err != nil || s.Act != kernels.GELUTanh || s.Heads.Dim != 256 || !s.Tied {
		t.Errorf("gemma: %v, heads of %d, tied %t, error %v; want gelu_tanh, 256 and true", s.Act, s.Heads.Dim, s.Tied, err)
	}
	config = editedConfig(t, "granite", map[string]string{"embedding_multiplier": "", "residual_multiplier": "", "attention_multiplier": "", "logits_scaling": ""})
	s, err = New(&config)
	if err != nil || s.EmbedScale != 1 || s.LogitScale != 1 || s.Attention(0).Scale != 1 || s.Eps != 1e-5 {
		t.Errorf("granite: factors %g, %g, %g, epsilon %g, error %v; want 1, 1, 1 and 1e-05", s.EmbedScale, s.LogitScale, s.Attention(0).Scale, s.Eps, err)
	}
}

// TestDigestIsOfValues: a configuration that is read again has the same one.
func TestDigestIsOfValues(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"gemma3", "olmo3", "qwen3", "qwen3moe", "qwen2-int8"} {
		first, second := editedConfig(t, name, nil), editedConfig(t, name, nil)
		a, err := New(&first)
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(&second)
		if err != nil || a.Digest() != b.Digest() {
			t.Errorf("%s: %s, read again %s, error %v", name, a.Digest(), b.Digest(), err)
		}
		if other := seen[a.Digest()]; other != "" {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[a.Digest()] = name
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
		s, err := New(&config)
		if err != nil || !slices.Equal(s.Windows, c.want) {
			t.Errorf("%s with %v: windows %v (%v), want %v", c.name, c.edits, s.Windows, err, c.want)
		}
	}
}

// TestSlidingRotations: layers with a sliding window turn by angles of their own, as both ways to write them have it.
func TestSlidingRotations(t *testing.T) {
	for _, c := range []struct {
		name           string
		edits          map[string]string
		usual, sliding float32 // second frequencies
	}{
		{"gemma3", nil, 1 / float32(math.Pow(1e6, 1.0/32)) / 8, 1 / float32(math.Pow(1e4, 1.0/32))},
		{"gemma3", map[string]string{"rope_scaling": "", "rope_theta": "", "rope_local_base_freq": "",
			"rope_parameters": `{"full_attention":{"rope_type":"linear","factor":8,"rope_theta":1000000},"sliding_attention":{"rope_type":"default","rope_theta":20000}}`},
			1 / float32(math.Pow(1e6, 1.0/32)) / 8, 1 / float32(math.Pow(2e4, 1.0/32))},
		{"olmo3", map[string]string{"rope_scaling": `{"rope_type":"linear","factor":4}`}, 1 / float32(math.Pow(5e5, 1.0/16)) / 4, 1 / float32(math.Pow(5e5, 1.0/16))},
	} {
		config := editedConfig(t, c.name, c.edits)
		s, err := New(&config)
		if err != nil {
			t.Fatal(err)
		}
		for i, slides := range s.slides {
			want := c.usual
			if slides {
				want = c.sliding
			}
			if got := s.Rotations[s.LayerRotation[i]].InvFreq[1]; math.Abs(float64(got/want-1)) > 2e-7 {
				t.Errorf("%s with %v: layer %d turns its second pair by %g, want %g", c.name, c.edits, i, got, want)
			}
		}
	}
}

// TestUnusedTensors: of Pythia's masks and of heads that are the embedding.
func TestUnusedTensors(t *testing.T) {
	for _, c := range []struct {
		model, tensor string
		unused        bool
	}{
		{"gpt_neox", "gpt_neox.layers.0.attention.masked_bias", true},
		{"gpt_neox", "gpt_neox.layers.0.attention.bias", true},
		{"gpt_neox", "gpt_neox.layers.0.attention.dense.bias", false},
		{"gpt_neox", "embed_out.weight", false},
		{"cohere", "lm_head.weight", true},
		{"cohere", "model.layers.0.attention.bias", false},
		{"llama2", "model.layers.0.self_attn.rotary_emb.inv_freq", true},
	} {
		config := editedConfig(t, c.model, nil)
		s, err := New(&config)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.IsUnused(c.tensor); got != c.unused {
			t.Errorf("%s: %s changes nothing: %t, want %t", c.model, c.tensor, got, c.unused)
		}
	}
}

// TestTextFamilies: Gemma 3's models of text go by another name without their LM head.
func TestTextFamilies(t *testing.T) {
	for _, name := range []string{"Gemma3TextModel", "Gemma3TextForSequenceClassification"} {
		config := editedConfig(t, "gemma3", map[string]string{"architectures": `["` + name + `"]`})
		if s, err := New(&config); err != nil || !s.VectorsOnly {
			t.Errorf("%s: vectors only %t, error %v", name, s.VectorsOnly, err)
		}
	}
}

// TestSpecDefaults checks what absent keys mean to transformers.
func TestSpecDefaults(t *testing.T) {
	config := editedConfig(t, "qwen3", map[string]string{"head_dim": "", "rms_norm_eps": "", "num_key_value_heads": "", "rope_theta": ""})
	s, err := New(&config)
	if err != nil {
		t.Fatal(err)
	}
	if s.Heads.Dim != 128 || s.Heads.KV != 5 || s.Eps != 1e-6 || s.Rotations[0].InvFreq[1] != 1/float32(math.Pow(10000, 1.0/64)) {
		t.Errorf("heads %+v, eps %g, second frequency %g", s.Heads, s.Eps, s.Rotations[0].InvFreq[1])
	}
}

// TestLlama3Frequencies pins the scaling with figures computed by transformers 5.5.4 for Llama 3.1
// (head_dim 128, theta 500,000, factor 8, 1 to 4, 8,192 tokens).
func TestLlama3Frequencies(t *testing.T) {
	config := editedConfig(t, "llama3", map[string]string{"head_dim": "128",
		"rope_scaling": `{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}`})
	s, err := New(&config)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]float32{0: 1, 1: 0.814617217, 20: 0.0165604409, 28: 0.00321144611, 30: 0.00137189368, 32: 0.000524846022, 34: 0.000178507791, 36: 7.78465546e-05, 50: 4.41153452e-06, 63: 3.06892588e-07} {
		if off := math.Abs(float64(s.Rotations[0].InvFreq[i]/want - 1)); off > 2e-7 {
			t.Errorf("frequency %d is %g, want %g", i, s.Rotations[0].InvFreq[i], want)
		}
	}
}

func TestFP8SpecRefuses(t *testing.T) {
	for ignore, want := range map[string]string{
		`[]`: "quantization_config: lm_head is float8_e4m3fn; supported is an LM head in int8, or one that ignore lists",
		`["lm_head","model.layers.1.self_attn.v_proj"]`: "model.layers.1.self_attn.q_proj and model.layers.1.self_attn.v_proj are quantised differently",
	} {
		raw, err := os.ReadFile("../testdata/llama3-fp8/config.json")
		if err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`"ignore": \[[^]]*\]`).ReplaceAllLiteral(raw, []byte(`"ignore": `+ignore))
		config, err := weights.ParseConfig(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(&config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to hold %q", ignore, err, want)
		}
	}
}

// TestPurposes: names of architectures are taken apart, and those that nobody has are refused.
func TestPurposes(t *testing.T) {
	for name, want := range map[string][2]string{
		"Qwen3ForCausalLM": {"Qwen3", "ForCausalLM"}, "LlamaModel": {"Llama", "Model"}, "Qwen2ForRewardModel": {"Qwen2", "ForRewardModel"},
		"Qwen3ForRewardModel": {}, "ForCausalLM": {}, "GPT2Model": {}, "Llama": {},
	} {
		if family, purpose := purposeOf(name); family != want[0] || purpose != want[1] {
			t.Errorf("%s is %q for %q, want %q", name, family, purpose, want)
		}
	}
}
