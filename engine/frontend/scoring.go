package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/decision"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/scoring"
	"github.com/prefillonly/prefillonly/engine/text"
)

// answerScoring serves an endpoint of embeddings, scores or classes.
func (e *promptEndpoints) answerScoring(of pooling.Endpoint) func(*exchange.Exchange, *http.Request) {
	return func(x *exchange.Exchange, r *http.Request) {
		decode := func(body []byte) (*pooling.Request, *api.Error) {
			x.Words = of.Errors(body).Error
			return of.Decode(body)
		}
		c, refused := prepareCall(e, x, r, decode, func(m *registry.Model, text *text.Text, from *request.Call, body *pooling.Request) (*scoring.Call, error) {
			if m.Checkpoint == nil {
				return nil, api.Invalid("model", "it is not known what the model `%s` is for; ask it for completions", m.Name)
			}
			return e.scoring.Call(r.Context(), &scoring.Subject{Text: text, Model: m.Checkpoint}, from, body)
		})
		answerWhole(x, r, c, refused)
	}
}

// answerDecision serves an endpoint of questions about one input.
func (e *promptEndpoints) answerDecision(decode func(body []byte) (*decisions.Request, *api.Error)) func(*exchange.Exchange, *http.Request) {
	return func(x *exchange.Exchange, r *http.Request) {
		c, refused := prepareCall(e, x, r, decode, func(_ *registry.Model, text *text.Text, from *request.Call, body *decisions.Request) (*decision.Call, error) {
			return decision.Prepare(r.Context(), text, from, body)
		})
		answerWhole(x, r, c, refused)
	}
}
