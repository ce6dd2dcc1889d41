package completion

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/detokenize"
)

// tokenName is how a token is shown: its text, or "token_id:N" where the client asked for ids
// because texts of byte tokens are all alike.
func (c *Call) tokenName(id engine.TokenID) string {
	if c.ReturnTokensAsTokenIDs {
		return idName(id)
	}
	return strings.ToValidUTF8(string(c.text.TokenBytes(id)), "\uFFFD")
}

func idName(id engine.TokenID) string { return "token_id:" + strconv.FormatUint(uint64(id), 10) }

// completionLogprobs lists, when echo is set and first is 0, the prompt's tokens, and then the
// tokens generated from the first-th on.
func (ch *choice) completionLogprobs(first int) *completions.CompletionLogprobs {
	c := ch.c
	if !c.WantLogprobs {
		return nil
	}
	size := len(ch.answers) - first
	if c.echo && first == 0 {
		size += len(ch.prompt.ids)
	}
	l := &completions.CompletionLogprobs{
		TextOffset: make([]int, 0, size), TokenLogprobs: make([]*float32, 0, size),
		Tokens: make([]string, 0, size), TopLogprobs: api.Made(size, func(i int) completions.TokenDict { return ch.topTokenDict(first, i) }),
	}
	if c.echo && first == 0 {
		ch.addPrompt(l)
	}
	for i, a := range ch.answers[first:] {
		l.TextOffset = append(l.TextOffset, ch.echoed+min(ch.begins[first+i], ch.text.Chars()))
		ch.addLogprob(l, engine.TokenLogprob{ID: a.Token, Logprob: a.Logprob}, ch.topLogprobs(a.Top))
	}
	return l
}

// topLogprobs is the part of a distribution that was asked for.
func (ch *choice) topLogprobs(list []engine.TokenLogprob) []engine.TokenLogprob {
	return list[:min(ch.c.Top, len(list))]
}

// topTokenDict is the i-th of the TopLogprobs that completionLogprobs lists.
func (ch *choice) topTokenDict(first, i int) completions.TokenDict {
	if ch.c.echo && first == 0 {
		if i == 0 || i < len(ch.prompt.ids) && i > len(ch.prompt.scores) {
			return nil
		}
		if i < len(ch.prompt.ids) {
			score := &ch.prompt.scores[i-1]
			return ch.c.newTokenDict(engine.TokenLogprob{ID: ch.prompt.ids[i], Logprob: score.Logprob}, ch.topLogprobs(score.Top), nil)
		}
		i -= len(ch.prompt.ids)
	}
	a := ch.answers[first+i]
	return ch.c.newTokenDict(engine.TokenLogprob{ID: a.Token, Logprob: a.Logprob}, ch.topLogprobs(a.Top), a.Labels)
}

func (ch *choice) addPrompt(l *completions.CompletionLogprobs) {
	text := ch.prompt.text
	at := detokenize.NewPlace(ch.c.text, text)
	for i, id := range ch.prompt.ids {
		l.TextOffset = append(l.TextOffset, at.Offset())
		at.Pass(id)
		if i == 0 || i > len(ch.prompt.scores) {
			l.Tokens, l.TokenLogprobs = append(l.Tokens, ch.c.tokenName(id)), append(l.TokenLogprobs, nil)
			continue
		}
		score := &ch.prompt.scores[i-1]
		ch.addLogprob(l, engine.TokenLogprob{ID: id, Logprob: score.Logprob}, ch.topLogprobs(score.Top))
	}
	ch.echoed = utf8.RuneCountInString(text)
}

func (ch *choice) addLogprob(l *completions.CompletionLogprobs, own engine.TokenLogprob, top []engine.TokenLogprob) {
	if at := indexOf(top, own.ID); at >= 0 {
		own.Logprob = top[at].Logprob // clients tell a greedy token by equality with the greatest
	}
	l.TokenLogprobs = append(l.TokenLogprobs, &own.Logprob)
	l.Tokens = append(l.Tokens, ch.c.tokenName(own.ID))
}

