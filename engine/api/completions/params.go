// Package completions is the JSON of OpenAI's completions and chats, and of the tokens of both: requests, decoded and checked,
// and answers, encoded by hand.
package completions

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/forms"
)

// Bounds on what one request may ask, beside those of its fields' tags.
const (
	MaxSaltBytes = 256 // cache_salt, user, request_id
	MaxBadWords  = 128 // bad_words as sequences of tokens
)

// Asker is what the body says of the model that it asks, and of who asks.
func (p *Params) Asker() api.Asker {
	return api.Asker{Model: p.Model, User: p.User, RequestID: p.RequestID}
}

// Params is what a completion and a chat request have in common. After decoding, it is validated
// and its defaults are filled in.
type Params struct {
	Model                  string         `json:"model" is:"ModelName"`
	MaxTokens              *int           `json:"max_tokens" min:"0"`            // nil: the endpoint's default
	MaxCompletionTokens    *int           `json:"max_completion_tokens" min:"0"` // folded into MaxTokens
	Temperature            float64        `json:"temperature" default:"1" min:"0"`
	TopP                   float64        `json:"top_p" default:"1" above:"0" max:"1"`
	TopK                   int            `json:"top_k" default:"0" min:"-1" says:"1 or more, or 0 or -1 for all tokens"` // 0: all
	MinP                   float64        `json:"min_p" default:"0" min:"0" max:"1"`
	MinTokens              int            `json:"min_tokens" default:"0" min:"0"`
	BadWords               []string       `json:"bad_words" items:"128" each:"1024"`
	Seed                   *int64         `json:"seed"`
	N                      int            `json:"n" default:"1" min:"1" max:"128"`
	BestOf                 *int           `json:"best_of" about:"As n is, or left out."`
	Stop                   api.Strings    `json:"stop" items:"64" each:"1024"`
	StopTokenIDs           api.TokenList  `json:"stop_token_ids" items:"4096"`
	IgnoreEOS              bool           `json:"ignore_eos" default:"false"`
	IncludeStop            bool           `json:"include_stop_str_in_output" default:"false"`
	SkipSpecialTokens      bool           `json:"skip_special_tokens" default:"true"`
	LogitBias              LogitBias      `json:"logit_bias" items:"4096"`
	AllowedTokenIDs        api.TokenList  `json:"allowed_token_ids" items:"4096"`
	LogprobTokenIDs        api.TokenList  `json:"logprob_token_ids" items:"4096"`
	PromptLogprobs         *int           `json:"prompt_logprobs" min:"0" max:"20"`
	ReturnTokensAsTokenIDs bool           `json:"return_tokens_as_token_ids" default:"false"`
	ReturnTokenIDs         bool           `json:"return_token_ids" default:"false"`
	Stream                 bool           `json:"stream" default:"false"`
	StreamOptions          *StreamOptions `json:"stream_options"`
	User                   string         `json:"user" bytes:"256"`
	CacheSalt              string         `json:"cache_salt" bytes:"256"`
	RequestID              string         `json:"request_id" bytes:"256"`
	Priority               int            `json:"priority" default:"0"`
	TruncatePromptTokens   *int           `json:"truncate_prompt_tokens" min:"-1" except:"0" says:"1 or more, or -1 for the model's limit"`

	AddSpecial   bool        `json:"-"` // the tokenizer's special tokens are put around texts
	WantLogprobs bool        `json:"-"` // logprobs of generated tokens are reported
	Top          int         `json:"-"` // how many of the likeliest tokens at each
	Form         *forms.Form `json:"-"` // of what is generated; nil: any
}

// StreamOptions says what a stream carries beside text.
type StreamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

// TokenBias adds Bias to the logit of token ID.
type TokenBias struct {
	ID   uint32
	Bias float32
}

// LogitBias is sorted by token id; on the wire it is an object from id to bias.
type LogitBias []TokenBias

// UnmarshalJSON decodes {"<token id>": <bias in -100..100>}. A null leaves l as it is.
func (l *LogitBias) UnmarshalJSON(raw []byte) error {
	var entries map[string]float64
	if err := json.Unmarshal(raw, &entries); err != nil {
		return api.Invalid("logit_bias", "logit_bias must be an object from token id to a number")
	}
	if entries == nil {
		return nil
	}
	out := make(LogitBias, 0, len(entries))
	for key, bias := range entries {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil || strconv.FormatUint(id, 10) != key {
			return api.Invalid("logit_bias", "logit_bias: %.24q is not a token id", key)
		}
		if bias < -100 || bias > 100 {
			return api.Invalid("logit_bias", "logit_bias: %g for token %s is outside -100 to 100", bias, key)
		}
		out = append(out, TokenBias{uint32(id), float32(bias)})
	}
	slices.SortFunc(out, func(a, b TokenBias) int { return cmp.Compare(a.ID, b.ID) })
	*l = out
	return nil
}

// validate checks p and folds aliases together.
func (p *Params) validate() *api.Error {
	if p.MaxCompletionTokens != nil {
		p.MaxTokens = p.MaxCompletionTokens
	}
	if p.TopK == -1 {
		p.TopK = 0 // an older name for all
	}
	if err := p.checkTogether(); err != nil {
		return err
	}
	if p.StreamOptions != nil && !p.Stream {
		return api.Invalid("stream_options", "stream_options needs stream to be true")
	}
	if len(p.LogprobTokenIDs) > 0 {
		p.WantLogprobs = true
	}
	return nil
}

// checkTogether refuses what no field alone is wrong with.
func (p *Params) checkTogether() *api.Error {
	switch {
	case p.MaxTokens != nil && p.MinTokens > *p.MaxTokens:
		return api.Invalid("min_tokens", "min_tokens is %d; it must be at most max_tokens, which is %d", p.MinTokens, *p.MaxTokens)
	case p.BestOf != nil && *p.BestOf != p.N:
		return api.Invalid("best_of", "best_of is %d and n is %d; only best_of equal to n is served", *p.BestOf, p.N)
	case p.Stream && p.PromptLogprobs != nil:
		return api.Invalid("prompt_logprobs", "prompt_logprobs are not streamed; set stream to false")
	case p.AllowedTokenIDs != nil && len(p.AllowedTokenIDs) == 0:
		return api.Invalid("allowed_token_ids", "allowed_token_ids is empty, so no token could be chosen; leave it out or name some")
	}
	return nil
}

// readForm reads what is generated from the fields that say it.
func (p *Params) readForm(f *forms.Fields) *api.Error {
	form, err := f.Form()
	if form != nil && len(p.AllowedTokenIDs) > 0 {
		return api.Invalid("allowed_token_ids", "allowed_token_ids and %s both say which tokens may come; give one", form.Field)
	}
	p.Form = form
	return err
}
