package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/internal/config"
)

// demoDir unpacks the demo model.
func demoDir(t *testing.T) string {
	t.Helper()
	dir, err := demo.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHubSnapshot(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HF_HOME", home)
	repo := filepath.Join(home, "hub", "models--org--name")
	for file, text := range map[string]string{"refs/main": "abc\n", "snapshots/abc/config.json": "{}"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(repo, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if dir, err := hubSnapshot("org/name"); err != nil || dir != filepath.Join(repo, "snapshots", "abc") {
		t.Errorf("hubSnapshot = %q, %v", dir, err)
	}
	if _, err := hubSnapshot("org/other"); err == nil || !strings.Contains(err.Error(), "org/other") {
		t.Errorf("hubSnapshot of an absent model = %v", err)
	}
}

func TestIsPath(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("models", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"./x": true, "/x": true, "../x": true, "x/": true, "a/b/c": true, "~/x": true, "models/x": true, "my model": true,
		"gpt2": false, "Qwen/Qwen2.5-0.5B": false, "org/x_1": false,
	} {
		if got := isPath(name); got != want {
			t.Errorf("isPath(%q) = %v", name, got)
		}
	}
}

func TestChatTemplateOverride(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.jinja")
	if err := os.WriteFile(file, []byte("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"), 0o600); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Open(demoDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	chat, err := openTemplate(&config.Config{ChatTemplate: file}, tok)
	if err != nil {
		t.Fatal(err)
	}
	got, err := chat.RenderChat([]byte(`[{"role":"user","content":"hi"}]`), frontend.ChatOptions{})
	if err != nil || got != "<user>hi" {
		t.Errorf("RenderChat = %q, %v", got, err)
	}
}
