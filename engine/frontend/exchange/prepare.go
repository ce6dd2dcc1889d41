package exchange

import (
	"context"
	"net/http"
	"time"

	"github.com/prefillonly/prefillonly/engine/api"
)

const (
	// bigPrompt is the size in bytes from which a body waits for its turn to be prepared, behind
	// smaller ones; what is smaller is prepared at once.
	bigPrompt = 64 << 10
	// preparePace is about what a byte takes to be prepared.
	preparePace = 500 * time.Nanosecond
)

// Prepare reads and decodes r's body of JSON, and goes on with what it says. A big body waits for its turn before it
// is decoded, and keeps the turn until next returns.
func Prepare[Request, Prepared any](x *Exchange, r *http.Request,
	decode func(body []byte) (*Request, *api.Error), next func(*Request) (*Prepared, *Refusal),
) (*Prepared, *Refusal) {
	b, refused := x.readJSON(r)
	if refused != nil {
		return nil, refused
	}
	done, refused := x.shared.waitTurn(r.Context(), b)
	if refused != nil {
		return nil, refused
	}
	defer done()
	request, err := decode(b.Bytes)
	if err == nil {
		x.shared.unknown.findFields(r.URL.Path, b.Bytes, x.shared.cfg.Log)
	}
	b.Release()
	if err != nil {
		return nil, Invalid(err)
	}
	return next(request)
}

// waitTurn waits until b may be decoded and tokenized, which for all but a big body is now. The caller calls
// done after that. A refused body is released.
func (s *Shared) waitTurn(ctx context.Context, b *Body) (done func(), refused *Refusal) {
	if len(b.Bytes) < bigPrompt {
		return func() {}, nil
	}
	if s.prepare.Take(ctx, len(b.Bytes)) != nil {
		b.Release()
		return nil, Ended(ctx)
	}
	return s.prepare.Give, nil
}
