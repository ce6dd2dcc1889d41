package weights

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/mapped"
)

// usualKeys are those of config.json that architectures have in common, by those of the metadata after the architecture's name.
var usualKeys = map[string]string{
	"context_length": "max_position_embeddings", "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size", "block_count": "num_hidden_layers",
	"attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads", "attention.layer_norm_rms_epsilon": "rms_norm_eps",
	"attention.key_length": "head_dim", "rope.freq_base": "rope_theta",
}

// refusedKeys stand for what none of these architectures computes here, after the architecture's name.
var refusedKeys = []string{"expert_count", "attn_logit_softcapping", "final_logit_softcapping", "pooling_type"}

// ggufConfig makes a config.json of a GGUF model: of the metadata of its first file, and of the tensors of all.
type ggufConfig struct {
	family  ggufFamily
	keys    map[string]any // of config.json
	rope    map[string]any // rope_scaling
	factors map[string][]float32
}

// eachShard calls read with each file of a GGUF model, while it is mapped; path is the first one's.
func eachShard(path string, read func(first bool, file *mapped.File, f *gguf.File) error) error {
	list := []string{path}
	for at := 0; at < len(list); at++ {
		err := mapped.Read(list[at], func(file *mapped.File) error {
			f, err := gguf.Parse(file.Data())
			if err != nil {
				return err
			}
			if at == 0 {
				var others []string
				others, err = f.OtherShards(path)
				list = append(list, others...)
			} else if n, of, failed := f.Shard(); failed != nil || n != at || of != len(list) {
				err = errors.Join(failed, fmt.Errorf("is file %d of %d by split.no and split.count, want %d of %d", n+1, of, at+1, len(list)))
			}
			if err != nil {
				return err
			}
			return read(at == 0, file, f)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", list[at], err)
		}
	}
	return nil
}

// readGGUFConfig is the config.json that a checkpoint of a GGUF model would have.
func readGGUFConfig(path string) ([]byte, error) {
	c := ggufConfig{keys: map[string]any{}, rope: map[string]any{}, factors: map[string][]float32{}}
	tensors := map[string][]int{}
	err := eachShard(path, func(first bool, file *mapped.File, f *gguf.File) error {
		for _, t := range f.Tensors {
			tensors[t.Name] = t.Shape
			if err := c.readFactors(t, file.Data()[t.Begin:t.End]); err != nil {
				return err
			}
		}
		if first {
			return c.readMetadata(f)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.settleTensors(tensors); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return json.Marshal(c.keys)
}

// readMetadata reads what the tensors do not say.
func (c *ggufConfig) readMetadata(f *gguf.File) (err error) {
	name, family, err := ggufFamilyOf(f)
	if err != nil {
		return err
	}
	c.family = family
	c.keys["architectures"], c.keys["model_type"] = []string{family.class}, name
	for _, key := range refusedKeys {
		if _, read := family.keys[key]; f.Has(name+"."+key) && !read {
			return fmt.Errorf("key %q: unsupported in a model of %s", name+"."+key, name)
		}
	}
	for _, list := range []map[string]string{usualKeys, family.keys} {
		for key, as := range list {
			if err := c.readNumber(f, name+"."+key, as); err != nil {
				return err
			}
		}
	}
	if err := c.readRope(f, name); err != nil {
		return err
	}
	return c.readEnds(f)
}

// readNumber takes a number over, if it is there.
func (c *ggufConfig) readNumber(f *gguf.File, key, as string) error {
	if !f.Has(key) {
		return nil
	}
	x, err := f.Float(key)
	if err != nil {
		return err
	}
	c.keys[as] = x
	return nil
}

// number is a key of config.json that was read; 0: there is none.
func (c *ggufConfig) number(key string) float64 {
	x, _ := c.keys[key].(float64)
	return x
}

// readRope reads how positions are scaled, and which part of a head is turned.
func (c *ggufConfig) readRope(f *gguf.File, name string) error {
	prefix := name + ".rope."
	dim := c.number("head_dim")
	if heads := c.number("num_attention_heads"); dim == 0 && heads > 0 {
		dim = math.Floor(c.number("hidden_size") / heads)
	}
	if f.Has(prefix + "dimension_count") {
		turned, err := f.Int(prefix + "dimension_count")
		if err != nil {
			return err
		}
		switch {
		case name == "phi3" && dim > 0:
			c.keys["partial_rotary_factor"] = float64(turned) / dim
		case c.number("head_dim") == 0:
			dim = float64(turned)
		case float64(turned) != dim:
			return fmt.Errorf("key %q is %d, want %g, the length of a head", prefix+"dimension_count", turned, dim)
		}
	}
	c.keys["head_dim"] = dim
	if largest := c.family.largest; largest > 0 {
		c.keys["query_pre_attn_scalar"] = dim
		if c.number("num_hidden_layers") == float64(largest) {
			c.keys["query_pre_attn_scalar"] = c.number("hidden_size") / max(1, c.number("num_attention_heads"))
		}
	}
	kind := "none"
	if f.Has(prefix + "scaling.type") {
		var err error
		if kind, err = f.String(prefix + "scaling.type"); err != nil {
			return err
		}
	}
	for key, as := range map[string]string{"scaling.factor": "factor", "scaling.original_context_length": "original_max_position_embeddings", "scaling.attn_factor": "attention_factor"} {
		if f.Has(prefix + key) {
			x, err := f.Float(prefix + key)
			if err != nil {
				return err
			}
			c.rope[as] = x
		}
	}
	if original, ok := c.rope["original_max_position_embeddings"]; ok {
		c.keys["original_max_position_embeddings"] = original
	}
	switch kind {
	case "none":
	case "linear", "yarn", "longrope":
		c.rope["rope_type"] = kind
	default:
		return fmt.Errorf("key %q is %.60q, want none, linear, yarn or longrope", prefix+"scaling.type", kind)
	}
	return nil
}

// readEnds reads the tokens that end an answer.
func (c *ggufConfig) readEnds(f *gguf.File) error {
	for _, key := range []string{"bos", "eos", "padding"} {
		if !f.Has("tokenizer.ggml." + key + "_token_id") {
			continue
		}
		id, err := f.Int("tokenizer.ggml." + key + "_token_id")
		if err != nil {
			return err
		}
		if key == "padding" {
			key = "pad"
		}
		c.keys[key+"_token_id"] = id
	}
	return nil
}

// readFactors reads a tensor of what frequencies are divided by.
func (c *ggufConfig) readFactors(t gguf.Tensor, data []byte) error {
	if !slices.Contains(ggufConstants, t.Name) {
		return nil
	}
	if t.Type != gguf.F32 || len(t.Shape) != 1 || t.Shape[0] > maxFactors {
		return fmt.Errorf("tensor %q is %s %v, want F32 and one dimension of at most %d", t.Name, t.Type, t.Shape, maxFactors)
	}
	for i := range t.Shape[0] {
		x := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		if !(x > 0) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("tensor %q: element %d is %v, want a positive number", t.Name, i, x)
		}
		c.factors[t.Name] = append(c.factors[t.Name], x)
	}
	return nil
}

// maxFactors is half the most dimensions of a head.
const maxFactors = 1 << 11

// settleTensors says what the tensors tell: the vocabulary, which tensors there are, and factors of frequencies.
func (c *ggufConfig) settleTensors(tensors map[string][]int) error {
	embedding, ok := tensors["token_embd.weight"]
	if !ok {
		return errors.New(`missing tensor "token_embd.weight"`)
	}
	c.keys["vocab_size"] = embedding[0]
	_, untied := tensors["output.weight"]
	c.keys["tie_word_embeddings"] = !untied
	if _, ok := tensors["blk.0.attn_q.bias"]; ok {
		c.keys["attention_bias"] = true
	}
	short, long := c.factors[ropeShort], c.factors[ropeLong]
	if all := c.factors[ropeFreqs]; all != nil { // the factors of Llama 3, which do not depend on a sequence's length
		short, long = all, all
		c.rope = map[string]any{"attention_factor": 1.0, "original_max_position_embeddings": c.number("max_position_embeddings")}
	}
	if short != nil || long != nil {
		c.rope["rope_type"], c.rope["short_factor"], c.rope["long_factor"] = "longrope", short, long
	}
	if c.rope["rope_type"] != nil {
		c.keys["rope_scaling"] = c.rope
	}
	return nil
}
