package roles

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/scoring"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// modelTexts are what a checkpoint's texts are read and written with. The owner calls Close when nobody uses them any more.
type modelTexts struct {
	completion.Text
	Specials scoring.Specials
	Close    func()
}

// openTexts opens the texts of the checkpoint in dir. A file of a template is used in place of the checkpoint's own one; it
// may be empty.
func openTexts(dir, template string) (*modelTexts, error) {
	t := chatTemplate{}
	if template != "" {
		content, err := regular.ReadFile(template, tokenizer.MaxTemplate)
		if err != nil {
			return nil, fmt.Errorf("chat-template: %w", err)
		}
		t.override = string(content)
	}
	var err error
	if t.Tokenizer, err = tokenizer.Open(dir); err != nil {
		return nil, err
	}
	return &modelTexts{completion.Text{Tokenizer: t.Tokenizer, Template: t, Grammars: t.Tokenizer}, specials{t.Tokenizer, hasRerankRoles(t.TokenizerInfo())}, t.Close}, nil
}

// specials adapts the tokenizer's special tokens to scoring.
type specials struct {
	*tokenizer.Tokenizer
	templated bool
}

// Templated implements scoring.Specials.
func (s specials) Templated() bool { return s.templated }

// hasRerankRoles says whether a tokenizer's template knows the roles of a reranker's messages.
func hasRerankRoles(info map[string]json.RawMessage) bool {
	var template string
	if json.Unmarshal(info["chat_template"], &template) != nil {
		return false
	}
	has := func(role string) bool {
		return strings.Contains(template, `"`+role+`"`) || strings.Contains(template, "'"+role+"'")
	}
	return has("query") && has("document")
}

// Pair implements scoring.Specials.
func (s specials) Pair() (scoring.Pair, error) {
	p, err := s.Tokenizer.Pair()
	return scoring.Pair(p), err
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
