package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
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
	x.call = ofCompletion{&c.Record}
	if err := c.Admit(r.Context()); err != nil {
		return refusalOf(r.Context(), err)
	}
	if err := c.Submit(); err != nil {
		return refusalOf(r.Context(), err)
	}
	defer func() {
		c.Close()
		x.memory += c.Record.Memory
	}()
	if err := c.Wait(r.Context()); err != nil {
		return refusalOf(r.Context(), err)
	}
	f.writePieces(x, c.Answer())
	return nil
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
