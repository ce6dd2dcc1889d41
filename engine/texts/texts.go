// Package texts opens what a checkpoint's texts are read and written with: its tokenizer, and its chat template or
// another one.
package texts

import (
	"encoding/json"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// Open opens the texts of the checkpoint in dir. A file of a template is used in place of the checkpoint's own one; it
// may be empty. The caller calls free when nobody uses them any more.
func Open(dir, template string) (text completion.Text, free func(), err error) {
	t := chatTemplate{}
	if template != "" {
		content, err := regular.ReadFile(template, tokenizer.MaxTemplate)
		if err != nil {
			return text, nil, fmt.Errorf("chat-template: %w", err)
		}
		t.override = string(content)
	}
	if t.Tokenizer, err = tokenizer.Open(dir); err != nil {
		return text, nil, err
	}
	return completion.Text{Tokenizer: t.Tokenizer, Template: t}, t.Close, nil
}

// chatTemplate adapts the tokenizer's templates to completions.
type chatTemplate struct {
	*tokenizer.Tokenizer
	override string // used in place of the checkpoint's template; may be empty
}

func (t chatTemplate) RenderChat(messages []byte, o completion.ChatOptions) (string, error) {
	return t.Tokenizer.RenderChat(messages, tokenizer.ChatOptions{
		AddGenerationPrompt: o.AddGenerationPrompt, ContinueFinalMessage: o.ContinueFinalMessage, Template: t.override, Variables: o.Variables,
	})
}

// TokenizerInfo is the tokenizer's configuration with the template in use.
func (t chatTemplate) TokenizerInfo() map[string]json.RawMessage {
	info := t.Tokenizer.Info()
	if t.override != "" {
		info["chat_template"], _ = json.Marshal(t.override) // a string has a JSON form
	}
	return info
}
