package api

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
)

// Bounds on what one request may ask.
const (
	MaxChoices      = 128  // n
	MaxStops        = 64   // stop strings
	MaxStopBytes    = 1024 // of one stop string or bad word
	MaxListedTokens = 4096 // entries of logit_bias, allowed_token_ids, logprob_token_ids, stop_token_ids
	MaxSaltBytes    = 256  // cache_salt, user, request_id
	MaxBadWords     = 128  // bad_words, also as sequences of tokens
	MaxTop          = 20   // logprobs, top_logprobs, prompt_logprobs
)

// Params is what a completion and a chat request have in common. After decoding, it is validated
// and its defaults are filled in.
type Params struct {
	Model                  string         `json:"model"`
	MaxTokens              *int           `json:"max_tokens"`            // nil: the endpoint's default
	MaxCompletionTokens    *int           `json:"max_completion_tokens"` // folded into MaxTokens
	Temperature            float64        `json:"temperature"`
	TopP                   float64        `json:"top_p"`
	TopK                   int            `json:"top_k"` // 0: all
	MinP                   float64        `json:"min_p"`
	MinTokens              int            `json:"min_tokens"`
	BadWords               []string       `json:"bad_words"`
	Seed                   *int64         `json:"seed"`
	N                      int            `json:"n"`
	BestOf                 *int           `json:"best_of"`
	Stop                   Strings        `json:"stop"`
	StopTokenIDs           TokenList      `json:"stop_token_ids"`
	IgnoreEOS              bool           `json:"ignore_eos"`
	IncludeStop            bool           `json:"include_stop_str_in_output"`
	SkipSpecialTokens      bool           `json:"skip_special_tokens"`
	LogitBias              LogitBias      `json:"logit_bias"`
	AllowedTokenIDs        TokenList      `json:"allowed_token_ids"`
	LogprobTokenIDs        TokenList      `json:"logprob_token_ids"`
	PromptLogprobs         *int           `json:"prompt_logprobs"`
	ReturnTokensAsTokenIDs bool           `json:"return_tokens_as_token_ids"`
	ReturnTokenIDs         bool           `json:"return_token_ids"`
	Stream                 bool           `json:"stream"`
	StreamOptions          *StreamOptions `json:"stream_options"`
	User                   string         `json:"user"`
	CacheSalt              string         `json:"cache_salt"`
	RequestID              string         `json:"request_id"`
	Priority               int            `json:"priority"`
	TruncatePromptTokens   *int           `json:"truncate_prompt_tokens"`
	AddSpecialTokens       bool           `json:"add_special_tokens"`

	WantLogprobs bool  `json:"-"` // logprobs of generated tokens are reported
	Top          int   `json:"-"` // how many of the likeliest tokens at each
	Form         *Form `json:"-"` // of what is generated; nil: any
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
		return Invalid("logit_bias", "logit_bias must be an object from token id to a number")
	}
	if entries == nil {
		return nil
	}
	out := make(LogitBias, 0, len(entries))
	for key, bias := range entries {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil || strconv.FormatUint(id, 10) != key {
			return Invalid("logit_bias", "logit_bias: %.24q is not a token id", key)
		}
		if bias < -100 || bias > 100 {
			return Invalid("logit_bias", "logit_bias: %g for token %s is outside -100 to 100", bias, key)
		}
		out = append(out, TokenBias{uint32(id), float32(bias)})
	}
	slices.SortFunc(out, func(a, b TokenBias) int { return cmp.Compare(a.ID, b.ID) })
	*l = out
	return nil
}

func defaultParams() Params {
	return Params{Temperature: 1, TopP: 1, N: 1, SkipSpecialTokens: true}
}

// validate checks p and folds aliases together.
func (p *Params) validate() *Error {
	if p.MaxCompletionTokens != nil {
		p.MaxTokens = p.MaxCompletionTokens
	}
	if p.TopK == -1 {
		p.TopK = 0 // an older name for all
	}
	for _, check := range []func() *Error{p.checkNumbers, p.checkLists, p.checkStrings} {
		if err := check(); err != nil {
			return err
		}
	}
	if p.StreamOptions != nil && !p.Stream {
		return Invalid("stream_options", "stream_options needs stream to be true")
	}
	if len(p.LogprobTokenIDs) > 0 {
		p.WantLogprobs = true
	}
	return nil
}

