package frontend

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
