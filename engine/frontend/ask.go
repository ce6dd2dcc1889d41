package frontend

import (
	"context"
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/text"
)

// call is a request on its way through a service.
type call interface {
	Admit(context.Context) error
	Submit() error
	Wait(context.Context) error
	Close()
}

// wholeCall is one whose answer comes as a whole.
type wholeCall interface {
	call
	Answer() api.Encoder
}

// asking is a decoded body that names a model.
type asking[Body any] interface {
	*Body
	Asker() api.Asker
}

// prepareCall reads the body of a request that asks a model which reads texts, and has prepare make a call of it.
func prepareCall[Body any, Asking asking[Body], Call any](
	e *promptEndpoints, x *exchange.Exchange, r *http.Request, decode func(body []byte) (*Body, *api.Error),
	prepare func(m *registry.Model, text *text.Text, from *request.Call, body *Body) (*Call, error),
) (*Call, *exchange.Refusal) {
	return exchange.Prepare(x, r, decode, func(body *Body) (*Call, *exchange.Refusal) {
		asked := Asking(body).Asker()
		m, refused := e.models.Find(x, asked.Model)
		if refused != nil {
			return nil, refused
		}
		x.Rename(r, asked.RequestID)
		from, refused := x.Ask(e.pool, r, m.Name, asked.Model, asked.User)
		if refused != nil {
			return nil, refused
		}
		from.Adapter = m.AdapterNamed(asked.Model)
		text, refused := e.models.Text(r.Context(), x, m)
		if refused != nil {
			return nil, refused
		}
		c, err := prepare(m, text, from, body)
		return c, exchange.RefusalOf(r.Context(), err)
	})
}

// startCall takes a call into the pool. The caller closes it, however that goes.
func startCall(r *http.Request, c call) *exchange.Refusal {
	err := c.Admit(r.Context())
	if err == nil {
		err = c.Submit()
	}
	return exchange.RefusalOf(r.Context(), err)
}

// answerWhole takes a call through the pool and answers it, unless it was refused.
func answerWhole(x *exchange.Exchange, r *http.Request, c wholeCall, refused *exchange.Refusal) {
	if refused == nil {
		refused = runWhole(x, r, c)
	}
	if refused != nil {
		x.Refuse(refused)
	}
}

// runWhole answers itself unless it returns a refusal.
func runWhole(x *exchange.Exchange, r *http.Request, c wholeCall) *exchange.Refusal {
	defer c.Close()
	if refused := startCall(r, c); refused != nil {
		return refused
	}
	if err := c.Wait(r.Context()); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	x.WritePieces(c.Answer())
	return nil
}
