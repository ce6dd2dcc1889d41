//go:build cgo

package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/text"
)

// TestTokenBytes holds that the bytes of the tokens of a text are the text's.
func TestTokenBytes(t *testing.T) {
	text := "The user's 42 posts:\n\tna\u00efve \u4e2d\u6587 \U0001F980 <|end|> end"
	for _, name := range shapes {
		tok := openShape(t, name)
		var bytes []byte
		for _, id := range mustEncode(t, tok, text, false) {
			bytes = append(bytes, tok.TokenBytes(id)...)
		}
		got := string(bytes)
		if tok.chunks.splitter.sentencePiece {
			// It puts a space before every text, and the older form also after special tokens.
			got = strings.TrimPrefix(strings.ReplaceAll(got, "<|end|>  ", "<|end|> "), " ")
		}
		if got != text {
			t.Errorf("%s: tokens of %q have the bytes %q", name, text, got)
		}
		if tok.TokenText(engine.TokenID(tok.VocabSize())) != "" || tok.TokenBytes(1<<31) != nil {
			t.Errorf("%s: ids outside the vocabulary have a text", name)
		}
	}
}

func TestPartsOfCharactersCollideAsText(t *testing.T) {
	tok := openShape(t, "llama3")
	ids := mustEncode(t, tok, "\U0001F980", false)
	if len(ids) < 2 || tok.TokenText(ids[0]) != "\uFFFD" || tok.TokenText(ids[1]) != "\uFFFD" {
		t.Fatalf("tokens %v of one character read %q", ids, tok.TokenText(ids[0]))
	}
	if a, b := tok.TokenBytes(ids[0]), tok.TokenBytes(ids[1]); slices.Equal(a, b) {
		t.Errorf("both have the bytes %x", a)
	}
}

func TestSpecialTokens(t *testing.T) {
	tok := openLlama3(t)
	if got, want := tok.EOS(), []engine.TokenID{128001, 128009}; !slices.Equal(got, want) {
		t.Errorf("EOS = %v, want %v", got, want)
	}
	if tok.VocabSize() != 128256 {
		t.Errorf("VocabSize = %d", tok.VocabSize())
	}
}

// TestConfigurations reads the ways in which end-of-text tokens and templates are written.
func TestConfigurations(t *testing.T) {
	model, err := os.ReadFile("testdata/tokenizers/qwen2/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		files    map[string]string
		eos      []engine.TokenID
		template string // what it renders of no messages
		err      string
	}{
		{name: "nothing", files: nil},
		{name: "one id", files: map[string]string{"config.json": `{"eos_token_id": 2}`}, eos: []engine.TokenID{2}},
		{name: "generation first", files: map[string]string{"config.json": `{"eos_token_id": 2}`, "generation_config.json": `{"eos_token_id": [1]}`}, eos: []engine.TokenID{1}},
		{name: "null", files: map[string]string{"config.json": `{"eos_token_id": 2}`, "generation_config.json": `{"eos_token_id": null}`}, eos: []engine.TokenID{2}},
		{name: "by name", files: map[string]string{"special_tokens_map.json": `{"eos_token": {"content": "<|end|>"}}`}, eos: []engine.TokenID{2}},
		{name: "out of range", files: map[string]string{"config.json": `{"eos_token_id": 99999}`}, err: "invalid end-of-text token 99999"},
		{name: "not an id", files: map[string]string{"config.json": `{"eos_token_id": "x"}`}, err: "invalid eos_token_id"},
		{name: "named templates", files: map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]}`}, template: "D"},
		{name: "processor", files: map[string]string{"tokenizer_config.json": `{"chat_template": "C"}`, "chat_template.json": `{"chat_template": "P"}`}, template: "P"},
		{name: "file", files: map[string]string{"chat_template.jinja": "F{{ eos_token }}", "chat_template.json": `{"chat_template": "P"}`, "tokenizer_config.json": `{"eos_token": "</s>"}`}, eos: []engine.TokenID{1}, template: "F</s>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.files = cloneWith(c.files, "tokenizer.json", string(model))
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if c.err != "" {
				if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("Open: %v, want an error with %q", err, c.err)
				}
				return
			}
			tok := open(t, dir)
			if got := tok.EOS(); !slices.Equal(got, c.eos) {
				t.Errorf("EOS = %v, want %v", got, c.eos)
			}
			if got, err := tok.RenderChat([]byte(`[]`), text.ChatOptions{}); (err != nil) != (c.template == "") || got != c.template {
				t.Errorf("rendered %q, %v, want %q", got, err, c.template)
			}
		})
	}
}

func cloneWith(files map[string]string, name, text string) map[string]string {
	out := map[string]string{name: text}
	for n, t := range files {
		out[n] = t
	}
	return out
}

func TestInfo(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(moduleTokenizer(t, "Meta-Llama-3-8B-Instruct.json"), filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	writeJSON(t, dir, "tokenizer_config.json", map[string]any{
		"eos_token": map[string]any{"content": "<|eot_id|>"}, "vocab_file": "/home/somebody/vocab.json", "model_max_length": 8192, "chat_template": "{{ 1 }}",
	})
	got, err := json.Marshal(open(t, dir).TokenizerInfo())
	want := `{"chat_template":"{{ 1 }}","eos_token":"\u003c|eot_id|\u003e","model_max_length":8192,"tokenizer_class":"PreTrainedTokenizerFast"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
