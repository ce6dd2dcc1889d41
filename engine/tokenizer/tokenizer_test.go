//go:build cgo

package tokenizer

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// moduleTokenizer is a tokenizer.json of the test data of github.com/daulet/tokenizers.
func moduleTokenizer(t testing.TB, name string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/daulet/tokenizers").Output()
	if err != nil {
		t.Fatalf("go list -m github.com/daulet/tokenizers: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "test", "data", name)
}

// openModule opens one of them without further files.
func openModule(t testing.TB, name string) *Tokenizer {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(moduleTokenizer(t, name), filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// openLlama3 opens the tokenizer of Llama 3 8B Instruct, with its chat template.
func openLlama3(t testing.TB) *Tokenizer {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(moduleTokenizer(t, "Meta-Llama-3-8B-Instruct.json"), filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile("testdata/templates/llama3.jinja")
	if err != nil {
		t.Fatal(err)
	}
	writeJSON(t, dir, "tokenizer_config.json", map[string]any{
		"bos_token": "<|begin_of_text|>", "eos_token": map[string]any{"content": "<|eot_id|>"}, "chat_template": string(template),
	})
	writeJSON(t, dir, "generation_config.json", map[string]any{"eos_token_id": []int{128001, 128009}})
	return open(t, dir)
}

func open(t testing.TB, dir string) *Tokenizer {
	t.Helper()
	tok, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

func writeJSON(t testing.TB, dir, name string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEncodeDecodeLlama3(t *testing.T) {
	tok := openLlama3(t)
	for _, c := range []struct {
		text string
		want []engine.TokenID
	}{
		{"Hello world", []engine.TokenID{128000, 9906, 1917}},
		{"a\x00b", []engine.TokenID{128000, 64, 188, 65}},
		{"<|eot_id|>", []engine.TokenID{128000, 128009}},
		{"", []engine.TokenID{128000}},
	} {
		got := mustEncode(t, tok, c.text, true)
		if !slices.Equal(got, c.want) {
			t.Errorf("Encode(%q) = %v, want %v", c.text, got, c.want)
		}
		if text := mustDecode(t, tok, got[1:], false); text != c.text {
			t.Errorf("Decode(Encode(%q)) = %q", c.text, text)
		}
	}
}

// TestPairOfCheckpoint: a real tokenizer's template is read as the library applies it to one text.
func TestPairOfCheckpoint(t *testing.T) {
	tok := openLlama3(t)
	p, err := tok.Pair()
	before, after := tok.Around()
	if want := []engine.TokenID{128000}; err != nil || !slices.Equal(before, want) || len(after) > 0 || !slices.Equal(p.Before, want) || !slices.Equal(p.Between, want) || len(p.After) > 0 {
		t.Errorf("pair %+v, %v; around one text %v %v", p, err, before, after)
	}
}
