package frontend

import (
	"context"
	"net/http"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
)

// bigText is the size from which tokenizing a text takes one of as many slots as there are cores.
const bigText = 16 << 10

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

// prepareCompletion decodes a completion request and tokenizes its prompts.
func (f *Frontend) prepareCompletion(x *exchange, r *http.Request) (*call, *refusal) {
	b, refused := f.readBody(x, r)
	if refused != nil {
		return nil, refused
	}
	request, err := api.DecodeCompletion(b.bytes)
	f.release(b)
	if err != nil {
		return nil, invalid(err)
	}
	c, refused := f.newCall(x, r, &request.Params, "cmpl-")
	if refused != nil {
		return nil, refused
	}
	c.echo = request.Echo
	c.prompts = make([]prompt, 0, request.Prompt.Len())
	for _, text := range request.Prompt.Texts {
		ids, refused := f.encode(r.Context(), text, c.AddSpecialTokens)
		if refused != nil {
			return nil, refused
		}
		p := prompt{ids: ids}
		if c.echo && c.TruncatePromptTokens == nil {
			p.text = text
		}
		c.prompts = append(c.prompts, p)
	}
	for _, ids := range request.Prompt.Tokens {
		c.prompts = append(c.prompts, prompt{ids: ids})
	}
	return c, nil
}

// prepareChat decodes a chat request, renders its template and tokenizes the result.
func (f *Frontend) prepareChat(x *exchange, r *http.Request) (*call, *refusal) {
	b, refused := f.readBody(x, r)
	if refused != nil {
		return nil, refused
	}
	request, err := api.DecodeChat(b.bytes)
	f.release(b)
	if err != nil {
		return nil, invalid(err)
	}
	c, refused := f.newCall(x, r, &request.Params, "chatcmpl-")
	if refused != nil {
		return nil, refused
	}
	c.chat = true
	ids, refused := f.renderMessages(r.Context(), request.Messages, c.AddSpecialTokens, ChatOptions{
		AddGenerationPrompt: request.AddGenerationPrompt,
		Variables:           request.ChatTemplateKwargs,
	})
	if refused != nil {
		return nil, refused
	}
	c.prompts = []prompt{{ids: ids}}
	return c, nil
}

func (f *Frontend) renderMessages(ctx context.Context, messages []byte, addSpecial bool, options ChatOptions) ([]engine.TokenID, *refusal) {
	text, err := f.chat.RenderChat(messages, options)
	if err != nil {
		return nil, invalid(api.Invalid("messages", "the chat template cannot render messages: %v", err))
	}
	return f.encode(ctx, text, addSpecial)
}

// encode tokenizes text. Requests do so side by side, but no more big texts at a time than cores.
func (f *Frontend) encode(ctx context.Context, text string, addSpecial bool) ([]engine.TokenID, *refusal) {
	if len(text) > bigText {
		select {
		case f.encoders <- struct{}{}:
			defer func() { <-f.encoders }()
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
	return f.tok.Encode(text, addSpecial), nil
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
	if refused := f.jobs.submit(c.jobs); refused != nil {
		return refused
	}
	defer func() {
		c.usage() // for the log, however it ends
		if c.open > 0 {
			f.jobs.cancel(c.jobs)
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
		out.Text = ch.promptText()
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
