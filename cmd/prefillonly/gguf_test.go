package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/engine/weights/gguf/gguftest"
)

// ggufNames are what the tensors of a layer are called in a GGUF file.
var ggufNames = strings.NewReplacer(
	"model.embed_tokens", "token_embd", "model.norm", "output_norm", "model.layers.", "blk.", "input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
	"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
	"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down")

// inPairs puts rows of heads that are turned together, which lie half a head apart, beside each other.
func inPairs(data []byte, rows, heads int) []byte {
	width, dim := len(data)/rows, rows/heads
	out := make([]byte, 0, len(data))
	for i := range rows {
		at := i/dim*dim + i%2*dim/2 + i%dim/2
		out = append(out, data[at*width:(at+1)*width]...)
	}
	return out
}

// demoGGUF is the demo model in two GGUF files, of which it returns the first.
func demoGGUF(t *testing.T, dir string) string {
	t.Helper()
	c, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	config, err := weights.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []gguftest.Tensor
	for _, e := range c.Entries() {
		x, err := c.Tensor(e.Name, e.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(x.Data)
		switch {
		case strings.Contains(e.Name, "q_proj"):
			data = inPairs(data, x.Rows, config.NumAttentionHeads)
		case strings.Contains(e.Name, "k_proj"):
			data = inPairs(data, x.Rows, *config.NumKeyValueHeads)
		}
		tensors = append(tensors, gguftest.Tensor{Name: ggufNames.Replace(e.Name), Type: uint32(gguf.BF16), Shape: e.Shape, Data: data})
	}
	first, second := filepath.Join(t.TempDir(), "demo-00001-of-00002.gguf"), ""
	second = strings.Replace(first, "00001", "00002", 1)
	split := func(i uint32) []gguftest.Key {
		return []gguftest.Key{{Name: "split.no", Value: i}, {Name: "split.count", Value: uint32(2)}}
	}
	gguftest.Write(t, first, slices.Concat(split(0), demoKeys(t, dir, &config)), tensors[:9])
	gguftest.Write(t, second, split(1), tensors[9:])
	return first
}

// demoKeys are the metadata of the demo model.
func demoKeys(t *testing.T, dir string, c *weights.Config) []gguftest.Key {
	t.Helper()
	var file struct {
		Added []struct {
			ID int32
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int32
			Merges [][2]string
		}
	}
	var beside struct {
		Template string `json:"chat_template"`
	}
	for name, into := range map[string]any{"tokenizer.json": &file, "tokenizer_config.json": &beside} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tokens, types := make([]string, len(file.Model.Vocab)), slices.Repeat([]int32{1}, len(file.Model.Vocab))
	for text, id := range file.Model.Vocab {
		tokens[id] = text
	}
	for _, a := range file.Added {
		types[a.ID] = 3
	}
	var merges []string
	for _, m := range file.Model.Merges {
		merges = append(merges, m[0]+" "+m[1])
	}
	number := func(name string, n int) gguftest.Key {
		return gguftest.Key{Name: "llama." + name, Value: uint32(n)}
	}
	return []gguftest.Key{
		{Name: "general.architecture", Value: "llama"},
		number("context_length", c.MaxPositionEmbeddings), number("embedding_length", c.HiddenSize), number("feed_forward_length", c.IntermediateSize), number("block_count", c.NumHiddenLayers),
		number("attention.head_count", c.NumAttentionHeads), number("attention.head_count_kv", *c.NumKeyValueHeads), number("rope.dimension_count", *c.HeadDim),
		{Name: "llama.attention.layer_norm_rms_epsilon", Value: float32(*c.RMSNormEps)}, {Name: "llama.rope.freq_base", Value: float32(*c.RopeParameters.Theta)},
		{Name: "tokenizer.ggml.model", Value: "gpt2"}, {Name: "tokenizer.ggml.pre", Value: "dbrx"}, {Name: "tokenizer.ggml.tokens", Value: tokens}, {Name: "tokenizer.ggml.token_type", Value: types},
		{Name: "tokenizer.ggml.merges", Value: merges}, {Name: "tokenizer.ggml.bos_token_id", Value: uint32(0)}, {Name: "tokenizer.ggml.eos_token_id", Value: uint32(1)}, {Name: "tokenizer.ggml.add_bos_token", Value: true},
		{Name: "tokenizer.chat_template", Value: beside.Template},
	}
}

// TestGGUFAsCheckpoint: a model in GGUF files gives the answers of its checkpoint, bit for bit, for prompts, chats and tokens.
func TestGGUFAsCheckpoint(t *testing.T) {
	dir := demoDir(t)
	p := serve(t, nil, "checkpoint="+dir, "gguf="+demoGGUF(t, dir))
	varying := regexp.MustCompile(`"(id|created|model)":("[^"]*"|\d+),?`)
	for path, body := range map[string]string{
		"/v1/completions":      `"prompt":"The user has read about chess.\nWill the user like it?","max_tokens":4,"temperature":0,"echo":true,"logprobs":5`,
		"/v1/chat/completions": `"messages":[{"role":"user","content":"Answer Yes or No: is 12 more than 3?"}],"max_tokens":4,"temperature":0,"logprobs":true,"top_logprobs":5`,
		"/v1/embeddings":       `"input":"a text"`,
		"/tokenize":            `"prompt":" Ünïcödé 123456 \n\n don't<|end|>x"`,
	} {
		var answers []string
		for _, model := range []string{"checkpoint", "gguf"} {
			status, answer := p.post(path, "key", fmt.Sprintf(`{"model":%q,%s}`, model, body))
			if status != 200 {
				t.Fatalf("%s of %s: %d %s", path, model, status, answer)
			}
			answers = append(answers, varying.ReplaceAllString(answer, ""))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s: the checkpoint says\n%s\nand the GGUF files\n%s", path, answers[0], answers[1])
		}
	}
}
