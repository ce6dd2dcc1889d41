package weights

import (
	"strings"
	"testing"
)

const goodConfig = `{"architectures":["LlamaForCausalLM"],"vocab_size":10,"hidden_size":8,"intermediate_size":16,
"num_hidden_layers":2,"num_attention_heads":2,"max_position_embeddings":64`

func TestReadConfig(t *testing.T) {
	dir := t.TempDir()
	writeText(t, dir, "config.json", goodConfig+`,"sliding_window":null,"head_dim":null,"torch_dtype":"bfloat16"}`)
	c, err := ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !c.SlidingWindow.Set || !c.SlidingWindow.Null || c.HeadDim != nil || c.NumKeyValueHeads != nil {
		t.Errorf("null and absent keys are mixed up: %+v", c)
	}
}

func TestReadConfigRefuses(t *testing.T) {
	for want, text := range map[string]string{
		"no config.json":                            "",
		"invalid or missing vocab_size (0)":         `{}`,
		"invalid or missing head_dim (5000)":        goodConfig + `,"head_dim":5000}`,
		"num_key_value_heads (0)":                   goodConfig + `,"num_key_value_heads":0}`,
		"invalid or missing hidden_size (-1)":       `{"vocab_size":10,"hidden_size":-1}`,
		"config.json: unexpected end":               `{`,
		"vocab_size must be an integer, not string": `{"vocab_size":"x"}`,
	} {
		dir := t.TempDir()
		if text != "" {
			writeText(t, dir, "config.json", text)
		}
		c, err := ReadConfig(dir)
		if err == nil {
			err = c.CheckSizes()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to hold %q", text, err, want)
		}
	}
}

// FuzzParseIndex checks that accepted shards are plain file names.
func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Add([]byte(`{"weight_map":{"a":""}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		shards, err := parseIndex(raw)
		for tensor, shard := range shards {
			if err == nil && (shard == "" || shard == "." || shard == ".." || strings.ContainsAny(shard, "/\x00")) {
				t.Fatalf("tensor %q may lie in %q", tensor, shard)
			}
		}
	})
}
