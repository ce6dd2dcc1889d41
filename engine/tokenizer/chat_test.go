//go:build cgo

package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/text"
)

// golden is one rendering by transformers (tools/golden/golden_tokenizer.py).
type golden struct {
	Template, Case string
	Variables      map[string]json.RawMessage
	Text           *string
	Error          string
}

func goldens(t testing.TB) []golden {
	t.Helper()
	text, err := os.ReadFile("testdata/chat.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// renderer renders templates with the special tokens of the goldens.
func renderer() *Tokenizer {
	t := NewBytes()
	t.chat = newChat(&files{special: map[string]string{"bos_token": "<BOS>", "eos_token": "<EOS>"}})
	return t
}

// rendererOf renders a template.
func rendererOf(template string) *Tokenizer {
	t := renderer()
	t.UseTemplate(template)
	return t
}

func TestRenderChatAsTransformers(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.Template+"/"+g.Case, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("testdata/templates", g.Template))
			if err != nil {
				t.Fatal(err)
			}
			o := text.ChatOptions{Variables: g.Variables}
			messages := g.Variables["messages"]
			if err := json.Unmarshal(g.Variables["add_generation_prompt"], &o.AddGenerationPrompt); err != nil {
				t.Fatal(err)
			}
			o.ContinueFinalMessage = g.Variables["continue_final_message"] != nil
			for _, taken := range []string{"messages", "add_generation_prompt", "continue_final_message", "bos_token", "eos_token"} {
				delete(g.Variables, taken)
			}
			got, err := rendererOf(string(source)).RenderChat(messages, o)
			switch {
			case g.Text == nil:
				if err == nil || !strings.Contains(err.Error(), g.Error) {
					t.Errorf("got %q, %v; transformers refuses with %q", got, err, g.Error)
				}
			case err != nil:
				t.Errorf("%v; transformers renders %q", err, *g.Text)
			case got != *g.Text:
				t.Errorf("got\n%q\ntransformers renders\n%q", got, *g.Text)
			}
		})
	}
}

func TestRenderChatOfCheckpoint(t *testing.T) {
	tok := openLlama3(t)
	prompt, err := tok.RenderChat(json.RawMessage(`[{"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]}]`),
		text.ChatOptions{AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	want := "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nA\nB<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
	if prompt != want {
		t.Errorf("got %q, want %q", prompt, want)
	}
	if ids := mustEncode(t, tok, prompt, false); ids[0] != 128000 || ids[1] != 128006 || ids[1] == ids[0] {
		t.Errorf("the prompt's special tokens became %v", ids[:2])
	}
}

func TestToolArgumentsInTextBecomeObjects(t *testing.T) {
	messages := json.RawMessage(`[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"b\": 1, \"a\": \"x\"}"}}]}]`)
	got, err := rendererOf(`{{ messages[0].tool_calls[0].function.arguments | tojson }}`).RenderChat(messages, text.ChatOptions{})
	if want := `{"b": 1, "a": "x"}`; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestTemplateErrors(t *testing.T) {
	user := json.RawMessage(`[{"role":"user","content":"A"}]`)
	for _, c := range []struct {
		name, template string
		messages       json.RawMessage
		variables      map[string]json.RawMessage
		want           string
	}{
		{"no template", "", user, nil, "no chat template"},
		{"syntax", "a\n{% if %}", user, nil, "line 2"},
		{"refusal", "\n\n{{ raise_exception('no tools here') }}", user, nil, "line 3: invalid operation: no tools here"},
		{"endless", "{% for i in range(10000) %}{% for j in range(10000) %}{{ j }}{% endfor %}{% endfor %}", user, nil, "fuel"},
		{"recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", user, nil, "recursion"},
		{"attribute of nothing", "{{ messages[3].content }}", user, nil, "undefined"},
		{"not JSON", "{{ 1 }}", json.RawMessage(`[{]`), nil, "must be JSON"},
		{"messages twice", "{{ 1 }}", user, map[string]json.RawMessage{"messages": user}, "messages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			tok := renderer()
			if c.template != "" {
				tok.UseTemplate(c.template)
			}
			got, err := tok.RenderChat(c.messages, text.ChatOptions{Variables: c.variables})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.60q, %v; want an error with %q", got, err, c.want)
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

func TestStrftimeNow(t *testing.T) {
	got, err := rendererOf(`{{ strftime_now('%Y 100%%') }}`).RenderChat(json.RawMessage(`[]`), text.ChatOptions{})
	if want := time.Now().Format("2006") + " 100%"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// FuzzRenderChat feeds any JSON to templates: an error or a text, never a crash.
func FuzzRenderChat(f *testing.F) {
	for _, g := range goldens(f) {
		f.Add(g.Template, []byte(g.Variables["messages"]), []byte(g.Variables["tools"]))
	}
	f.Add("{% generation %}{{ messages }}{% endgeneration %}", []byte(`[null]`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, template string, messages, tools []byte) {
		if source, err := os.ReadFile(filepath.Join("testdata/templates", filepath.Base(template))); err == nil {
			template = string(source)
		}
		got, err := rendererOf(template).RenderChat(messages, text.ChatOptions{Variables: map[string]json.RawMessage{"tools": tools}})
		if err != nil && got != "" {
			t.Errorf("both a text and %v", err)
		}
	})
}

func TestContinueFinalMessageRefuses(t *testing.T) {
	const template = `{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}`
	for _, messages := range []string{
		`[]`, `{}`, `[3]`, `[{"role":"assistant"}]`, `[{"role":"assistant","content":null}]`, `[{"role":"assistant","content":[]}]`,
		`[{"role":"assistant","content":[{"type":"image"}]}]`, `[{"role":"assistant","content":{"text":"A"}}]`, `[{"role":"assistant","content":"A"`,
	} {
		got, err := rendererOf(template).RenderChat(json.RawMessage(messages), text.ChatOptions{ContinueFinalMessage: true})
		if err == nil || !strings.Contains(err.Error(), "no text to continue") {
			t.Errorf("%s: got %q, %v", messages, got, err)
		}
	}
}
