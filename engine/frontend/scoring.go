package frontend

import (
	"context"
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/decision"
	"github.com/prefillonly/prefillonly/engine/scoring"
)

// answerScoring serves an endpoint of embeddings, scores or classes.
func (f *Frontend) answerScoring(e pooling.Endpoint) func(*exchange, *http.Request) {
	return func(x *exchange, r *http.Request) {
		if refused := f.runScoring(x, r, e); refused != nil {
			f.refuse(x, refused)
		}
	}
}

// runScoring answers itself unless it returns a refusal.
func (f *Frontend) runScoring(x *exchange, r *http.Request, e pooling.Endpoint) *refusal {
	decode := func(body []byte) (*pooling.Request, *api.Error) {
		x.errors = e.Errors(body).Error
		return e.Decode(body)
	}
	c, refused := prepare(f, x, r, decode, func(request *pooling.Request) (*scoring.Call, *refusal) { return f.prepareScoring(x, r, request) })
	if refused != nil {
		return refused
	}
	return f.answerWhole(x, r, c, &c.Record)
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
func (f *Frontend) answerWhole(x *exchange, r *http.Request, q question, record *completion.Record) *refusal {
	x.call, record.Trace = ofCompletion{record}, x.times()
	if err := q.Admit(r.Context()); err != nil {
		return refusalOf(r.Context(), err)
	}
	if err := q.Submit(); err != nil {
		return refusalOf(r.Context(), err)
	}
	defer func() {
		q.Close()
		x.memory += record.Memory
	}()
	if err := q.Wait(r.Context()); err != nil {
		return refusalOf(r.Context(), err)
	}
	f.writePieces(x, q.Answer())
	return nil
}

// answerDecision serves an endpoint of questions about one input.
func (f *Frontend) answerDecision(decode func(body []byte) (*decisions.Request, *api.Error)) func(*exchange, *http.Request) {
	return func(x *exchange, r *http.Request) {
		c, refused := prepare(f, x, r, decode, func(request *decisions.Request) (*decision.Call, *refusal) {
			_, text, from, refused := f.origin(x, r, asker{request.Model, request.User, request.Salt, request.RequestID})
			if refused != nil {
				return nil, refused
			}
			c, err := f.decisions.Prepare(r.Context(), &text.Text, from, request)
			return c, f.orRefused(r, err)
		})
		if refused == nil {
			refused = f.answerWhole(x, r, c, &c.Record)
		}
		if refused != nil {
			f.refuse(x, refused)
		}
	}
}

func (f *Frontend) prepareScoring(x *exchange, r *http.Request, request *pooling.Request) (*scoring.Call, *refusal) {
	m, text, from, refused := f.origin(x, r, asker{request.Model, request.User, request.Salt, request.RequestID})
	if refused != nil {
		return nil, refused
	}
	if m.Checkpoint == nil {
		return nil, invalid(api.Invalid("model", "it is not known what the model `%s` is for; ask it for completions", m.Name))
	}
	c, err := f.scoring.Call(r.Context(), &scoring.Subject{Text: &text.Text, Specials: text.Specials, Model: m.Checkpoint}, from, request)
	return c, f.orRefused(r, err)
}
