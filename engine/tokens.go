package engine

import "slices"

// Tokens is a prompt, and what is asked of it.
type Tokens struct {
	IDs       []TokenID // the prompt
	Generated int       // the last of IDs, which were generated before: draws and Bans go on from them
	Max       int       // tokens to generate; 0 asks for prompt logprobs or a vector alone
	Open      bool      // the answer goes on behind Max tokens, if none of them ends it, when the client says how
	Stop      []TokenID // generation ends on these
	Ask       Ask
}

// Units is the length of the prompt.
func (t *Tokens) Units() float64 { return float64(len(t.IDs)) }

func (*Tokens) work() {}

// TokenOutput is one generated token, or the prompt's scores or vector alone where none is generated.
type TokenOutput struct {
	Index  int           // of the token among all that were generated, from 0
	Answer *Answer       // nil where none is generated
	Prompt []PromptScore // with the first token: one for each prompt position from 1
	Vector []float32     // as Ask.Pool says; of PoolAll one vector after the other
	Cached int           // prompt tokens found in the cache when the first pass began
}

func (*TokenOutput) output() {}

// Ask says what is wanted of a prompt: the distribution of the next token, in which form, and how
// to choose from it. Logprobs are log-softmax at temperature 1 of logits + Bias over the Allowed
// set (over the whole vocabulary when Allowed is empty); what narrows the choice alone (Bans and
// what follows Temperature) does not change them. Where several narrow it, they do so in the order
// Bans, Temperature, MinP, TopK, TopP.
type Ask struct {
	Top            int         // how many of the likeliest tokens to report, 0..MaxTop
	Labels         []TokenID   // tokens to report whatever their rank (logprob_token_ids)
	Allowed        TokenSet    // the only tokens that may be chosen; probabilities are renormalised over them
	Bias           []TokenBias // added to the logits (logit_bias)
	Bans           []Ban       // tokens that may not be chosen (bad_words, min_tokens)
	Temperature    float32     // 0 chooses the likeliest token, whatever MinP, TopK and TopP are
	MinP           float32     // least probability of a token that may be drawn, as a share of the likeliest one's; 0..1
	TopK           int         // how many of the likeliest tokens, and those as likely as the last, may be drawn; 0: all
	TopP           float32     // nucleus in (0,1]; 0 means 1
	Seed           uint64      // seeds the draw; the n-th token generated draws from (Seed, n)
	PromptLogprobs bool        // also report each prompt position's own token (echo)
	PromptTop      int         // with PromptLogprobs: how many of the likeliest to report at each position
	PromptFrom     int         // with PromptLogprobs: the first position to report; 0: all
	Pool           Pool        // asks for a vector of the prompt in place of tokens and logprobs
	Head           bool        // with Pool: through the model's classification head, whose logits take the vector's place; encoders pool for it as it was trained, whatever Pool is
	Adapter        string      // of the model's weights, by its name (LoRA); empty: none. It is part of what a prefix cache tells apart
	Second         int         // with Pool: where the second text of a pair begins, for models that tell the two apart; 0: one text
}

// Pool says how the final hidden states of a prompt's tokens, after the last normalisation, become one vector. The names
// are those of sentence-transformers' Pooling module.
type Pool uint8

// The ways. All but PoolLast need the whole prompt computed.
const (
	PoolNone  Pool = iota // no vector is asked for
	PoolLast              // the last token's
	PoolFirst             // the first token's, which is CLS in encoders
	PoolMean
	PoolMax      // the largest number of each dimension
	PoolRoot     // the sum over the root of their number
	PoolWeighted // the mean weighted by position: the i-th token, from 1, counts i times
	PoolAll      // no pooling: all tokens' vectors
)

// Whole says that the hidden states of all tokens are needed.
func (p Pool) Whole() bool { return p > PoolLast }

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

// Applies reports whether the token after so many generated ones would be the one that b forbids here. Last are those
// generated last, as many at least as Ask.Recalls says.
func (b Ban) Applies(generated int, last []TokenID) bool {
	if b.Before > 0 && generated >= b.Before {
		return false
	}
	before := b.Tokens[:len(b.Tokens)-1]
	return len(before) <= len(last) && slices.Equal(before, last[len(last)-len(before):])
}

// Recalls is how many of the tokens generated last decide what is banned.
func (a *Ask) Recalls() (most int) {
	for _, b := range a.Bans {
		most = max(most, len(b.Tokens)-1)
	}
	return most
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
