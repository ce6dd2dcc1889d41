package frontend

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
)

// bans are the tokens that the request forbids: those that end an answer until it has min_tokens, EOS
// among them even where ignore_eos keeps it from ending one, and the token that completes a bad word.
func (c *call) bans(ctx context.Context) ([]engine.Ban, *refusal) {
	bans, refused := c.badWords(ctx)
	if c.MinTokens > 0 {
		for _, id := range slices.Concat(c.StopTokenIDs, c.f.eos) {
			bans = append(bans, engine.Ban{Tokens: []engine.TokenID{id}, Before: c.MinTokens})
		}
	}
	return bans, refused
}

// badWords are the bad words as vLLM reads them: the tokens of each word at the beginning of a text
// and, where the space becomes part of the word's first token, of the word after a space.
func (c *call) badWords(ctx context.Context) ([]engine.Ban, *refusal) {
	var bans []engine.Ban
	for i, word := range c.BadWords {
		if slices.Contains(c.BadWords[:i], word) {
			continue
		}
		word = strings.TrimLeftFunc(word, unicode.IsSpace)
		first, refused := c.encode(ctx, "bad_words", word, false)
		if refused != nil {
			return nil, refused
		}
		if len(first) == 0 {
			return nil, invalid(api.Invalid("bad_words", "bad_words: string %d has no tokens", i))
		}
		bans = append(bans, engine.Ban{Tokens: first})
		inside, refused := c.encode(ctx, "bad_words", " "+word, false)
		if refused != nil {
			return nil, refused
		}
		if len(inside) == len(first) && inside[0] != first[0] {
			bans = append(bans, engine.Ban{Tokens: inside})
		}
		if len(bans) > api.MaxBadWords {
			return nil, invalid(api.Invalid("bad_words", "bad_words become more than %d sequences of tokens, which is the limit", api.MaxBadWords))
		}
	}
	return bans, nil
}
