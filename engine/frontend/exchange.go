package frontend

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/internal/requestid"
)

// exchange is a request on its way: it knows the request's id and start, and collects what the access log and the
// metrics say about it. It is the ResponseWriter that handlers get, over what middleware made of its recorder.
// One goroutine uses it.
type exchange struct {
	http.ResponseWriter // the handler's
	id                  string
	start               time.Time
	status              int // 0 until the header is written
	refusedWith         string
	owner               apikey.Owner // of the key that the request carries
	memory              int64        // bytes that it took beyond what every request does
	model               string       // the pool's name of the model that the request names
	trace               *traced      // nil: it has no spans
	call                outcome      // of a request that asks a model; may be nil
	errors              errorBody
	release             func() // gives back what the texts of the model are read with; may be nil
	recorder            recorder
}

type exchangeKey struct{}

// begin makes the exchange of a request, and the writer and the request for what comes next.
func begin(w http.ResponseWriter, r *http.Request) (*exchange, http.ResponseWriter, *http.Request) {
	x := &exchange{id: requestid.Of(r.Header.Get("X-Request-Id")), start: time.Now(), errors: errorsOf(r.URL.Path)}
	x.recorder = recorder{ResponseWriter: w, x: x}
	x.ResponseWriter = &x.recorder
	return x, x.ResponseWriter, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
}

// errorBody puts an error of OpenAI's API, under its status, into the words of another.
type errorBody func(status int, e *api.Error) (int, any)

// errorsOf are the words in which requests to a path are refused before a handler knows more.
func errorsOf(path string) errorBody {
	if dialect, ok := dialects[path]; ok {
		return dialect.Error
	}
	if isV2(path) {
		return func(status int, e *api.Error) (int, any) { return status, oip.Error{Message: e.Message} }
	}
	return pooling.OpenAI.Error
}

// dialects are those of the endpoints of scoring, as far as their paths tell.
var dialects = func() map[string]pooling.Dialect {
	of := map[string]pooling.Dialect{}
	for _, e := range pooling.Endpoints() {
		of[e.Path] = e.Errors(nil)
	}
	for _, path := range []string{"/info", "/decode", "/embed_sparse"} {
		of[path] = pooling.TEI
	}
	return of
}()

// handle turns a handler of exchanges into one for the router.
func handle(h func(*exchange, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := r.Context().Value(exchangeKey{}).(*exchange)
		x.ResponseWriter = w
		x.routed(r)
		h(x, r)
	}
}

// end gives back what the exchange holds.
func (x *exchange) end() {
	if x.release != nil {
		x.release()
	}
}

// WriteHeader notes that the answer has begun, which middleware may keep back.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.ResponseWriter.WriteHeader(status)
		x.status = status
	}
}

// Write sends body bytes, after a 200 header if there was none.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// recorder notes what goes out of an exchange, whoever writes it.
type recorder struct {
	http.ResponseWriter
	x     *exchange
	begun bool
}

// WriteHeader sends the header with the time spent so far.
func (r *recorder) WriteHeader(status int) {
	if r.begun {
		return
	}
	r.begun, r.x.status = true, status
	r.Header().Set("Openai-Processing-Ms", strconv.FormatInt(time.Since(r.x.start).Milliseconds(), 10))
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
