package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/text"
)

func TestBytes(t *testing.T) {
	tok := NewBytes()
	ids := mustEncode(t, tok, "a\x00\u00e9", true)
	if want := []uint32{256, 'a', 0, 0xC3, 0xA9}; !slices.Equal(ids, want) {
		t.Fatalf("Encode = %v, want %v", ids, want)
	}
	if got := mustDecode(t, tok, append(ids, 257, 300), false); got != "<|begin_of_text|>a\x00\u00e9<|end_of_text|>" {
		t.Errorf("Decode = %q", got)
	}
	if got := mustDecode(t, tok, append(ids, 257), true); got != "a\x00\u00e9" {
		t.Errorf("Decode without special tokens = %q", got)
	}
	if _, err := tok.RenderChat([]byte(`[]`), text.ChatOptions{}); err == nil || !strings.Contains(err.Error(), "no chat template") {
		t.Errorf("RenderChat: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "missing "+filepath.Join(dir, "tokenizer.json")) {
		t.Errorf("without files: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.json", `{"model": {"type": "BPE"}}`)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("with a broken file: %v", err)
	}
	write("tokenizer_config.json", `{"eos_token": `)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
		t.Errorf("with a cut configuration: %v", err)
	}
}
