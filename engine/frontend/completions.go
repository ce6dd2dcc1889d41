package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/scoring"
	"github.com/prefillonly/prefillonly/engine/text"
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
	return prepareCall(e, x, r, completions.DecodeCompletion, func(m *registry.Model, text *text.Text, from *request.Call, body *completions.CompletionRequest) (*completion.Call, error) {
		if err := checkGenerator(m, from); err != nil {
			return nil, err
		}
		return e.completions.Completion(r.Context(), text, from, body)
	})
}

// prepareChat decodes a chat request, renders its template and tokenizes the result.
func (e *promptEndpoints) prepareChat(x *exchange.Exchange, r *http.Request) (*completion.Call, *exchange.Refusal) {
	return prepareCall(e, x, r, completions.DecodeChat, func(m *registry.Model, text *text.Text, from *request.Call, body *completions.ChatRequest) (*completion.Call, error) {
		if err := checkGenerator(m, from); err != nil {
			return nil, err
		}
		return e.completions.Chat(r.Context(), text, from, body)
	})
}

// checkGenerator refuses to ask a model for tokens that gives none.
func checkGenerator(m *registry.Model, from *request.Call) error {
	if known := from.KnownTokenLimits(); m.Checkpoint != nil && known != nil && known.VectorsOnly {
		return scoring.Unable(m.Checkpoint, m.Name, "completions")
	}
	return nil
}

// answer runs a call and answers when all of it is done, or as it goes.
func (e *promptEndpoints) answer(x *exchange.Exchange, r *http.Request, c *completion.Call, refused *exchange.Refusal) {
	if refused != nil || !c.Stream {
		answerWhole(x, r, c, refused)
		return
	}
	if refused = stream(x, r, c); refused != nil {
		x.Refuse(refused)
	}
}

// renderCompletions answers with the token ids of each prompt, for routers that hash them.
func (e *promptEndpoints) renderCompletions(x *exchange.Exchange, r *http.Request) {
	c, refused := e.prepareCompletion(x, r)
	if refused = e.admitOnly(r, c, refused); refused != nil {
		x.Refuse(refused)
		return
	}
	x.WriteJSON(http.StatusOK, c.Rendered())
}

func (e *promptEndpoints) renderChat(x *exchange.Exchange, r *http.Request) {
	c, refused := e.prepareChat(x, r)
	if refused = e.admitOnly(r, c, refused); refused != nil {
		x.Refuse(refused)
		return
	}
	x.WriteJSON(http.StatusOK, c.Rendered()[0])
}

// admitOnly does to c all that comes before its jobs are submitted.
func (e *promptEndpoints) admitOnly(r *http.Request, c *completion.Call, refused *exchange.Refusal) *exchange.Refusal {
	if refused != nil {
		return refused
	}
	defer c.Close()
	return exchange.RefusalOf(r.Context(), c.Admit(r.Context()))
}
