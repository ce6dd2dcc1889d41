package frontend

import (
	"context"
	"net/http"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
)

const (
	// bigPrompt is the size in bytes from which a body waits for its turn to be prepared, behind
	// smaller ones; what is smaller is prepared at once.
	bigPrompt = 64 << 10
	// preparePace is about what a byte takes to be prepared.
	preparePace = 500 * time.Nanosecond
)

// prepare reads and decodes r's body, and goes on with what it says. A big body waits for its turn before it
// is decoded, and keeps the turn until next returns.
func prepare[Request, Prepared any](f *Frontend, x *exchange, r *http.Request,
	decode func(body []byte) (*Request, *api.Error), next func(*Request) (*Prepared, *refusal),
) (*Prepared, *refusal) {
	b, refused := f.readBody(x, r)
	if refused != nil {
		return nil, refused
	}
	done, refused := f.turn(r.Context(), b)
	if refused != nil {
		return nil, refused
	}
	defer done()
	request, err := decode(b.bytes)
	f.release(b)
	if err != nil {
		return nil, invalid(err)
	}
	return next(request)
}

// prepareCompletion decodes a completion request and tokenizes its prompts.
func (f *Frontend) prepareCompletion(x *exchange, r *http.Request) (*call, *refusal) {
	return prepare(f, x, r, api.DecodeCompletion, func(request *api.CompletionRequest) (*call, *refusal) {
		return f.completionCall(x, r, request)
	})
}

func (f *Frontend) completionCall(x *exchange, r *http.Request, request *api.CompletionRequest) (*call, *refusal) {
	c, refused := f.newCall(x, r, &request.Params, "cmpl-")
	if refused != nil {
		return nil, refused
	}
	c.echo = request.Echo
	c.prompts = make([]prompt, 0, request.Prompt.Len())
	for i, text := range request.Prompt.Texts {
		if refused := c.checkText(i, text); refused != nil {
			return nil, refused
		}
		ids, refused := c.encode(r.Context(), "prompt", text, c.AddSpecialTokens)
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
	return prepare(f, x, r, api.DecodeChat, func(request *api.ChatRequest) (*call, *refusal) {
		return f.chatCall(x, r, request)
	})
}

func (f *Frontend) chatCall(x *exchange, r *http.Request, request *api.ChatRequest) (*call, *refusal) {
	c, refused := f.newCall(x, r, &request.Params, "chatcmpl-")
	if refused != nil {
		return nil, refused
	}
	c.chat = true
	text, refused := f.renderMessages(request.Messages, &request.Templating)
	if refused == nil {
		refused = c.checkText(0, text)
	}
	if refused != nil {
		return nil, refused
	}
	ids, refused := c.encode(r.Context(), "messages", text, c.AddSpecialTokens)
	if refused != nil {
		return nil, refused
	}
	c.prompts = []prompt{{ids: ids}}
	return c, nil
}

// turn waits until b may be decoded and tokenized, which for all but a big body is now. The caller calls
// done after that. A refused body is released.
func (f *Frontend) turn(ctx context.Context, b *body) (done func(), refused *refusal) {
	if len(b.bytes) < bigPrompt {
		return func() {}, nil
	}
	if f.prepare.Take(ctx, len(b.bytes)) != nil {
		f.release(b)
		return nil, ended(ctx)
	}
	return f.prepare.Give, nil
}

func (f *Frontend) renderMessages(messages []byte, t *api.Templating) (string, *refusal) {
	text, err := f.chat.RenderChat(messages, ChatOptions{
		AddGenerationPrompt: t.GenerationPrompt(), ContinueFinalMessage: t.ContinueFinalMessage, Variables: t.ChatTemplateKwargs,
	})
	if err != nil {
		return "", invalid(api.Invalid("messages", "the chat template cannot render messages: %v", err))
	}
	return text, nil
}

// checkText refuses a text, of prompt i, that no tokenization can fit into the context, before time is
// spent on it.
func (c *call) checkText(i int, text string) *refusal {
	limit := c.f.pool.State().MaxModelLen
	width := c.f.tok.BytesPerToken()
	if limit == 0 || c.TruncatePromptTokens != nil || len(text)/width <= limit {
		return nil
	}
	r := refuse(engine.CodeTooLong, "this model's context holds %d tokens, of at most %d bytes each: no more than %d bytes; prompt %d has %d bytes; shorten the prompt", limit, width, limit*width, i, len(text))
	r.body.Param = c.promptField()
	return r
}

// encode tokenizes text, which came in field.
func (c *call) encode(ctx context.Context, field, text string, addSpecial bool) ([]engine.TokenID, *refusal) {
	return c.f.encode(ctx, c.x.owner.Salt(c.CacheSalt), field, text, addSpecial)
}

// encode tokenizes text, which came in field. Salt separates what is remembered of texts as it separates
// the prefix cache.
func (f *Frontend) encode(ctx context.Context, salt, field, text string, addSpecial bool) ([]engine.TokenID, *refusal) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	ids, err := f.tok.Encode(ctx, salt, text, addSpecial)
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	if err != nil {
		return nil, untokenizable(field, err)
	}
	return ids, nil
}

// untokenizable is the refusal of a text, or of ids, that the model's tokenizer fails on.
func untokenizable(field string, err error) *refusal {
	e := api.Invalid(field, "the model's tokenizer fails on %s: %v", field, err)
	e.Code = "tokenization_failed"
	return invalid(e)
}
