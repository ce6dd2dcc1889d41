package weights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
)

// ggufFamily is how GGUF files of an architecture differ from checkpoints of the same models.
type ggufFamily struct {
	class  string            // in config.json's architectures
	paired bool              // rows of queries and keys that are turned together lie beside each other, and half a head apart in a checkpoint
	less   float32           // what the weights of norms are more than a checkpoint's
	names  map[string]string // of tensors of a layer that are called otherwise than in ggufLayer
	keys   map[string]string // of config.json, by those of the metadata after the architecture's name

	// largest is how many layers the family's largest model has, whose scores are scaled by the hidden size a head, as others' are by a head's
	// length: files do not say it. 0: scores are scaled as usual.
	largest int
}

// bothNorms are the norms of what sub-layers are given and of what they give.
var bothNorms = map[string]string{"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}

// ggufFamilies are the architectures that are read, by general.architecture.
var ggufFamilies = map[string]ggufFamily{
	"ernie4_5": {class: "Ernie4_5ForCausalLM"},
	"gemma":    {class: "GemmaForCausalLM", less: 1},
	"gemma2": {class: "Gemma2ForCausalLM", less: 1, names: bothNorms, largest: 46, keys: map[string]string{
		"attention.sliding_window": "sliding_window", "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
	}},
	"gemma3": {class: "Gemma3ForCausalLM", less: 1, names: bothNorms, largest: 62, keys: map[string]string{
		"attention.sliding_window": "sliding_window", "attention.sliding_window_pattern": "sliding_window_pattern", "rope.freq_base_swa": "rope_local_base_freq",
	}},
	"granite": {class: "GraniteForCausalLM", paired: true, keys: map[string]string{
		"embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier", "attention.scale": "attention_multiplier", "logit_scale": "logits_scaling",
	}},
	"llama":   {class: "LlamaForCausalLM", paired: true},
	"phi3":    {class: "Phi3ForCausalLM", names: map[string]string{"ffn_up": "mlp.gate_up_proj"}, keys: map[string]string{"attention.sliding_window": "sliding_window"}},
	"qwen2":   {class: "Qwen2ForCausalLM"},
	"qwen3":   {class: "Qwen3ForCausalLM"},
	"smollm3": {class: "SmolLM3ForCausalLM", paired: true},
}

// ggufFamilyOf is the architecture that a file is of.
func ggufFamilyOf(f *gguf.File) (name string, family ggufFamily, err error) {
	if name, err = f.String("general.architecture"); err != nil {
		return "", ggufFamily{}, err
	}
	family, ok := ggufFamilies[name]
	if !ok {
		return "", family, fmt.Errorf("unsupported general.architecture %.60q, want one of %s", name, strings.Join(slices.Sorted(maps.Keys(ggufFamilies)), ", "))
	}
	return name, family, nil
}

// Names of tensors of GGUF files, and a checkpoint's. Those of a layer follow "blk.N." and "model.layers.N.", and end in ".weight" or ".bias".
var (
	ggufTrunk = map[string]string{"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}
	ggufLayer = map[string]string{
		"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
		"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj",
		"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
		"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
	}
	ggufConstants = []string{ropeFreqs, ropeShort, ropeLong} // what config.json says of a checkpoint
)

// Tensors of what the frequencies of rotations are divided by.
const (
	ropeFreqs = "rope_freqs.weight"
	ropeShort = "rope_factors_short.weight"
	ropeLong  = "rope_factors_long.weight"
)

// tensorName is what a checkpoint calls a tensor, or empty of one that it has none of.
func (g *ggufFamily) tensorName(name string) (string, error) {
	if known, ok := ggufTrunk[name]; ok {
		return known, nil
	}
	if slices.Contains(ggufConstants, name) || strings.HasSuffix(name, ".attn_rot_embd.weight") {
		return "", nil
	}
	rest, inLayer := strings.CutPrefix(name, "blk.")
	layer, rest, _ := strings.Cut(rest, ".")
	module, ending, _ := strings.Cut(rest, ".")
	known, ok := g.names[module]
	if !ok {
		known, ok = ggufLayer[module]
	}
	if !inLayer || !ok || ending != "weight" && ending != "bias" {
		return "", fmt.Errorf("tensor %q has no place in a model of %s", name, g.class)
	}
	return "model.layers." + layer + "." + known + "." + ending, nil
}

// codedOf is what is to be done to the elements of a tensor, nil of one that is as a checkpoint has it.
func (g *ggufFamily) codedOf(t *gguf.Tensor, name string, heads, keyHeads int) (*coded, error) {
	c := coded{typ: t.Type}
	if g.paired && strings.Contains(name, ".self_attn.q_proj.") {
		c.heads = heads
	}
	if g.paired && strings.Contains(name, ".self_attn.k_proj.") {
		c.heads = keyHeads
	}
	if strings.HasSuffix(name, "norm.weight") {
		c.less = g.less
	}
	if c.heads > 0 && t.Shape[0]%(2*c.heads) != 0 {
		return nil, fmt.Errorf("tensor %q has %d rows, which %d heads cannot have in pairs", t.Name, t.Shape[0], c.heads)
	}
	if _, plain := gguf.Plain[t.Type]; plain && c.heads == 0 && c.less == 0 {
		return nil, nil
	}
	return &c, nil
}
