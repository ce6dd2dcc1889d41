package frontend

import (
	"context"
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/decision"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/scoring"
)

// answerScoring serves an endpoint of embeddings, scores or classes.
func (e *promptEndpoints) answerScoring(of pooling.Endpoint) func(*exchange.Exchange, *http.Request) {
	return func(x *exchange.Exchange, r *http.Request) {
		if refused := e.runScoring(x, r, of); refused != nil {
			x.Refuse(refused)
		}
	}
}

// runScoring answers itself unless it returns a refusal.
func (e *promptEndpoints) runScoring(x *exchange.Exchange, r *http.Request, of pooling.Endpoint) *exchange.Refusal {
	decode := func(body []byte) (*pooling.Request, *api.Error) {
		x.Words = of.Errors(body).Error
		return of.Decode(body)
	}
	c, refused := exchange.Prepare(x, r, decode, func(request *pooling.Request) (*scoring.Call, *exchange.Refusal) {
		return e.prepareScoring(x, r, request)
	})
	if refused != nil {
		return refused
	}
	return e.answerWhole(x, r, c, &c.Record)
}

// question is a request on its way whose answer comes as a whole.
type question interface {
	Admit(context.Context) error
	Submit() error
	Wait(context.Context) error
	Answer() api.Encoder
	Close()
}

// answerWhole takes a request through the pool and answers it, unless it returns a refusal.
func (e *promptEndpoints) answerWhole(x *exchange.Exchange, r *http.Request, q question, record *completion.Record) *exchange.Refusal {
	x.Completion, record.Trace = record, x.Times()
	if err := q.Admit(r.Context()); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	if err := q.Submit(); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	defer func() {
		q.Close()
		x.Memory += record.Memory
	}()
	if err := q.Wait(r.Context()); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	x.WritePieces(q.Answer())
	return nil
}

// answerDecision serves an endpoint of questions about one input.
func (e *promptEndpoints) answerDecision(decode func(body []byte) (*decisions.Request, *api.Error)) func(*exchange.Exchange, *http.Request) {
	return func(x *exchange.Exchange, r *http.Request) {
		c, refused := exchange.Prepare(x, r, decode, func(request *decisions.Request) (*decision.Call, *exchange.Refusal) {
			_, text, from, refused := e.origin(x, r, asker{request.Model, request.User, request.Salt, request.RequestID})
			if refused != nil {
				return nil, refused
			}
			c, err := e.decisions.Prepare(r.Context(), &text.Text, from, request)
			return c, exchange.RefusalOf(r.Context(), err)
		})
		if refused == nil {
			refused = e.answerWhole(x, r, c, &c.Record)
		}
		if refused != nil {
			x.Refuse(refused)
		}
	}
}

func (e *promptEndpoints) prepareScoring(x *exchange.Exchange, r *http.Request, request *pooling.Request) (*scoring.Call, *exchange.Refusal) {
	m, text, from, refused := e.origin(x, r, asker{request.Model, request.User, request.Salt, request.RequestID})
	if refused != nil {
		return nil, refused
	}
	if m.Checkpoint == nil {
		return nil, exchange.Invalid(api.Invalid("model", "it is not known what the model `%s` is for; ask it for completions", m.Name))
	}
	c, err := e.scoring.Call(r.Context(), &scoring.Subject{Text: &text.Text, Specials: text.Specials, Model: m.Checkpoint}, from, request)
	return c, exchange.RefusalOf(r.Context(), err)
}
