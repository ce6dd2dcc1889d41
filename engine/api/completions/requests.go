package completions

import (
	"encoding/json"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/forms"
)

// DefaultMaxTokens is how many tokens a completion generates when max_tokens is absent, if the
// model's limit leaves room for them.
const DefaultMaxTokens = 16

// CompletionRequest is the body of POST /v1/completions.
type CompletionRequest struct {
	Params
	Prompt           api.Prompt `json:"prompt" required:"true"`
	Echo             bool       `json:"echo" default:"false"`
	Logprobs         *int       `json:"logprobs" min:"0" max:"20"`
	AddSpecialTokens bool       `json:"add_special_tokens" default:"true"`
}

// Bulk is where the tokens of the prompt are, which are decoded apart.
func (r *CompletionRequest) Bulk() (string, *[][]uint32) { return "prompt", &r.Prompt.Tokens }

// completionBody is what a completion request is decoded into.
type completionBody struct {
	CompletionRequest
	forms.Fields
	chatOnly
	unsupported
}

// DecodeCompletion decodes and validates a completion request.
func DecodeCompletion(body []byte) (*CompletionRequest, *api.Error) {
	var in completionBody
	if err := api.Decode(body, &in); err != nil {
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
	return r, r.readForm(&in.Fields)
}

func (r *CompletionRequest) validate() *api.Error {
	if r.Logprobs != nil {
		r.WantLogprobs, r.Top = true, *r.Logprobs
	}
	if err := r.Params.validate(); err != nil {
		return err
	}
	switch {
	case r.Prompt.Len() == 0:
		return api.Invalid("prompt", "prompt is missing; give a string, a list of strings, or token ids")
	case r.MaxTokens != nil && *r.MaxTokens == 0 && !r.Echo && r.PromptLogprobs == nil:
		return api.Invalid("max_tokens", "max_tokens is 0, which needs echo or prompt_logprobs; otherwise ask for 1 or more")
	}
	return nil
}

// ChatRequest is the body of POST /v1/chat/completions. Messages is a non-empty list of objects,
// passed to the chat template as it came.
type ChatRequest struct {
	Params
	api.Templating
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
	forms.Fields
	unsupported
}

// DecodeChat decodes and validates a chat request. Its MaxTokens is nil when the client left the
// length to the model.
func DecodeChat(body []byte) (*ChatRequest, *api.Error) {
	var in chatBody
	if err := api.Decode(body, &in); err != nil {
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
	if err := r.readForm(&in.Fields); err != nil {
		return nil, err
	}
	return r, r.readTools()
}

func (r *ChatRequest) validate() *api.Error {
	if r.TopLogprobs != nil {
		if *r.TopLogprobs > 0 && !r.Logprobs {
			return api.Invalid("top_logprobs", "top_logprobs needs logprobs to be true")
		}
		r.Top = *r.TopLogprobs
	}
	r.WantLogprobs = r.Logprobs
	if err := r.Params.validate(); err != nil {
		return err
	}
	switch {
	case r.MaxTokens != nil && *r.MaxTokens == 0 && r.PromptLogprobs == nil:
		return api.Invalid("max_tokens", "max_tokens is 0, which needs prompt_logprobs; otherwise ask for 1 or more")
	}
	if err := r.Templating.Validate(); err != nil {
		return err
	}
	return api.CheckMessages(r.Messages)
}

// TokenizeRequest is the body of POST /tokenize: a Prompt, or Messages to render first.
type TokenizeRequest struct {
	api.Templating
	Model            string          `json:"model" is:"ModelName"`
	Prompt           *string         `json:"prompt"`
	Messages         json.RawMessage `json:"messages" is:"Messages"`
	AddSpecialTokens *bool           `json:"add_special_tokens" about:"Default true for a prompt, false for messages."`
	ReturnTokenStrs  bool            `json:"return_token_strs" default:"false"`
}

// DecodeTokenize decodes and validates a tokenize request.
func DecodeTokenize(body []byte) (*TokenizeRequest, *api.Error) {
	r := &TokenizeRequest{}
	if err := api.Decode(body, r); err != nil {
		return nil, err
	}
	if r.Prompt != nil {
		if !api.Neutral(r.Messages, "") {
			return nil, api.Invalid("prompt", "give prompt or messages, not both")
		}
		return r, nil
	}
	if api.Neutral(r.Messages, "") {
		return nil, api.Invalid("prompt", "prompt is missing; give a string, or messages")
	}
	if err := r.Templating.Validate(); err != nil {
		return nil, err
	}
	return r, api.CheckMessages(r.Messages)
}

// DetokenizeRequest is the body of POST /detokenize.
type DetokenizeRequest struct {
	Model  string        `json:"model" is:"ModelName"`
	Tokens api.TokenList `json:"tokens" required:"true"`
}

// DecodeDetokenize decodes and validates a detokenize request.
func DecodeDetokenize(body []byte) (*DetokenizeRequest, *api.Error) {
	r := &DetokenizeRequest{}
	if err := api.Decode(body, r); err != nil {
		return nil, err
	}
	if r.Tokens == nil {
		return nil, api.Invalid("tokens", "tokens is missing; give a list of token ids")
	}
	return r, nil
}
