package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
)

func (f *Frontend) completions(x *exchange, r *http.Request) {
	c, refused := f.prepareCompletion(x, r)
	if refused == nil {
		refused = f.run(c, r)
	}
	if refused != nil {
		f.refuse(x, refused)
	}
}

func (f *Frontend) chatCompletions(x *exchange, r *http.Request) {
	c, refused := f.prepareChat(x, r)
	if refused == nil {
		refused = f.run(c, r)
	}
	if refused != nil {
		f.refuse(x, refused)
	}
}

// run submits c's jobs and answers when all are done, or as they go. It answers itself unless it
// returns a refusal.
func (f *Frontend) run(c *call, r *http.Request) *refusal {
	limits, refused := f.limits(r.Context())
	if refused != nil {
		return refused
	}
	if refused := c.admit(r, limits); refused != nil {
		return refused
	}
	if refused := f.logprobs.hold(c.asked.ofPrompts()); refused != nil {
		return refused
	}
	c.held = c.asked.ofPrompts()
	defer func() {
		f.logprobs.release(c.held)
		c.x.memory += c.held * logprobBytes
	}()
	if err := f.pool.Submit(c.jobs); err != nil {
		return fromEngine(err)
	}
	defer func() {
		c.usage() // for the log, however it ends
		if c.open > 0 {
			f.pool.Cancel(c.jobs...)
		}
	}()
	if c.Stream {
		return f.stream(c, r)
	}
	for c.open > 0 {
		if _, refused := c.next(r.Context()); refused != nil {
			return refused
		}
	}
	c.received = nil // is in the choices
	if c.chat {
		f.writePieces(c.x, c.chatAnswer())
	} else {
		f.writePieces(c.x, c.completionAnswer())
	}
	return nil
}

func (c *call) completionAnswer() *api.Completion {
	answer := &api.Completion{ID: c.id, Object: "text_completion", Created: c.created, Model: c.model, Usage: c.usage()}
	answer.Choices = api.Made(len(c.choices), func(i int) api.CompletionChoice {
		if i > 0 {
			c.choices[i-1].scores = nil // are out
		}
		part := c.choices[i].completionPart(i, 0)
		part.PromptLogprobs = c.choices[i].promptLogprobs()
		return part
	})
	return answer
}

// completionPart is what choice i has to say that was not said yet; first counts its tokens that
// were.
func (ch *choice) completionPart(i, first int) api.CompletionChoice {
	out := api.CompletionChoice{Index: i, Logprobs: ch.completionLogprobs(first), FinishReason: ch.finish, StopReason: ch.stop}
	if ch.c.echo && first == 0 {
		out.Text = ch.prompt.text
	}
	out.Text += ch.fresh()
	if ch.c.ReturnTokenIDs {
		out.TokenIDs = ch.tokens(first)
		if first == 0 {
			out.PromptTokenIDs = ch.prompt.ids
		}
	}
	return out
}

func (c *call) chatAnswer() *api.Chat {
	answer := &api.Chat{ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model, Usage: c.usage()}
	answer.Choices = api.Made(len(c.choices), func(i int) api.ChatChoice {
		ch := &c.choices[i]
		part := ch.chatPart(i, 0)
		part.Message = &api.ChatMessage{Role: "assistant", Content: ch.fresh()}
		return part
	})
	answer.PromptLogprobs = c.choices[0].promptLogprobs()
	if c.ReturnTokenIDs {
		answer.PromptTokenIDs = c.prompts[0].ids
	}
	return answer
}

// chatPart is choice i without its message.
func (ch *choice) chatPart(i, first int) api.ChatChoice {
	out := api.ChatChoice{Index: i, Logprobs: ch.chatLogprobs(first), FinishReason: ch.finish, StopReason: ch.stop}
	if ch.c.ReturnTokenIDs {
		out.TokenIDs = ch.tokens(first)
	}
	return out
}
