// Package text is what a model's texts are read and written with: its tokenizer, the template of its chats, and the tokens
// around and between texts. It does not know which library computes them.
package text

import (
	"context"
	"encoding/json"
	"maps"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/detokenize"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

// Tokenizer turns text into tokens and back. It is safe for concurrent use.
type Tokenizer interface {
	detokenize.Tokenizer
	Encode(ctx context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error)
	BytesPerToken() int // a text of more bytes than n times as many does not fit into n tokens
	VocabSize() int
	EOS() []engine.TokenID // tokens that end an answer
}

// Template renders a chat template over a JSON list of messages. Of a model without one it
// answers every call with an error that says so.
type Template interface {
	RenderChat(messages []byte, options ChatOptions) (string, error)
	TokenizerInfo() map[string]json.RawMessage // the tokenizer's configuration, with special tokens and template
}

// ChatOptions are the variables of a chat template beside the messages.
type ChatOptions struct {
	AddGenerationPrompt  bool
	ContinueFinalMessage bool                       // end with the last message's text
	Variables            map[string]json.RawMessage // chat_template_kwargs, tools
}

// Grammars compiles the forms of texts for the tokens of one tokenizer. It is safe for concurrent use. An error that is no
// *engine.Error, and not why ctx has ended, says what is wrong with the text.
type Grammars interface {
	Grammar(ctx context.Context, kind grammar.Kind, text string) (grammar.Constraint, error)
}

// Pair is what a tokenizer puts around and between two texts that are one input.
type Pair struct {
	Before, Between, After []engine.TokenID
	Typed                  bool // the second text's tokens are of another type (token_type_ids) than the first one's
}

// Specials are what a tokenizer, or its chat template, puts around texts.
type Specials interface {
	Around() (before, after []engine.TokenID) // one text
	Pair() (Pair, error)                      // an error says why there is none
	Templated() bool                          // the chat template makes pairs, of messages whose roles are query and document
}

// Text is what a model's texts are read and written with.
type Text struct {
	Tokenizer
	Template
	Grammars // may be nil
	Specials Specials
	Close    func() // frees it; may be nil
}

// Tokens tokenizes text, which came in field. Salt separates what is remembered of texts as it separates
// the prefix cache. Its errors are an *api.Error, and why ctx has ended.
func (t *Text) Tokens(ctx context.Context, salt, field, text string, addSpecial bool) ([]engine.TokenID, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ids, err := t.Encode(ctx, salt, text, addSpecial)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, tokenizerError(field, err)
	}
	return ids, nil
}

// Untokenize is the text of ids, which came in field. With skipSpecial, special tokens have none. Its error is an *api.Error.
func (t *Text) Untokenize(field string, ids []engine.TokenID, skipSpecial bool) (string, error) {
	text, err := t.Decode(ids, skipSpecial)
	if err != nil {
		return "", tokenizerError(field, err)
	}
	return text, nil
}

// Messages renders messages as the prompt of a chat.
func (t *Text) Messages(messages []byte, o *api.Templating) (string, error) {
	text, err := t.RenderChat(messages, ChatOptions{
		AddGenerationPrompt: o.GenerationPrompt(), ContinueFinalMessage: o.ContinueFinalMessage, Variables: o.Variables(),
	})
	if err != nil {
		return "", api.Invalid("messages", "the chat template cannot render messages: %v", err)
	}
	return text, nil
}

// Frame is how many tokens of text, which the template made of messages, are the template's before the first message's words, and
// behind the last one's; none where it makes nothing of the messages that are put in their place to see that.
func (t *Text) Frame(ctx context.Context, salt string, messages []byte, o *api.Templating, text string) (before, behind int, err error) {
	rendered, err := t.Messages(rewordMessages(messages, `"0"`), o)
	again, failed := t.Messages(rewordMessages(messages, `"1 2 3 4"`), o)
	if err != nil || failed != nil {
		return 0, 0, nil
	}
	one, other, whole := []byte(rendered), []byte(again), []byte(text)
	head, tail := min(Alike(one, other, false), Alike(one, whole, false)), min(Alike(one, other, true), Alike(one, whole, true))
	for head < len(text) && head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	end := max(head, len(text)-tail)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	first, err := t.Tokens(ctx, salt, "messages", text[:head], false)
	if err != nil {
		return 0, 0, err
	}
	last, err := t.Tokens(ctx, salt, "messages", text[end:], false)
	return len(first), len(last), err
}

// rewordMessages are messages that all have the same content.
func rewordMessages(messages []byte, content string) []byte {
	var list []map[string]json.RawMessage
	if json.Unmarshal(messages, &list) != nil {
		return messages
	}
	for _, m := range list {
		m["content"] = json.RawMessage(content)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return messages
	}
	return raw
}

// Alike is how many elements a and b begin with, or end with, alike.
func Alike[E comparable](a, b []E, ends bool) (n int) {
	for ; n < min(len(a), len(b)); n++ {
		i, j := n, n
		if ends {
			i, j = len(a)-1-n, len(b)-1-n
		}
		if a[i] != b[j] {
			break
		}
	}
	return n
}

// RenderPair renders a query and a document as messages of these roles, for templates of rerankers. An instruction is a variable
// of such a template, as vLLM has it, and a message of the system in front, as sentence-transformers has it.
func (t *Text) RenderPair(query, document, instruction string, o *api.Templating) (string, error) {
	list := []map[string]string{{"role": "system", "content": instruction}, {"role": "query", "content": query}, {"role": "document", "content": document}}
	if instruction == "" {
		list = list[1:]
	}
	messages, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	with := *o
	if instruction != "" {
		with.ChatTemplateKwargs = map[string]json.RawMessage{}
		maps.Copy(with.ChatTemplateKwargs, o.ChatTemplateKwargs)
		with.ChatTemplateKwargs["instruction"], _ = json.Marshal(instruction) // a string has a JSON form
	}
	return t.Messages(messages, &with)
}

// tokenizerError is the refusal of a text, or of ids, in field that the model's tokenizer fails on.
func tokenizerError(field string, err error) *api.Error {
	e := api.Invalid(field, "the model's tokenizer fails on %s: %v", field, err)
	e.Code = "tokenization_failed"
	return e
}
