package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/scoring"
)

func (e *promptEndpoints) answerCompletion(x *exchange.Exchange, r *http.Request) {
	c, refused := e.prepareCompletion(x, r)
	e.answer(x, r, c, refused)
}

func (e *promptEndpoints) answerChat(x *exchange.Exchange, r *http.Request) {
	c, refused := e.prepareChat(x, r)
	e.answer(x, r, c, refused)
}

// prepareCompletion decodes a completion request and tokenizes its prompts.
func (e *promptEndpoints) prepareCompletion(x *exchange.Exchange, r *http.Request) (*completion.Call, *exchange.Refusal) {
	return exchange.Prepare(x, r, completions.DecodeCompletion, func(request *completions.CompletionRequest) (*completion.Call, *exchange.Refusal) {
		text, from, refused := e.generator(x, r, &request.Params)
		if refused != nil {
			return nil, refused
		}
		c, err := e.completions.Completion(r.Context(), &text.Text, from, request)
		return c, exchange.RefusalOf(r.Context(), err)
	})
}

// prepareChat decodes a chat request, renders its template and tokenizes the result.
func (e *promptEndpoints) prepareChat(x *exchange.Exchange, r *http.Request) (*completion.Call, *exchange.Refusal) {
	return exchange.Prepare(x, r, completions.DecodeChat, func(request *completions.ChatRequest) (*completion.Call, *exchange.Refusal) {
		text, from, refused := e.generator(x, r, &request.Params)
		if refused != nil {
			return nil, refused
		}
		c, err := e.completions.Chat(r.Context(), &text.Text, from, request)
		return c, exchange.RefusalOf(r.Context(), err)
	})
}

// generator is origin for requests that ask for tokens, which not all models give.
func (e *promptEndpoints) generator(x *exchange.Exchange, r *http.Request, p *completions.Params) (*registry.Text, completion.Origin, *exchange.Refusal) {
	m, text, from, refused := e.origin(x, r, asker{p.Model, p.User, p.CacheSalt, p.RequestID})
	if refused != nil {
		return nil, from, refused
	}
	served := e.pool.State().Models[m.Name]
	if m.Checkpoint != nil && served != nil && served.Tokens != nil && served.Tokens.VectorsOnly {
		return nil, from, exchange.Invalid(scoring.Unable(m.Checkpoint, m.Name, "completions"))
	}
	return text, from, nil
}

// answer runs a call and answers when all of it is done, or as it goes.
func (e *promptEndpoints) answer(x *exchange.Exchange, r *http.Request, c *completion.Call, refused *exchange.Refusal) {
	if refused == nil {
		x.Completion, c.Record.Trace = &c.Record, x.Times()
		refused = e.run(x, r, c)
		x.Memory += c.Record.Memory
	}
	if refused != nil {
		x.Refuse(refused)
	}
}

// run answers itself unless it returns a refusal.
func (e *promptEndpoints) run(x *exchange.Exchange, r *http.Request, c *completion.Call) *exchange.Refusal {
	if err := c.Admit(r.Context()); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	if err := c.Submit(); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	defer c.Close()
	if c.Stream {
		return e.stream(x, r, c)
	}
	for !c.Done() {
		if _, err := c.Next(r.Context()); err != nil {
			return exchange.RefusalOf(r.Context(), err)
		}
	}
	x.WritePieces(c.Answer())
	return nil
}

// renderCompletions answers with the token ids of each prompt, for routers that hash them.
func (e *promptEndpoints) renderCompletions(x *exchange.Exchange, r *http.Request) {
	c, refused := e.prepareCompletion(x, r)
	if refused = e.admitOnly(x, r, c, refused); refused != nil {
		x.Refuse(refused)
		return
	}
	x.WriteJSON(http.StatusOK, c.Rendered())
}

func (e *promptEndpoints) renderChat(x *exchange.Exchange, r *http.Request) {
	c, refused := e.prepareChat(x, r)
	if refused = e.admitOnly(x, r, c, refused); refused != nil {
		x.Refuse(refused)
		return
	}
	x.WriteJSON(http.StatusOK, c.Rendered()[0])
}

// admitOnly does to c all that comes before its jobs are submitted.
func (e *promptEndpoints) admitOnly(x *exchange.Exchange, r *http.Request, c *completion.Call, refused *exchange.Refusal) *exchange.Refusal {
	if refused != nil {
		return refused
	}
	x.Completion = &c.Record
	return exchange.RefusalOf(r.Context(), c.Admit(r.Context()))
}
