// Command checkpoint writes a checkpoint of random weights in Qwen2.5-0.5B's shape, with the demo model's
// tokenizer, for measurements in which only the shape counts.
//
// With -layer one layer is drawn from another seed: so two checkpoints differ as a base and a fine-tune of one
// layer do.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// The shape of Qwen2.5-0.5B.
const (
	hidden, intermediate = 896, 4864
	heads, kvHeads, dim  = 14, 2, 64
	layers, vocab        = 24, 151936
)

func main() {
	dir := flag.String("out", "", "folder to write to")
	seed := flag.Uint64("seed", 1, "seed of the weights")
	layer := flag.Int("layer", -1, "layer that is drawn from -layer-seed instead (-1: none)")
	layerSeed := flag.Uint64("layer-seed", 2, "seed of that layer")
	count := flag.Int("layers", layers, "number of layers")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 || *layer >= *count {
		flag.Usage()
		os.Exit(2)
	}
	if err := writeCheckpoint(*dir, *seed, *count, *layer, *layerSeed); err != nil {
		fmt.Fprintln(os.Stderr, "tools/checkpoint:", err)
		os.Exit(1)
	}
}

func writeCheckpoint(dir string, seed uint64, count, other int, otherSeed uint64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := writeConfig(dir, count); err != nil {
		return err
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "generation_config.json"} {
		data, err := fs.ReadFile(demo.FS(), name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	var tensors []kernels.HostTensor
	for _, s := range listTensors(count) {
		source := weights.Random{Seed: seed, Type: kernels.BF16}
		if strings.HasPrefix(s.name, fmt.Sprintf("model.layers.%d.", other)) {
			source.Seed = otherSeed
		}
		t, err := source.Tensor(s.name, s.shape...)
		if err != nil {
			return err
		}
		tensors = append(tensors, t)
	}
	return weights.WriteFile(filepath.Join(dir, "model.safetensors"), tensors)
}

func writeConfig(dir string, count int) error {
	config, err := json.MarshalIndent(map[string]any{
		"architectures": []string{"Qwen2ForCausalLM"}, "model_type": "qwen2", "torch_dtype": "bfloat16",
		"vocab_size": vocab, "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": count,
		"num_attention_heads": heads, "num_key_value_heads": kvHeads, "max_position_embeddings": 32768,
		"rope_theta": 1000000.0, "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": true,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
}

type tensor struct {
	name  string
	shape []int
}

// listTensors lists the tensors of a Qwen2 checkpoint with tied embeddings.
func listTensors(count int) []tensor {
	all := []tensor{{"model.embed_tokens.weight", []int{vocab, hidden}}, {"model.norm.weight", []int{hidden}}}
	for i := range count {
		name := fmt.Sprintf("model.layers.%d.", i)
		for _, p := range []struct {
			name    string
			out, in int
		}{
			{"self_attn.q_proj", heads * dim, hidden}, {"self_attn.k_proj", kvHeads * dim, hidden}, {"self_attn.v_proj", kvHeads * dim, hidden},
			{"self_attn.o_proj", hidden, heads * dim}, {"mlp.gate_proj", intermediate, hidden}, {"mlp.up_proj", intermediate, hidden},
			{"mlp.down_proj", hidden, intermediate},
		} {
			all = append(all, tensor{name + p.name + ".weight", []int{p.out, p.in}})
			if strings.HasSuffix(p.name, "q_proj") || strings.HasSuffix(p.name, "k_proj") || strings.HasSuffix(p.name, "v_proj") {
				all = append(all, tensor{name + p.name + ".bias", []int{p.out}})
			}
		}
		all = append(all, tensor{name + "input_layernorm.weight", []int{hidden}}, tensor{name + "post_attention_layernorm.weight", []int{hidden}})
	}
	return all
}
