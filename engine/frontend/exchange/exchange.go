// Package exchange is one HTTP request on its way: its body, read within the memory that all bodies may take, and its answer or its
// refusal, in the words of the API that its path belongs to.
package exchange

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/internal/httpserve"
	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/internal/tracing"
)

// Exchange is a request on its way. It collects what the access log, the metrics and the spans say about it. It is the ResponseWriter
// that handlers get, over what middleware made of its recorder. One goroutine uses it.
type Exchange struct {
	http.ResponseWriter // the handler's
	ID                  string
	Start               time.Time
	Owner               apikey.Owner // of the key that the request carries
	Model               string       // the pool's name of the model that the request names
	Words               Words        // of its errors
	Trace               *Trace       // nil: it has no spans

	shared   *Shared
	call     *request.Call // nil: nothing is asked of a model
	memory   int64         // bytes that its body took
	from     string        // the client's address, as one holder
	status   int           // 0 until the header is written
	refused  string
	release  func() // may be nil
	recorder recorder
	context  exchangeContext
}

// Trace is what an exchange collects for its spans.
type Trace struct {
	*tracing.Request
	Jobs  client.Trace
	Route string
}

type exchangeKey struct{}

// exchangeContext is a request's context, by which its exchange is found.
type exchangeContext struct {
	context.Context
	x *Exchange
}

// Value implements context.Context.
func (c *exchangeContext) Value(key any) any {
	if key == (exchangeKey{}) {
		return c.x
	}
	return c.Context.Value(key)
}

// Begin makes the exchange of a request, and the writer and the request for what comes next.
func (s *Shared) Begin(w http.ResponseWriter, r *http.Request) (*Exchange, http.ResponseWriter, *http.Request) {
	x := &Exchange{ID: requestID(r.Header.Get("X-Request-Id")), Start: time.Now(), Words: WordsOf(r.URL.Path), shared: s, from: addressOf(r.RemoteAddr)}
	x.recorder = recorder{ResponseWriter: w, x: x}
	x.ResponseWriter = &x.recorder
	w.Header().Set("X-Request-Id", x.ID)
	x.context = exchangeContext{r.Context(), x}
	return x, x.ResponseWriter, r.WithContext(processors.WithSeat(&x.context))
}

// From is the exchange of a request that Begin returned, by its context.
func From(ctx context.Context) *Exchange { return ctx.Value(exchangeKey{}).(*Exchange) }

// Handle turns a handler of exchanges into one for the router.
func Handle(h func(*Exchange, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := From(r.Context())
		x.ResponseWriter = w
		if x.Trace != nil {
			x.Trace.Route = chi.RouteContext(r.Context()).RoutePattern()
		}
		h(x, r)
	}
}

// Ask begins what the exchange asks a model of the pool, which its client calls named, on behalf of a user of the client's.
func (x *Exchange) Ask(pool *client.Client, r *http.Request, model, named, user string) (*request.Call, *Refusal) {
	deadline, refused := Deadline(r.Header)
	if refused != nil {
		return nil, refused
	}
	x.call = request.New(pool, request.Origin{
		ID: x.ID, Arrived: x.Start, Model: model, Named: named, User: x.User(r.Header, user), Owner: x.Owner, Holder: x.Holder(), Deadline: deadline,
	})
	if x.Trace != nil {
		x.call.Record.Trace = &x.Trace.Jobs
	}
	return x.call, nil
}

// Record is what is told of what the exchange asked; nil if no jobs were made of it.
func (x *Exchange) Record() *request.Record {
	if x.call == nil || x.call.Record.Jobs == 0 {
		return nil
	}
	return &x.call.Record
}

// End gives back what the exchange holds.
func (x *Exchange) End() {
	if x.release != nil {
		x.release()
	}
	if x.call != nil {
		x.memory += x.call.Record.Memory
	}
	x.shared.giveBack(x.memory)
}

// Hold has release called when the exchange ends.
func (x *Exchange) Hold(release func()) { x.release = release }

// Holder is whose share the exchange takes of what all requests may hold: that of its key, or of its group; where no key is asked for,
// that of the client's address. It is empty for the server's own requests then.
func (x *Exchange) Holder() string {
	if x.Owner == (apikey.Owner{}) {
		return x.from
	}
	return x.Owner.ID()
}

// addressOf is the client that a connection's remote address is counted with; empty if it has none.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	return httpserve.Source(at.Addr()).String()
}

// Rename takes the id that a body has, unless a header of r had one.
func (x *Exchange) Rename(r *http.Request, id string) {
	if id != "" && r.Header.Get("X-Request-Id") == "" {
		x.ID = requestID(id)
		x.Header().Set("X-Request-Id", x.ID)
	}
}

// Status is what the answer has, 0 until it has begun.
func (x *Exchange) Status() int { return x.status }

// Refused is the code of the error that the request was refused with, or that ended its answer; empty if there was none.
func (x *Exchange) Refused() string { return x.refused }

// Aborted reports whether the client left before it was answered.
func (x *Exchange) Aborted() bool { return x.status == statusClientClosed || x.refused == codeLeft }

// TraceID names the trace of an exchange; empty where it has no spans.
func (x *Exchange) TraceID() string {
	if x.Trace == nil {
		return ""
	}
	return x.Trace.TraceID()
}

// WriteHeader notes that the answer has begun, which middleware may keep back.
func (x *Exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.ResponseWriter.WriteHeader(status)
		x.status = status
	}
}

// Write sends body bytes, after a 200 header if there was none.
func (x *Exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// recorder notes what goes out of an exchange, whoever writes it.
type recorder struct {
	http.ResponseWriter
	x     *Exchange
	begun bool
}

// WriteHeader sends the header with the time spent so far.
func (r *recorder) WriteHeader(status int) {
	if r.begun {
		return
	}
	r.begun, r.x.status = true, status
	r.Header().Set("Openai-Processing-Ms", strconv.FormatInt(time.Since(r.x.Start).Milliseconds(), 10))
	r.ResponseWriter.WriteHeader(status)
}

// Write sends body bytes, after a 200 header if there was none.
func (r *recorder) Write(b []byte) (int, error) {
	if !r.begun {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
