package encoder

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

const tiny = `"vocab_size":10,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":3,"num_attention_heads":2,"max_position_embeddings":20`

// TestUnknownEncoderSettingsAreRefused: what the graph would compute wrongly is refused by the key's name.
func TestUnknownEncoderSettingsAreRefused(t *testing.T) {
	for _, c := range []struct{ architecture, keys, want string }{
		{"BertModel", `"position_embedding_type":"relative_key"`, "position_embedding_type"},
		{"BertModel", `"hidden_act":"relu"`, "hidden_act"},
		{"BertModel", `"is_decoder":true`, "is_decoder"},
		{"BertModel", `"num_attention_heads":3`, "attention heads"},
		{"BertModel", `"num_attention_heads":8`, "head dimension"},
		{"BertModel", `"type_vocab_size":0`, "type_vocab_size"},
		{"BertModel", `"layer_norm_eps":-1`, "layer_norm_eps"},
		{"ModernBertModel", `"norm_eps":2`, "norm_eps"},
		{"BertModel", `"hidden_size":32768`, "hidden_size"},
		{"BertModel", `"num_hidden_layers":0`, "num_hidden_layers"},
		{"BertForSequenceClassification", `"id2label":{},"num_labels":0`, "num_labels"},
		{"RobertaModel", `"pad_token_id":19`, "pad_token_id"},
		{"ModernBertModel", `"mlp_bias":true`, "mlp_bias"},
		{"ModernBertModel", `"layer_types":["full_attention"]`, "layer_types"},
		{"ModernBertModel", `"layer_types":["full_attention","x","full_attention"]`, "layer_types[1]"},
		{"ModernBertModel", `"global_attn_every_n_layers":0`, "global_attn_every_n_layers"},
		{"ModernBertModel", `"global_rope_theta":-1`, "theta"},
		{"ModernBertModel", `"rope_parameters":{"full_attention":{"rope_type":"yarn"}}`, "yarn"},
		{"ModernBertForSequenceClassification", `"classifier_activation":"relu"`, "classifier_activation"},
		{"T5Model", ``, "T5Model"},
		{"Gemma3TextModel", `"head_dim":4`, "Gemma3TextModel"}, // which is a decoder then
		{"Gemma3TextModel", `"use_bidirectional_attention":true,"attention_bias":true`, "attention_bias"},
		{"Gemma3TextModel", `"use_bidirectional_attention":true,"head_dim":514`, "head dimension"},
		{"Gemma3TextModel", `"use_bidirectional_attention":true,"num_key_value_heads":3`, "key-value heads"},
		{"Gemma3TextModel", `"use_bidirectional_attention":true,"sliding_window":-1`, "sliding_window"},
		{"Gemma3TextModel", `"use_bidirectional_attention":true,"query_pre_attn_scalar":0`, "query_pre_attn_scalar"},
		{"Gemma3TextModel", `"use_bidirectional_attention":true,"is_decoder":true`, "is_decoder"},
	} {
		if err := CheckConfig(parse(t, c.architecture, c.keys)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v, want an error with %q", c.architecture, c.keys, err, c.want)
		}
	}
	for _, name := range Architectures() {
		if err := CheckConfig(parse(t, name, "")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func parse(t *testing.T, architecture, keys string) weights.Config {
	t.Helper()
	if keys != "" {
		keys = "," + keys
	}
	c, err := weights.ParseConfig(fmt.Appendf(nil, `{"architectures":[%q],%s%s}`, architecture, tiny, keys))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLayers: both ways to say which layers look far, and the angles of each.
func TestLayers(t *testing.T) {
	for _, keys := range []string{
		`"global_attn_every_n_layers":2,"local_attention":8,"global_rope_theta":100,"local_rope_theta":10`,
		`"layer_types":["full_attention","sliding_attention","full_attention"],"local_attention":8,
		 "rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":100},"sliding_attention":{"rope_theta":10}}`,
	} {
		c := parse(t, "ModernBertModel", keys)
		s, err := newSpec(&c)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(s.windows, s.rope) != "[0 5 0] [0 1 0]" || fmt.Sprint(s.freqs) != fmt.Sprint([][]float32{ropeFrequencies(100, 4), ropeFrequencies(10, 4)}) {
			t.Errorf("%s: windows %v, angles %v of %v", keys, s.windows, s.rope, s.freqs)
		}
	}
}

// named is a source of tensors of some names alone.
type named struct {
	weights.Random
	has     func(name string) bool
	untaken []string
}

func (n *named) Find(name string, shape ...int) (kernels.DType, error) {
	if !n.has(name) {
		return 0, fmt.Errorf("there is no %s", name)
	}
	return n.Random.Find(name, shape...)
}

func (n *named) Untaken() []string { return n.untaken }

// TestNames: checkpoints with and without the prefix of their architecture, with old names of norms, and with tensors that
// have no place.
func TestNames(t *testing.T) {
	open := func(architecture string, source *named) error {
		m, err := Open(parse(t, architecture, ""), source, store.New(ref.New()), Options{})
		if err == nil {
			for i := range m.Chunks() {
				if err := m.LoadChunk(i); err != nil {
					t.Fatal(err)
				}
			}
			m.Close()
		}
		return err
	}
	prefixed := func(prefix string) func(string) bool {
		return func(name string) bool {
			return strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "classifier")
		}
	}
	bare := func(name string) bool {
		return !strings.HasPrefix(name, "bert.") && !strings.HasPrefix(name, "roberta.")
	}
	old := func(name string) bool {
		return bare(name) && !strings.Contains(name, "Norm.weight") && !strings.Contains(name, "Norm.bias")
	}
	for _, c := range []struct {
		architecture string
		source       named
		want         string
	}{
		{"BertModel", named{has: prefixed("bert.")}, ""},
		{"BertForMaskedLM", named{has: bare}, ""},
		{"BertModel", named{has: old}, ""},
		{"BertForSequenceClassification", named{has: prefixed("bert.")}, ""},
		{"RobertaModel", named{has: prefixed("roberta.")}, ""},
		{"BertModel", named{has: bare, untaken: []string{"pooler.dense.weight", "cls.predictions.bias"}}, ""},
		{"BertModel", named{has: bare, untaken: []string{"adapter.weight"}}, "adapter.weight"},
		{"BertModel", named{has: func(name string) bool { return bare(name) && !strings.Contains(name, "layer.2.output.dense.bias") }}, "layer.2.output.dense.bias"},
	} {
		if err := open(c.architecture, &c.source); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.architecture, err, c.want)
		}
	}
}

// TestOpenOnOthers: a backend that computes no encoders is refused by its name.
func TestOpenOnOthers(t *testing.T) {
	_, err := Open(parse(t, "BertModel", ""), weights.Random{}, store.New(struct{ kernels.Backend }{ref.New()}), Options{})
	if err == nil || !strings.Contains(err.Error(), "ref does not compute encoders") {
		t.Errorf("%v, want a refusal that names the backend", err)
	}
}

// TestSpread: items that cannot be run do not hinder others, and short ones go through the model together.
func TestSpread(t *testing.T) {
	m := openModel(t, "bert", ref.New(), Options{ChunkRows: 256, MaxLen: 300})
	run := &wire.Run{}
	for i := range 100 {
		n := 4 + i%5
		if i == 50 {
			n = 301
		}
		run.Items = append(run.Items, wire.RunItem{Job: engine.JobID(i), Work: &wire.TokenItem{Tokens: m.goldenPrompt(n), Ask: engine.Ask{Pool: engine.PoolMean}}})
	}
	p, err := m.Begin(run)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if n := len(p.groups); n != 4 { // of up to 32 blocks each
		t.Errorf("100 short prompts are %d groups, want 4", n)
	}
	if err := p.Results()[50].Err; err == nil || err.Code != engine.CodeTooLong {
		t.Errorf("too long a prompt: %v", err)
	}
}
