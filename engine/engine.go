// Package engine is the vocabulary every other package shares: tokens, jobs, what a job asks of
// its last position, what it gets back, and the reasons for which a job is refused.
package engine

import (
	"fmt"
	"time"
)

// TokenID is an index into a model's vocabulary.
type TokenID = uint32

// JobID names one job (one prompt of one request). The upper 24 bits are drawn by the frontend
// process that made it, the lower 40 count, so frontends need not agree on anything.
type JobID uint64

func (id JobID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// Ask says what is wanted of a prompt: the distribution of the next token, in which form, and how
// to choose from it. Logprobs are log-softmax at temperature 1 of logits + Bias over the Allowed
// set (over the whole vocabulary when Allowed is empty); what narrows the choice alone (Bans and
// what follows Temperature) does not change them. Where several narrow it, they do so in the order
// Bans, Temperature, MinP, TopK, TopP.
type Ask struct {
	Top            int         // how many of the likeliest tokens to report, 0..MaxTop
	Labels         []TokenID   // tokens to report whatever their rank (logprob_token_ids)
	Allowed        []TokenID   // the only tokens that may be chosen; probabilities are renormalised over them
	Bias           []TokenBias // added to the logits (logit_bias)
	Bans           []Ban       // tokens that may not be chosen (bad_words, min_tokens)
	Temperature    float32     // 0 chooses the likeliest token, whatever MinP, TopK and TopP are
	MinP           float32     // least probability of a token that may be drawn, as a share of the likeliest one's; 0..1
	TopK           int         // how many of the likeliest tokens, and those as likely as the last, may be drawn; 0: all
	TopP           float32     // nucleus in (0,1]; 0 means 1
	Seed           uint64      // seeds the draw; the n-th token of a job draws from (Seed, n)
	PromptLogprobs bool        // also report each prompt position's own token (echo)
	PromptTop      int         // with PromptLogprobs: how many of the likeliest to report at each position
}

// MaxTop bounds Ask.Top and Ask.PromptTop, as vLLM's --max-logprobs default does.
const MaxTop = 20

// TokenBias adds Bias to a token's logit.
type TokenBias struct {
	ID   TokenID
	Bias float32
}

// Ban forbids the last of Tokens wherever the tokens generated so far (not the prompt's) end with
// those before it.
type Ban struct {
	Tokens []TokenID // at least one
	Before int       // forbidden only as one of the first Before tokens; 0: always
}

// TokenLogprob is one entry of a distribution.
type TokenLogprob struct {
	ID      TokenID
	Logprob float32
}

// Answer is one generated token with what was asked beside it.
type Answer struct {
	Token   TokenID
	Logprob float32
	Top     []TokenLogprob // likeliest first, ties by lower id
	Labels  []TokenLogprob // in the order of Ask.Labels
}

// PromptScore is the logprob of a prompt token given those before it, and its rank: how many tokens
// are at least as likely.
type PromptScore struct {
	Logprob float32
	Rank    uint32
	Top     []TokenLogprob
}

// Finish says why a job ended.
type Finish uint8

// The ways a job can end.
const (
	FinishNone   Finish = iota // not ended
	FinishStop                 // a stop token was chosen
	FinishLength               // MaxTokens were generated
)

func (f Finish) String() string {
	return [...]string{"", "stop", "length"}[f]
}

// Timing is where a job's time went, measured by the scheduler.
type Timing struct {
	Queued  time.Duration // from Submit to the start of its first pass
	Running time.Duration // inside passes
}

// Code classifies a refusal or failure; the frontend alone maps codes to HTTP.
type Code uint8

// The reasons for which a job fails.
const (
	CodeInternal     Code = iota + 1 // a defect of ours
	CodeTooLong                      // the prompt exceeds the model's or the memory's limit
	CodeBadTokens                    // a token id outside the vocabulary, or a malformed ask
	CodeOverloaded                   // an admission bound is reached; RetryAfter says when to come back
	CodeDeadline                     // the deadline passed before the job could be answered
	CodeCancelled                    // the client left
	CodeExecutorLost                 // the job's executors died, as often as a job may be run
	CodeUnavailable                  // no executor serves the model now
)

var codeNames = [...]string{"", "internal", "too_long", "bad_tokens", "overloaded", "deadline", "cancelled", "executor_lost", "unavailable"}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", c)
}

// Error is a refusal or failure with the figure or name that explains it.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration // with CodeOverloaded
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error of code c.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}
