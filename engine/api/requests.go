package api

import (
	"bytes"
	"encoding/json"
	"maps"
)

// DefaultMaxTokens is how many tokens a completion generates when max_tokens is absent, if the
// model's limit leaves room for them.
const DefaultMaxTokens = 16

// CompletionRequest is the body of POST /v1/completions.
type CompletionRequest struct {
	Params
	Prompt           Prompt `json:"prompt" required:"true"`
	Echo             bool   `json:"echo" default:"false"`
	Logprobs         *int   `json:"logprobs" min:"0" max:"20"`
	AddSpecialTokens bool   `json:"add_special_tokens" default:"true"`
}

func (r *CompletionRequest) bulk() (string, *[][]uint32) { return "prompt", &r.Prompt.Tokens }

// completionBody is what a completion request is decoded into.
type completionBody struct {
	CompletionRequest
	formFields
	chatOnly
	unsupported
}

// DecodeCompletion decodes and validates a completion request.
func DecodeCompletion(body []byte) (*CompletionRequest, *Error) {
	var in completionBody
	if err := Decode(body, &in); err != nil {
		return nil, err
	}
	r := &in.CompletionRequest
	r.AddSpecial = r.AddSpecialTokens
	if err := r.validate(); err != nil {
		return nil, err
	}
	if err := in.unsupported.check(&r.Params); err != nil {
		return nil, err
	}
	var err *Error
	r.Form, err = in.form(&r.Params)
	return r, err
}

func (r *CompletionRequest) validate() *Error {
	if r.Logprobs != nil {
		r.WantLogprobs, r.Top = true, *r.Logprobs
	}
	if err := r.Params.validate(); err != nil {
		return err
	}
	switch {
	case r.Prompt.Len() == 0:
		return Invalid("prompt", "prompt is missing; give a string, a list of strings, or token ids")
	case r.MaxTokens != nil && *r.MaxTokens == 0 && !r.Echo && r.PromptLogprobs == nil:
		return Invalid("max_tokens", "max_tokens is 0, which needs echo or prompt_logprobs; otherwise ask for 1 or more")
	}
	return nil
}

// ChatRequest is the body of POST /v1/chat/completions. Messages is a non-empty list of objects,
// passed to the chat template as it came.
type ChatRequest struct {
	Params
	Templating
	Messages         json.RawMessage `json:"messages" is:"Messages" required:"true"`
	Logprobs         bool            `json:"logprobs" default:"false"`
	TopLogprobs      *int            `json:"top_logprobs" min:"0" max:"20"`
	ToolChoice       json.RawMessage `json:"tool_choice" is:"ToolChoice"`
	Echo             json.RawMessage `json:"echo" only:"false"`
	AddSpecialTokens bool            `json:"add_special_tokens" default:"false"`
	AutoTools        bool            `json:"-"` // the model may call tools, and says in its own words whether it does
}

// chatBody is what a chat request is decoded into.
type chatBody struct {
	ChatRequest
	formFields
	unsupported
}

// Templating says how messages become a prompt.
type Templating struct {
	AddGenerationPrompt  *bool                      `json:"add_generation_prompt"`                  // nil: unless the final message is continued
	ContinueFinalMessage bool                       `json:"continue_final_message" default:"false"` // the prompt ends with the last message's text
	ChatTemplateKwargs   map[string]json.RawMessage `json:"chat_template_kwargs"`
	Tools                json.RawMessage            `json:"tools" is:"Tools"` // a variable of the template
}

// Variables are those of the template beside the messages.
func (t *Templating) Variables() map[string]json.RawMessage {
	if Neutral(t.Tools, "[]") {
		return t.ChatTemplateKwargs
	}
	all := map[string]json.RawMessage{"tools": t.Tools}
	maps.Copy(all, t.ChatTemplateKwargs)
	return all
}

// GenerationPrompt reports whether the prompt ends with the opening of an assistant's message.
func (t *Templating) GenerationPrompt() bool {
	if t.AddGenerationPrompt == nil {
		return !t.ContinueFinalMessage
	}
	return *t.AddGenerationPrompt
}

// Validate checks t.
func (t *Templating) Validate() *Error {
	if t.ContinueFinalMessage && t.GenerationPrompt() {
		return Invalid("continue_final_message", "continue_final_message and add_generation_prompt cannot both be true; leave one out")
	}
	return nil
}

