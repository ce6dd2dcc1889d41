package api

import "strconv"

// Usage counts the tokens of one request.
type Usage struct {
	PromptTokens     int                  `json:"prompt_tokens"`
	TotalTokens      int                  `json:"total_tokens"`
	CompletionTokens int                  `json:"completion_tokens"`
	Details          *PromptTokensDetails `json:"prompt_tokens_details,omitempty"`
}

// PromptTokensDetails says how many prompt tokens were found in the prefix cache.
type PromptTokensDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// Append appends u as a further member of an object.
func (u *Usage) Append(b []byte) []byte {
	if u == nil {
		return append(b, `,"usage":null`...)
	}
	b = strconv.AppendInt(append(b, `,"usage":{"prompt_tokens":`...), int64(u.PromptTokens), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(u.TotalTokens), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(u.CompletionTokens), 10)
	if u.Details != nil {
		b = strconv.AppendInt(append(b, `,"prompt_tokens_details":{"cached_tokens":`...), int64(u.Details.CachedTokens), 10)
		b = append(b, '}')
	}
	return append(b, '}')
}