func (p *Params) checkNumbers() *Error {
	switch {
	case p.MaxTokens != nil && *p.MaxTokens < 0:
		return Invalid("max_tokens", "max_tokens is %d; it must be 0 or more", *p.MaxTokens)
	case p.Temperature < 0:
		return Invalid("temperature", "temperature is %g; it must be 0 or more", p.Temperature)
	case p.TopP <= 0 || p.TopP > 1:
		return Invalid("top_p", "top_p is %g; it must be above 0 and at most 1", p.TopP)
	case p.TopK < 0:
		return Invalid("top_k", "top_k is %d; it must be 1 or more, or 0 or -1 for all tokens", p.TopK)
	case p.MinP < 0 || p.MinP > 1:
		return Invalid("min_p", "min_p is %g; it must be 0 to 1", p.MinP)
	case p.MinTokens < 0:
		return Invalid("min_tokens", "min_tokens is %d; it must be 0 or more", p.MinTokens)
	case p.MaxTokens != nil && p.MinTokens > *p.MaxTokens:
		return Invalid("min_tokens", "min_tokens is %d; it must be at most max_tokens, which is %d", p.MinTokens, *p.MaxTokens)
	case p.N < 1 || p.N > MaxChoices:
		return Invalid("n", "n is %d; it must be 1 to %d", p.N, MaxChoices)
	case p.BestOf != nil && *p.BestOf != p.N:
		return Invalid("best_of", "best_of is %d and n is %d; only best_of equal to n is served", *p.BestOf, p.N)
	case p.TruncatePromptTokens != nil && (*p.TruncatePromptTokens < -1 || *p.TruncatePromptTokens == 0):
		return Invalid("truncate_prompt_tokens", "truncate_prompt_tokens is %d; it must be 1 or more, or -1 for the model's limit", *p.TruncatePromptTokens)
	case p.Stream && p.PromptLogprobs != nil:
		return Invalid("prompt_logprobs", "prompt_logprobs are not streamed; set stream to false")
	}
	if p.PromptLogprobs != nil {
		return checkTop("prompt_logprobs", *p.PromptLogprobs)
	}
	return nil
}

func checkTop(param string, top int) *Error {
	if top < 0 || top > MaxTop {
		return Invalid(param, "%s is %d; it must be 0 to %d", param, top, MaxTop)
	}
	return nil
}

func (p *Params) checkLists() *Error {
	for _, list := range []struct {
		param string
		count int
	}{
		{"stop_token_ids", len(p.StopTokenIDs)},
		{"logit_bias", len(p.LogitBias)},
		{"allowed_token_ids", len(p.AllowedTokenIDs)},
		{"logprob_token_ids", len(p.LogprobTokenIDs)},
	} {
		if list.count > MaxListedTokens {
			return Invalid(list.param, "%s has %d entries; the limit is %d", list.param, list.count, MaxListedTokens)
		}
	}
	if p.AllowedTokenIDs != nil && len(p.AllowedTokenIDs) == 0 {
		return Invalid("allowed_token_ids", "allowed_token_ids is empty, so no token could be chosen; leave it out or name some")
	}
	return nil
}

func (p *Params) checkStrings() *Error {
	if len(p.Stop) > MaxStops {
		return Invalid("stop", "stop has %d strings; the limit is %d", len(p.Stop), MaxStops)
	}
	if len(p.BadWords) > MaxBadWords {
		return Invalid("bad_words", "bad_words has %d words; the limit is %d", len(p.BadWords), MaxBadWords)
	}
	for _, list := range []struct {
		param string
		texts []string
	}{{"stop", p.Stop}, {"bad_words", p.BadWords}} {
		for i, text := range list.texts {
			if text == "" || len(text) > MaxStopBytes {
				return Invalid(list.param, "%s: string %d has %d bytes; it must have 1 to %d", list.param, i, len(text), MaxStopBytes)
			}
		}
	}
	for _, s := range []struct{ param, value string }{
		{"cache_salt", p.CacheSalt}, {"user", p.User}, {"request_id", p.RequestID},
	} {
		if len(s.value) > MaxSaltBytes {
			return Invalid(s.param, "%s has %d bytes; the limit is %d", s.param, len(s.value), MaxSaltBytes)
		}
	}
	return nil
}