// DecodeChat decodes and validates a chat request. Its MaxTokens is nil when the client left the
// length to the model.
func DecodeChat(body []byte) (*ChatRequest, *Error) {
	var in chatBody
	if err := Decode(body, &in); err != nil {
		return nil, err
	}
	r := &in.ChatRequest
	r.AddSpecial = r.AddSpecialTokens
	if err := r.validate(); err != nil {
		return nil, err
	}
	if err := in.check(&r.Params); err != nil {
		return nil, err
	}
	var err *Error
	if r.Form, err = in.form(&r.Params); err != nil {
		return nil, err
	}
	return r, r.readTools()
}

func (r *ChatRequest) validate() *Error {
	if r.TopLogprobs != nil {
		if *r.TopLogprobs > 0 && !r.Logprobs {
			return Invalid("top_logprobs", "top_logprobs needs logprobs to be true")
		}
		r.Top = *r.TopLogprobs
	}
	r.WantLogprobs = r.Logprobs
	if err := r.Params.validate(); err != nil {
		return err
	}
	switch {
	case r.MaxTokens != nil && *r.MaxTokens == 0 && r.PromptLogprobs == nil:
		return Invalid("max_tokens", "max_tokens is 0, which needs prompt_logprobs; otherwise ask for 1 or more")
	}
	if err := r.Templating.Validate(); err != nil {
		return err
	}
	return CheckMessages(r.Messages)
}

// CheckMessages refuses what is no list of messages of text.
func CheckMessages(raw json.RawMessage) *Error {
	if Neutral(raw, "") {
		return Invalid("messages", "messages is missing; give a list of {\"role\", \"content\"} objects")
	}
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &messages); err != nil {
		return Invalid("messages", "messages must be a list of {\"role\", \"content\"} objects")
	}
	if len(messages) == 0 {
		return Invalid("messages", "messages is empty; give at least one")
	}
	for i, m := range messages {
		if m.Role == "" {
			return Invalid("messages", "messages[%d] has no role", i)
		}
		if err := checkContent(i, m.Content); err != nil {
			return err
		}
	}
	return nil
}

// checkContent refuses parts that are not text: an image dropped in silence changes the answer.
func checkContent(index int, raw json.RawMessage) *Error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == '"' || raw[0] == 'n' {
		return nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return Invalid("messages", "messages[%d].content must be a string or a list of text parts", index)
	}
	for j, part := range parts {
		if part.Type != "text" || part.Text == nil {
			return Invalid("messages", "messages[%d].content[%d] is of type %.40q; only text parts are served", index, j, part.Type)
		}
	}
	return nil
}

// TokenizeRequest is the body of POST /tokenize: a Prompt, or Messages to render first.
type TokenizeRequest struct {
	Templating
	Model            string          `json:"model" is:"ModelName"`
	Prompt           *string         `json:"prompt"`
	Messages         json.RawMessage `json:"messages" is:"Messages"`
	AddSpecialTokens *bool           `json:"add_special_tokens" about:"Default true for a prompt, false for messages."`
	ReturnTokenStrs  bool            `json:"return_token_strs" default:"false"`
}

// DecodeTokenize decodes and validates a tokenize request.
func DecodeTokenize(body []byte) (*TokenizeRequest, *Error) {
	r := &TokenizeRequest{}
	if err := Decode(body, r); err != nil {
		return nil, err
	}
	if r.Prompt != nil {
		if !Neutral(r.Messages, "") {
			return nil, Invalid("prompt", "give prompt or messages, not both")
		}
		return r, nil
	}
	if Neutral(r.Messages, "") {
		return nil, Invalid("prompt", "prompt is missing; give a string, or messages")
	}
	if err := r.Templating.Validate(); err != nil {
		return nil, err
	}
	return r, CheckMessages(r.Messages)
}

// DetokenizeRequest is the body of POST /detokenize.
type DetokenizeRequest struct {
	Model  string    `json:"model" is:"ModelName"`
	Tokens TokenList `json:"tokens" required:"true"`
}

// DecodeDetokenize decodes and validates a detokenize request.
func DecodeDetokenize(body []byte) (*DetokenizeRequest, *Error) {
	r := &DetokenizeRequest{}
	if err := Decode(body, r); err != nil {
		return nil, err
	}
	if r.Tokens == nil {
		return nil, Invalid("tokens", "tokens is missing; give a list of token ids")
	}
	return r, nil
}
