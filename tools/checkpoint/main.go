// Command checkpoint writes a checkpoint of random weights in the shape of a model, by default Qwen2.5-0.5B's, with the demo model's
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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// shapes are the configurations of models by the names of their shapes.
var shapes = map[string]map[string]any{
	"qwen2.5-0.5b": {
		"architectures": []string{"Qwen2ForCausalLM"}, "model_type": "qwen2",
		"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
	},
	// Qwen3-30B-A3B at half its widths, five layers of 48: 1.9 GB.
	"qwen3-moe-2gb": {
		"architectures": []string{"Qwen3MoeForCausalLM"}, "model_type": "qwen3_moe",
		"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 5, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128,
		"moe_intermediate_size": 384, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": []int{},
	},
}

func main() {
	dir := flag.String("out", "", "folder to write to")
	seed := flag.Uint64("seed", 1, "seed of the weights")
	layer := flag.Int("layer", -1, "layer that is drawn from -layer-seed instead (-1: none)")
	layerSeed := flag.Uint64("layer-seed", 2, "seed of that layer")
	count := flag.Int("layers", 0, "number of layers (0: the shape's)")
	shape := flag.String("shape", "qwen2.5-0.5b", "shape: "+strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 || shapes[*shape] == nil {
		flag.Usage()
		os.Exit(2)
	}
	if err := writeCheckpoint(*dir, shapes[*shape], *seed, *count, *layer, *layerSeed); err != nil {
		fmt.Fprintln(os.Stderr, "tools/checkpoint:", err)
		os.Exit(1)
	}
}

func writeCheckpoint(dir string, shape map[string]any, seed uint64, count, other int, otherSeed uint64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config, err := writeConfig(dir, shape, count)
	if err != nil {
		return err
	}
	if other >= config.NumHiddenLayers {
		return fmt.Errorf("invalid layer %d: want 0 to %d", other, config.NumHiddenLayers-1)
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
	source := &listed{Random: weights.Random{Seed: seed, Type: kernels.BF16}}
	if _, err := model.Open(config, source, store.New(ref.New()), model.Options{}); err != nil {
		return err
	}
	var tensors []kernels.HostTensor
	for _, t := range source.tensors {
		source := source.Random
		if strings.HasPrefix(t.name, fmt.Sprintf("model.layers.%d.", other)) {
			source.Seed = otherSeed
		}
		made, err := source.Tensor(t.name, t.shape...)
		if err != nil {
			return err
		}
		tensors = append(tensors, made)
	}
	return weights.WriteFile(filepath.Join(dir, "model.safetensors"), tensors)
}

func writeConfig(dir string, shape map[string]any, count int) (weights.Config, error) {
	all := map[string]any{
		"torch_dtype": "bfloat16", "vocab_size": 151936, "max_position_embeddings": 32768,
		"rope_theta": 1000000.0, "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": true,
	}
	maps.Copy(all, shape)
	if count > 0 {
		all["num_hidden_layers"] = count
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return weights.Config{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o644); err != nil {
		return weights.Config{}, err
	}
	return weights.ParseConfig(raw)
}

type tensor struct {
	name  string
	shape []int
}

// listed is a source that keeps in mind what a model asks for.
type listed struct {
	weights.Random
	tensors []tensor
}

func (l *listed) Find(name string, shape ...int) (kernels.DType, error) {
	if !slices.ContainsFunc(l.tensors, func(t tensor) bool { return t.name == name }) {
		l.tensors = append(l.tensors, tensor{name, slices.Clone(shape)})
	}
	return l.Random.Find(name, shape...)
}
