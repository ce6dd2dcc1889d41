package completion

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/detokenize"
	"github.com/prefillonly/prefillonly/engine/toolcalls"
)

// choice gathers one answer to a prompt.
type choice struct {
	c       *Call
	prompt  *prompt
	text    detokenize.Text
	answers []*engine.Answer
	begins  []int     // characters of text before each answer
	last    time.Time // when the latest of them came
	cached  int       // of the prompt's tokens
	finish  string    // "" while it goes on
	stop    completions.StopReason

	echoed int  // characters of the prompt, if it is echoed with logprobs
	begun  bool // an event of it is out
	said   int  // answers that are out as events

	called  string // the function that it calls, once it is known
	opening string // of its text, as long as that is not known

	parser *toolcalls.Parser // of an answer whose calls stand in its words
	calls  int               // of those that are known
}

func newChoice(c *Call, promptIndex int) choice {
	p := &c.prompts[promptIndex]
	ch := choice{c: c, prompt: p, text: detokenize.NewText(c.text, c.SkipSpecialTokens, p.ids)}
	if c.toolParser != "" {
		ch.parser = toolcalls.New(c.toolParser)
	}
	return ch
}

func (ch *choice) isDone() bool { return ch.finish != "" }

// accept adds an output, and ends the choice if a stop string is complete.
func (ch *choice) accept(out *engine.TokenOutput, finish engine.Finish) {
	if out.Index == 0 {
		ch.cached = out.Cached
	}
	old := ch.text.Len()
	if out.Answer != nil {
		ch.answers, ch.begins = append(ch.answers, out.Answer), append(ch.begins, ch.text.Chars())
		if finish != engine.FinishStop || ch.c.IncludeStop {
			ch.text.Add(out.Answer.Token)
		}
	}
	if finish != engine.FinishNone {
		ch.finish = finish.String()
		ch.text.End()
		if finish == engine.FinishStop && out.Answer != nil && slices.Contains(ch.c.StopTokenIDs, out.Answer.Token) {
			ch.stop.Token = &out.Answer.Token
		}
	}
	if len(ch.answers) <= ch.c.MinTokens {
		return
	}
	if which := ch.text.Cut(ch.c.Stop, old, ch.c.IncludeStop); which != "" {
		ch.finish, ch.stop = engine.FinishStop.String(), completions.StopReason{Text: which}
	}
}

// freshText returns the text that may go out now and has not.
func (ch *choice) freshText() string { return ch.text.Take(ch.c.Stop, ch.isDone()) }

// generatedTokens are the ids generated from the first-th on.
func (ch *choice) generatedTokens(first int) []engine.TokenID {
	ids := make([]engine.TokenID, 0, len(ch.answers)-first)
	for _, a := range ch.answers[first:] {
		ids = append(ids, a.Token)
	}
	return ids
}
