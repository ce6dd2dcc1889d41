package frontend

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// choice gathers what one job generates.
type choice struct {
	c       *call
	prompt  *prompt
	decoder decoder
	text    []byte
	chars   int // characters of text
	answers []*engine.Answer
	begins  []int     // characters of text before each answer
	last    time.Time // when the latest of them came
	scores  []engine.PromptScore
	cached  int
	finish  string // "" while it goes on
	stop    api.StopReason

	streamed int // bytes of text that are out
	echoed   int // characters of the prompt, if it is echoed with logprobs
}

func newChoice(c *call, promptIndex int) choice {
	p := &c.prompts[promptIndex]
	return choice{c: c, prompt: p, decoder: newDecoder(c.f.tok, c.SkipSpecialTokens, p.ids)}
}

func (ch *choice) done() bool { return ch.finish != "" }

// accept adds a Result, and ends the choice if a stop string is complete.
func (ch *choice) accept(r *wire.Result) {
	if r.Index == 0 {
		ch.scores, ch.cached = r.Prompt, r.Cached
	}
	old := len(ch.text)
	if r.Answer != nil {
		ch.answers, ch.begins = append(ch.answers, r.Answer), append(ch.begins, ch.chars)
		if r.Finish != engine.FinishStop || ch.c.IncludeStop {
			ch.say(ch.decoder.push(r.Answer.Token))
		}
	}
	if r.Finish != engine.FinishNone {
		ch.finish = r.Finish.String()
		ch.say(ch.decoder.flush())
		if r.Finish == engine.FinishStop && r.Answer != nil && slices.Contains(ch.c.StopTokenIDs, r.Answer.Token) {
			ch.stop.Token = &r.Answer.Token
		}
	}
	if len(ch.answers) <= ch.c.MinTokens {
		return
	}
	if at, which := findStop(ch.text, old, ch.c.Stop); at >= 0 {
		ch.finish, ch.stop = engine.FinishStop.String(), api.StopReason{Text: which}
		if ch.c.IncludeStop {
			at += len(which)
		}
		ch.text = ch.text[:at]
		ch.chars = utf8.RuneCount(ch.text)
	}
}

func (ch *choice) say(text string) {
	ch.text = append(ch.text, text...)
	ch.chars += utf8.RuneCountInString(text)
}

// fresh returns the text that may go out now and has not: all of it at the end, and before that
// all but what may become a stop string.
func (ch *choice) fresh() string {
	end := len(ch.text)
	if !ch.done() {
		end -= heldBack(ch.text, ch.c.Stop)
	}
	if end <= ch.streamed {
		return ""
	}
	out := string(ch.text[ch.streamed:end])
	ch.streamed = end
	return out
}

// tokens are the ids generated from the first-th on.
func (ch *choice) tokens(first int) []engine.TokenID {
	ids := make([]engine.TokenID, 0, len(ch.answers)-first)
	for _, a := range ch.answers[first:] {
		ids = append(ids, a.Token)
	}
	return ids
}
