package completion

import (
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
)

// AppendEvents appends the server-sent events for what choice i has new, as far as it may be said; spill takes what
// gets long. Several Results that came together make one event.
func (c *Call) AppendEvents(b []byte, spill api.Spill, i int) []byte {
	ch := &c.choices[i]
	first := ch.said
	switch {
	case ch.last.IsZero(), ch.begun && first == len(ch.answers):
		return b
	case c.echoesScores() && !ch.prompt.scored:
		return b
	}
	var usage *api.Usage
	if o := c.StreamOptions; o != nil && o.ContinuousUsage {
		usage = c.usage()
	}
	if c.chat {
		if !ch.begun {
			b = c.chatEvent(b, spill, usage, completions.ChatChoice{Index: i, Delta: &completions.ChatMessage{Role: "assistant", Calls: c.callsFunction()}})
		}
		delta := ch.freshMessage(i)
		part := ch.chatPart(i, first)
		part.Delta = delta
		b = c.chatEvent(b, spill, usage, part)
	} else {
		b = c.completionEvent(b, spill, usage, ch.completionPart(i, first))
	}
	ch.said, ch.begun = len(ch.answers), true
	c.dropScores(i)
	return b
}

// echoesScores says whether the first event of every choice lists the prompt with its scores, which come with the
// first choice of the prompt alone.
func (c *Call) echoesScores() bool { return c.echo && c.WantLogprobs }

// dropScores frees the scores of choice i's prompt when all its choices have said them.
func (c *Call) dropScores(i int) {
	for k := i / c.N * c.N; c.echoesScores() && k < (i/c.N+1)*c.N; k++ {
		if !c.choices[k].begun {
			return
		}
	}
	c.choices[i].prompt.scores = nil
}

// AppendLast appends the events behind those of all choices.
func (c *Call) AppendLast(b []byte, spill api.Spill) []byte {
	if c.StreamOptions != nil && c.StreamOptions.IncludeUsage {
		if c.chat {
			b = c.chatEvent(b, spill, c.usage()) // of no choice
		} else {
			b = c.completionEvent(b, spill, c.usage())
		}
	}
	return AppendDone(b)
}

// AppendDone appends the event that ends every stream.
func AppendDone(b []byte) []byte { return append(b, "data: [DONE]\n\n"...) }

// AppendEvent appends an event of encoded data.
func AppendEvent(b, data []byte) []byte {
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}

func (c *Call) chatEvent(b []byte, spill api.Spill, usage *api.Usage, choices ...completions.ChatChoice) []byte {
	e := c.chatOf("chat.completion.chunk")
	e.Usage, e.Choices.Items = usage, choices
	if len(choices) == 0 {
		e.Metrics = c.metrics()
	}
	return append(e.AppendJSON(append(b, "data: "...), spill), '\n', '\n')
}

func (c *Call) completionEvent(b []byte, spill api.Spill, usage *api.Usage, choices ...completions.CompletionChoice) []byte {
	e := c.newCompletion()
	e.Usage, e.Choices.Items = usage, choices
	if len(choices) == 0 {
		e.Metrics = c.metrics()
	}
	return append(e.AppendJSON(append(b, "data: "...), spill), '\n', '\n')
}