// newTokenDict makes an object of top, the token itself and labels, each once. Where two tokens have the
// same text, the later one goes by its id: an object's second equal key would hide the first.
func (c *Call) newTokenDict(own engine.TokenLogprob, top, labels []engine.TokenLogprob) completions.TokenDict {
	size := len(top) + len(labels) + 1
	d := make(completions.TokenDict, 0, size)
	listed, named := make(map[engine.TokenID]bool, size), make(map[string]bool, size)
	put := func(t engine.TokenLogprob) {
		if listed[t.ID] {
			return
		}
		name := c.tokenName(t.ID)
		if named[name] {
			name = idName(t.ID)
		}
		listed[t.ID], named[name] = true, true
		d = append(d, completions.TokenDictEntry{Token: name, Logprob: t.Logprob})
	}
	for _, t := range top {
		put(t)
	}
	put(own)
	for _, t := range labels {
		put(t)
	}
	return d
}

// chatLogprobs lists the tokens generated from the first-th on.
func (ch *choice) chatLogprobs(first int) *completions.ChatLogprobs {
	c := ch.c
	if !c.WantLogprobs {
		return nil
	}
	return &completions.ChatLogprobs{Content: api.Made(len(ch.answers)-first, func(i int) completions.ChatToken {
		a := ch.answers[first+i]
		top := ch.topLogprobs(a.Top)
		token := completions.ChatToken{TokenLogprob: c.tokenLogprob(engine.TokenLogprob{ID: a.Token, Logprob: a.Logprob})}
		token.Top = make([]completions.TokenLogprob, 0, len(top)+len(a.Labels))
		for _, t := range top {
			token.Top = append(token.Top, c.tokenLogprob(t))
		}
		for _, t := range a.Labels {
			if indexOf(top, t.ID) < 0 {
				token.Top = append(token.Top, c.tokenLogprob(t))
			}
		}
		return token
	})}
}

func (c *Call) tokenLogprob(t engine.TokenLogprob) completions.TokenLogprob {
	raw := c.text.TokenBytes(t.ID)
	numbers := make([]int, len(raw))
	for i, b := range raw {
		numbers[i] = int(b)
	}
	return completions.TokenLogprob{Token: c.tokenName(t.ID), Logprob: max(t.Logprob, api.Floor), Bytes: numbers}
}

// promptLogprobs is vLLM's report on the prompt: at each position the token itself and the
// likeliest; the first position has none.
func (ch *choice) promptLogprobs() api.List[completions.PromptTokens] {
	if ch.c.PromptLogprobs == nil {
		return api.List[completions.PromptTokens]{}
	}
	return api.Made(len(ch.prompt.scores)+1, func(i int) completions.PromptTokens {
		if i == 0 {
			return nil
		}
		id, score := ch.prompt.ids[i], &ch.prompt.scores[i-1]
		top := score.Top[:min(*ch.c.PromptLogprobs, len(score.Top))]
		tokens := make(completions.PromptTokens, 0, len(top)+1)
		if indexOf(top, id) < 0 {
			tokens = append(tokens, ch.c.promptToken(engine.TokenLogprob{ID: id, Logprob: score.Logprob}, int(score.Rank)))
		}
		for rank, t := range top {
			tokens = append(tokens, ch.c.promptToken(t, rank+1))
		}
		return tokens
	})
}

func (c *Call) promptToken(t engine.TokenLogprob, rank int) completions.PromptToken {
	return completions.PromptToken{ID: t.ID, Logprob: t.Logprob, Rank: rank, Decoded: c.tokenName(t.ID)}
}

func indexOf(list []engine.TokenLogprob, id engine.TokenID) int {
	return slices.IndexFunc(list, func(t engine.TokenLogprob) bool { return t.ID == id })
}
