package completion

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
)

func (c *Call) newAsk(ctx context.Context) (engine.Ask, error) {
	bans, err := c.bannedTokens(ctx)
	a := engine.Ask{
		Top: c.Top, Labels: c.LogprobTokenIDs, Allowed: engine.NewTokenSet(c.AllowedTokenIDs...), Bans: bans,
		Temperature: float32(c.Temperature), TopP: float32(c.TopP), TopK: c.TopK, MinP: float32(c.MinP),
	}
	if c.Seed != nil {
		a.Seed = uint64(*c.Seed)
	} else {
		a.Seed = rand.Uint64()
	}
	for _, b := range c.LogitBias {
		a.Bias = append(a.Bias, engine.TokenBias{ID: b.ID, Bias: b.Bias})
	}
	nothingElse := c.MaxTokens != nil && *c.MaxTokens == 0 // no job asks for nothing
	if c.echo && (c.WantLogprobs || nothingElse) {
		a.PromptLogprobs, a.PromptTop = true, c.Top
	}
	if c.PromptLogprobs != nil {
		a.PromptLogprobs, a.PromptTop = true, max(a.PromptTop, *c.PromptLogprobs)
	}
	return a, err
}

func (c *Call) stopTokens() []engine.TokenID {
	if c.IgnoreEOS {
		return c.StopTokenIDs
	}
	if len(c.StopTokenIDs) == 0 {
		return c.eos
	}
	return append(slices.Clone(c.StopTokenIDs), c.eos...)
}

// bannedTokens are the tokens that the request forbids: those that end an answer until it has min_tokens, EOS
// among them even where ignore_eos keeps it from ending one, and the token that completes a bad word.
func (c *Call) bannedTokens(ctx context.Context) ([]engine.Ban, error) {
	bans, err := c.badWords(ctx)
	if c.MinTokens > 0 {
		for _, id := range slices.Concat(c.StopTokenIDs, c.eos) {
			bans = append(bans, engine.Ban{Tokens: []engine.TokenID{id}, Before: c.MinTokens})
		}
	}
	return bans, err
}

// badWords are the bad words as vLLM reads them: the tokens of each word at the beginning of a text
// and, where the space becomes part of the word's first token, of the word after a space.
func (c *Call) badWords(ctx context.Context) ([]engine.Ban, error) {
	var bans []engine.Ban
	for i, word := range c.BadWords {
		if slices.Contains(c.BadWords[:i], word) {
			continue
		}
		word = strings.TrimLeftFunc(word, unicode.IsSpace)
		first, err := c.tokenizeText(ctx, "bad_words", word, false)
		if err != nil {
			return nil, err
		}
		if len(first) == 0 {
			return nil, api.Invalid("bad_words", "bad_words: string %d has no tokens", i)
		}
		bans = append(bans, engine.Ban{Tokens: first})
		inside, err := c.tokenizeText(ctx, "bad_words", " "+word, false)
		if err != nil {
			return nil, err
		}
		if len(inside) == len(first) && inside[0] != first[0] {
			bans = append(bans, engine.Ban{Tokens: inside})
		}
		if len(bans) > completions.MaxBadWords {
			return nil, api.Invalid("bad_words", "bad_words become more than %d sequences of tokens, which is the limit", completions.MaxBadWords)
		}
	}
	return bans, nil
}
