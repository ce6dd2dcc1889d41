package roles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/text"
)

// TestTemplate: a file of a template takes the place of the checkpoint's own.
func TestTemplate(t *testing.T) {
	dir, err := demo.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "chat.jinja")
	if err := os.WriteFile(file, []byte("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := openText(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	got, err := opened.RenderChat([]byte(`[{"role":"user","content":"hi"}]`), text.ChatOptions{})
	if err != nil || got != "<user>hi" {
		t.Errorf("RenderChat = %q, %v", got, err)
	}
	if info := string(opened.TokenizerInfo()["chat_template"]); !strings.Contains(info, "m.role") {
		t.Errorf("the tokenizer's information has the template %s", info)
	}
}

// TestRankingTemplate: a template of queries and documents makes pairs.
func TestRankingTemplate(t *testing.T) {
	dir, err := demo.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rank.jinja")
	if err := os.WriteFile(file, []byte(`{% for m in messages %}{% if m.role == "query" %}Q{% elif m.role == 'document' %}D{% endif %}{{ m.content }}{% endfor %}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for template, want := range map[string]bool{file: true, "": false} {
		opened, err := openText(dir, template)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		if got := opened.Specials.Templated(); got != want {
			t.Errorf("%q: %v", template, got)
		}
		if !want {
			continue
		}
		if got, err := opened.RenderPair("a", "b", "", &api.Templating{}); err != nil || got != "QaDb" {
			t.Errorf("rendered %q, %v", got, err)
		}
	}
}

// TestMistakes: what cannot be opened is named.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ dir, template, want string }{{t.TempDir(), "", "tokenizer.json"}, {t.TempDir(), "/no/template", "chat-template: "}} {
		if _, err := openText(c.dir, c.template); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
