package completions

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/api"
)

// Completion is the answer to a completion request, or one event of its stream.
type Completion struct {
	ID      string                     `json:"id"`
	Object  string                     `json:"object"` // "text_completion"
	Created int64                      `json:"created"`
	Model   string                     `json:"model"`
	Choices api.List[CompletionChoice] `json:"choices"`
	Usage   *api.Usage                 `json:"usage"`
	Metrics *Metrics                   `json:"metrics,omitempty"`
}

// Metrics are the times of a request, in milliseconds, as vLLM gives them. What needs two tokens, or any, is 0 without them.
type Metrics struct {
	FirstToken      float64 `json:"time_to_first_token_ms"`
	Queue           float64 `json:"queue_time_ms"`
	Generation      float64 `json:"generation_time_ms"` // from the first token to the last
	BetweenTokens   float64 `json:"mean_itl_ms"`
	TokensPerSecond float64 `json:"tokens_per_second"` // from the start of the first pass to the last token
}

// CompletionChoice is one generated text.
type CompletionChoice struct {
	Index          int                    `json:"index"`
	Text           string                 `json:"text"`
	Logprobs       *CompletionLogprobs    `json:"logprobs"`
	FinishReason   string                 `json:"finish_reason" null:"true"` // "" is null: not finished
	StopReason     StopReason             `json:"stop_reason"`
	TokenIDs       []uint32               `json:"token_ids,omitempty"`
	PromptTokenIDs []uint32               `json:"prompt_token_ids,omitempty"`
	PromptLogprobs api.List[PromptTokens] `json:"prompt_logprobs"` // absent when empty
}

// StopReason is the stop string or the stop token's id that ended a text; empty is null.
type StopReason struct {
	Text  string
	Token *uint32
}

// CompletionLogprobs has one entry a token in each list. With echo the first token has no
// logprob: it and its TopLogprobs are null.
type CompletionLogprobs struct {
	TextOffset    []int               `json:"text_offset"` // in characters
	TokenLogprobs []*float32          `json:"token_logprobs"`
	Tokens        []string            `json:"tokens"`
	TopLogprobs   api.List[TokenDict] `json:"top_logprobs"`
}

// TokenDict is an object from a token's text to its logprob, in the order given; nil is null.
type TokenDict []TokenDictEntry

// TokenDictEntry is one entry of a TokenDict.
type TokenDictEntry struct {
	Token   string
	Logprob float32
}

// PromptTokens is vLLM's prompt_logprobs entry of one position, an object from token id to
// PromptToken; nil is null.
type PromptTokens []PromptToken

// PromptToken is a token, its logprob and its rank, from 1 on, at a prompt position.
type PromptToken struct {
	ID      uint32  `json:"-"`
	Logprob float32 `json:"logprob"`
	Rank    int     `json:"rank"`
	Decoded string  `json:"decoded_token"`
}

// Chat is the answer to a chat request, or one event of its stream.
type Chat struct {
	ID             string                 `json:"id"`
	Object         string                 `json:"object"` // "chat.completion" or "chat.completion.chunk"
	Created        int64                  `json:"created"`
	Model          string                 `json:"model"`
	Choices        api.List[ChatChoice]   `json:"choices"`
	Usage          *api.Usage             `json:"usage"`
	Metrics        *Metrics               `json:"metrics,omitempty"`
	PromptTokenIDs []uint32               `json:"prompt_token_ids,omitempty"`
	PromptLogprobs api.List[PromptTokens] `json:"prompt_logprobs"` // absent when empty
}

// ChatChoice is one generated message: whole in an answer, a delta in an event.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      *ChatMessage  `json:"message,omitempty"`
	Delta        *ChatMessage  `json:"delta,omitempty"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason string        `json:"finish_reason" null:"true"` // "" is null: not finished
	StopReason   StopReason    `json:"stop_reason"`
	TokenIDs     []uint32      `json:"token_ids,omitempty"`
}

// ChatMessage is what the model said. Role is empty in a delta that continues one. Content is null where a function is
// called.
type ChatMessage struct {
	Role      string     `json:"role,omitempty"`
	Content   string     `json:"content"`
	Calls     bool       `json:"-"` // a function is called
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ChatLogprobs holds the logprobs of a message's tokens.
type ChatLogprobs struct {
	Content api.List[ChatToken] `json:"content"`
}

// ChatToken is one generated token and the likeliest at its place.
type ChatToken struct {
	TokenLogprob
	Top []TokenLogprob `json:"top_logprobs"`
}

// TokenLogprob is a token with its text, logprob and bytes.
type TokenLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // of the text; null for a token without any
}

// Tokenized is the answer to POST /tokenize.
type Tokenized struct {
	Count       int              `json:"count"`
	MaxModelLen int              `json:"max_model_len"`
	Tokens      []uint32         `json:"tokens"`
	TokenStrs   api.List[string] `json:"token_strs"` // null when empty
}

// Detokenized is the answer to POST /detokenize.
type Detokenized struct {
	Prompt string `json:"prompt"`
}

// Rendered is a request after templating and tokenization, the answer of the render endpoints.
type Rendered struct {
	RequestID string           `json:"request_id"`
	Model     string           `json:"model"`
	TokenIDs  []uint32         `json:"token_ids"`
	Sampling  RenderedSampling `json:"sampling_params"`
	Stream    bool             `json:"stream"`
	Options   *StreamOptions   `json:"stream_options"`
	CacheSalt string           `json:"cache_salt,omitempty"`
	Priority  int              `json:"priority"`
}

// RenderedSampling is the part of Rendered that says how to generate.
type RenderedSampling struct {
	N           int     `json:"n"`
	MaxTokens   int     `json:"max_tokens"`
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	Seed        *int64  `json:"seed"`
}

// MarshalJSON encodes the reason as a string, a number or null.
func (r StopReason) MarshalJSON() ([]byte, error) { return r.appendJSON(nil), nil }

// UnmarshalJSON decodes what MarshalJSON encodes.
func (r *StopReason) UnmarshalJSON(data []byte) error {
	*r = StopReason{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &r.Text)
	}
	return json.Unmarshal(data, &r.Token)
}

// MarshalJSON encodes d as an object.
func (d TokenDict) MarshalJSON() ([]byte, error) { return d.appendJSON(nil), nil }

// UnmarshalJSON decodes an object, keeping its order.
func (d *TokenDict) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	open, err := decoder.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("top_logprobs entry is %v, not an object", open)
	}
	*d = TokenDict{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		entry := TokenDictEntry{Token: key.(string)} // inside an object every first token is a key
		if err := decoder.Decode(&entry.Logprob); err != nil {
			return err
		}
		*d = append(*d, entry)
	}
	return nil
}
