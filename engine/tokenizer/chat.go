package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine/tokenizer/native"
)

// templateFuel bounds the instructions of one rendering, about a second of work; a message costs
// some hundred.
const templateFuel = 5_000_000

// templateTime is what a template may take with messages of no length; the tests lower it.
var templateTime = 5 * time.Second

// ChatOptions is what a rendering depends on beside the messages.
type ChatOptions struct {
	AddGenerationPrompt  bool                       // end with the opening of an assistant's message
	ContinueFinalMessage bool                       // end with the text of the last message, for the model to go on from
	Template             string                     // used in place of the checkpoint's template
	Variables            map[string]json.RawMessage // further variables of the template: tools, documents, chat_template_kwargs
}

// chat renders the templates of one checkpoint.
type chat struct {
	templates map[string]namedTemplate
	special   map[string]string
	config    map[string]json.RawMessage // tokenizer_config.json

	mu       sync.Mutex
	compiled map[string]*compiledTemplate // of the checkpoint, by name; guarded by mu
	broken   map[string]error             // those that do not compile; guarded by mu
	given    string                       // the last ChatOptions.Template; guarded by mu
	ofGiven  *compiledTemplate            // guarded by mu
}

type compiledTemplate struct {
	*native.Template
	flatten bool
	title   string // what errors call it
}

func newChat(f *files) *chat {
	return &chat{templates: f.templates, special: f.special, config: f.config, compiled: map[string]*compiledTemplate{}, broken: map[string]error{}}
}

// HasChatTemplate reports whether RenderChat works without ChatOptions.Template.
func (t *Tokenizer) HasChatTemplate() bool { return t.chat.templates["default"].source != "" }

// RenderChat renders OpenAI's chat messages (a JSON list) to the text of a prompt, as transformers'
// apply_chat_template does. The result holds the special tokens already: encode it with addSpecial
// false. Text parts of a message are joined by line feeds unless the template itself goes through
// parts, and tool arguments in JSON text become objects. An error is the template's own refusal
// or names the template's line.
func (t *Tokenizer) RenderChat(messages json.RawMessage, o ChatOptions) (string, error) {
	if !o.ContinueFinalMessage {
		return t.renderChat(messages, o)
	}
	marked, final, err := markFinal(messages)
	if err != nil {
		return "", err
	}
	text, err := t.renderChat(marked, o)
	if err != nil {
		return "", err
	}
	return cutFinal(text, final)
}

func (t *Tokenizer) renderChat(messages json.RawMessage, o ChatOptions) (string, error) {
	context, err := t.chat.templateContext(messages, o)
	if err != nil {
		return "", err
	}
	if o.Template != "" {
		c, err := t.chat.getGiven(o.Template)
		if err != nil {
			return "", err
		}
		return c.renderChat(context)
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
func (c *chat) templateContext(messages json.RawMessage, o ChatOptions) ([]byte, error) {
	variables := map[string]any{"messages": messages, "add_generation_prompt": o.AddGenerationPrompt}
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

// getTemplate compiles a template of the checkpoint at its first use.
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
	t, err := compileTemplate(from.source, "chat template of "+from.file)
	if err != nil {
		c.broken[name] = err
		return nil, err
	}
	c.compiled[name] = t
	return t, nil
}

// getGiven compiles a template that is not the checkpoint's, unless it was also the last.
func (c *chat) getGiven(source string) (*compiledTemplate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ofGiven != nil && c.given == source {
		return c.ofGiven, nil
	}
	t, err := compileTemplate(source, "chat template")
	if err != nil {
		return nil, err
	}
	c.given, c.ofGiven = source, t
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
