package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/tokenizer/native"
)

// templateFuel bounds the instructions of one rendering, about a second of work; a message costs
// some hundred.
const templateFuel = 5_000_000

// templateTime is what a template may take with messages of no length; the tests lower it.
var templateTime = 5 * time.Second

// chat renders the templates of one checkpoint.
type chat struct {
	templates map[string]namedTemplate
	pairs     bool // the default one makes pairs of a query and a document
	special   map[string]string
	config    map[string]json.RawMessage // tokenizer_config.json

	mu       sync.Mutex
	compiled map[string]*compiledTemplate // of the checkpoint, by name; guarded by mu
	broken   map[string]error             // those that do not compile; guarded by mu
}

type compiledTemplate struct {
	*native.Template
	flatten bool
	title   string // what errors call it
}

func newChat(f *files) *chat {
	return &chat{templates: f.templates, pairs: hasRerankRoles(f.templates["default"].source), special: f.special, config: f.config, compiled: map[string]*compiledTemplate{}, broken: map[string]error{}}
}

// UseTemplate puts another chat template in the place of those of the checkpoint, before the first text is rendered.
func (t *Tokenizer) UseTemplate(source string) {
	t.chat.templates = map[string]namedTemplate{"default": {source: source}}
	t.chat.pairs = hasRerankRoles(source)
}

// hasRerankRoles says whether a template knows the roles of a reranker's messages.
func hasRerankRoles(template string) bool {
	has := func(role string) bool {
		return strings.Contains(template, `"`+role+`"`) || strings.Contains(template, "'"+role+"'")
	}
	return has("query") && has("document")
}

// Templated says that the chat template makes pairs of a query and a document.
func (t *Tokenizer) Templated() bool { return t.chat.pairs }

// RenderChat renders OpenAI's chat messages (a JSON list) to the text of a prompt, as transformers'
// apply_chat_template does. The result holds the special tokens already: encode it with addSpecial
// false. Text parts of a message are joined by line feeds unless the template itself goes through
// parts, and tool arguments in JSON text become objects. An error is the template's own refusal
// or names the template's line.
func (t *Tokenizer) RenderChat(messages []byte, o text.ChatOptions) (string, error) {
	if !o.ContinueFinalMessage {
		return t.renderChat(messages, o)
	}
	marked, final, err := markFinal(messages)
	if err != nil {
		return "", err
	}
	whole, err := t.renderChat(marked, o)
	if err != nil {
		return "", err
	}
	return cutFinal(whole, final)
}

func (t *Tokenizer) renderChat(messages []byte, o text.ChatOptions) (string, error) {
	context, err := t.chat.templateContext(messages, o)
	if err != nil {
		return "", err
	}
	name := "default"
	if _, ok := t.chat.templates["tool_use"]; ok && len(o.Variables["tools"]) > 0 {
		name = "tool_use"
	}
	c, err := t.chat.getTemplate(name)
	if err != nil {
		return "", err
	}
	return c.renderChat(context)
}

// templateContext makes the variables of the template.
func (c *chat) templateContext(messages []byte, o text.ChatOptions) ([]byte, error) {
	variables := map[string]any{"messages": json.RawMessage(messages), "add_generation_prompt": o.AddGenerationPrompt}
	for name, text := range c.special {
		variables[name] = text
	}
	for name, value := range o.Variables {
		if name == "messages" {
			return nil, errors.New("chat template: invalid variable \"messages\": the messages are given already")
		}
		variables[name] = value
	}
	context, err := json.Marshal(variables)
	if err != nil {
		return nil, fmt.Errorf("chat template: messages and variables must be JSON: %w", err)
	}
	return context, nil
}

// getTemplate compiles a template at its first use.
func (c *chat) getTemplate(name string) (*compiledTemplate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.compiled[name]; ok {
		return t, nil
	}
	if err, ok := c.broken[name]; ok {
		return nil, err
	}
	from, ok := c.templates[name]
	if !ok {
		return nil, errors.New("the model has no chat template; send the prompt to /v1/completions or give a template")
	}
	title := "chat template"
	if from.file != "" {
		title += " of " + from.file
	}
	t, err := compileTemplate(from.source, title)
	if err != nil {
		c.broken[name] = err
		return nil, err
	}
	c.compiled[name] = t
	return t, nil
}

// partsLoop finds a template that goes through the parts of a message's content by itself.
var partsLoop = regexp.MustCompile(`\{%-?\s*for\s+\w+\s+in\s+(\w+\.content|\w+\[\s*['"]content['"]\s*\]|content)\b?`)

// MaxTemplate is the most bytes of a chat template; the longest known have some 30,000.
const MaxTemplate = 256 << 10

func compileTemplate(source, title string) (*compiledTemplate, error) {
	if len(source) > MaxTemplate {
		return nil, fmt.Errorf("%s: got %d bytes, want at most %d", title, len(source), MaxTemplate)
	}
	t, err := native.CompileTemplate(source, templateFuel, templateTime)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", title, err)
	}
	return &compiledTemplate{t, !partsLoop.MatchString(source), title}, nil
}

func (c *compiledTemplate) renderChat(context []byte) (string, error) {
	text, err := c.Render(context, c.flatten)
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.title, err)
	}
	return text, nil
}
