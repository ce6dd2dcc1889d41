package exchange

import (
	"context"
	"net/http"
	"time"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/internal/processors"
)

const (
	// bigPrompt is the size in bytes from which a body waits for a processor to be prepared, behind
	// smaller ones; what is smaller is prepared at once.
	bigPrompt = 64 << 10
	// preparePace is about what a byte takes to be prepared.
	preparePace = 500 * time.Nanosecond
)

// Prepare reads and decodes r's body of JSON, and goes on with what it says. A big body waits for a processor before it
// is decoded, and has it until next returns.
func Prepare[Request, Prepared any](x *Exchange, r *http.Request,
	decode func(body []byte) (*Request, *api.Error), next func(*Request) (*Prepared, *Refusal),
) (made *Prepared, refused *Refusal) {
	b, refused := x.readJSON(r)
	if refused != nil {
		return nil, refused
	}
	defer b.Release()
	ended := x.RunStage(r.Context(), b.preparation(), func() error {
		request, err := decode(b.Bytes)
		if err == nil {
			x.shared.unknown.findFields(r.URL.Path, b.Bytes, x.shared.cfg.Log)
		}
		b.Release()
		if err != nil {
			refused = Invalid(err)
			return nil
		}
		made, refused = next(request)
		return nil
	})
	if ended != nil {
		return nil, ended
	}
	return made, refused
}

// RunStage has a processor do f when its turn has come, on the key's share; f's own errors are of no account.
func (x *Exchange) RunStage(ctx context.Context, s processors.Stage, f func() error) *Refusal {
	s.Tenant = x.Holder()
	if _, err := x.shared.cfg.Processors.Do(ctx, s, f); err != nil {
		return Ended(ctx)
	}
	return nil
}

// preparation is the stage from the decoding of b to its tokens.
func (b *Body) preparation() processors.Stage {
	if len(b.Bytes) < bigPrompt {
		return processors.Stage{}
	}
	return processors.Stage{Kind: "body", Takes: time.Duration(len(b.Bytes)) * preparePace, Yields: true}
}
