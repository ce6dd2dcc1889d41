package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/internal/httpserve"
)

// statusClientClosed is nginx's code for a client that left; only the log and the metrics see it.
const statusClientClosed = 499

// refusal is an HTTP status with its error body. A RetryAfter above 0 becomes a header.
type refusal struct {
	status     int
	body       *api.Error
	retryAfter time.Duration
	noRetry    bool // tell OpenAI's clients not to try again
}

// httpOf is the only table from engine codes to HTTP.
var httpOf = map[engine.Code]struct {
	status  int
	kind    string
	code    string
	noRetry bool
}{
	engine.CodeInternal:     {http.StatusInternalServerError, api.TypeServer, "internal_error", false},
	engine.CodeTooLong:      {http.StatusBadRequest, api.TypeInvalidRequest, "context_length_exceeded", true},
	engine.CodeBadTokens:    {http.StatusBadRequest, api.TypeInvalidRequest, "invalid_tokens", true},
	engine.CodeOverloaded:   {http.StatusTooManyRequests, api.TypeRateLimit, "overloaded", false},
	engine.CodeDeadline:     {http.StatusGatewayTimeout, api.TypeServer, "deadline_exceeded", true},
	engine.CodeCancelled:    {statusClientClosed, api.TypeInvalidRequest, "client_closed_request", true},
	engine.CodeExecutorLost: {http.StatusInternalServerError, api.TypeServer, "executor_lost", true},
	engine.CodeUnavailable:  {http.StatusServiceUnavailable, api.TypeServer, "unavailable", false},
}

// fromEngine maps a failure of the engine. Codes of a newer scheduler are internal errors.
func fromEngine(e *engine.Error) *refusal {
	row, known := httpOf[e.Code]
	if !known {
		row = httpOf[engine.CodeInternal]
	}
	r := &refusal{status: row.status, retryAfter: e.RetryAfter, noRetry: row.noRetry}
	r.body = &api.Error{Message: e.Message, Type: row.kind, Code: row.code}
	again := row.status == http.StatusTooManyRequests || row.status == http.StatusServiceUnavailable
	if again && r.retryAfter <= 0 {
		r.retryAfter = time.Second
	}
	return r
}

// fromPool maps an error of the pool's client, which is a failure of the engine or the end of ctx.
func fromPool(ctx context.Context, err error) *refusal {
	var failed *engine.Error
	if errors.As(err, &failed) {
		return fromEngine(failed)
	}
	return ended(ctx)
}

func refuse(code engine.Code, format string, args ...any) *refusal {
	return fromEngine(engine.Errorf(code, format, args...))
}

// invalid is a 400 about a request field.
func invalid(e *api.Error) *refusal { return &refusal{status: http.StatusBadRequest, body: e} }

func refuseStatus(status int, kind, code, format string, args ...any) *refusal {
	return &refusal{status: status, body: &api.Error{Message: fmt.Sprintf(format, args...), Type: kind, Code: code}}
}

// draining refuses a request that came after the server was told to end, or was not answered by then.
func draining() *refusal {
	r := refuse(engine.CodeUnavailable, "%v; ask again, another server may answer", httpserve.ErrDraining)
	r.body.Code = "shutting_down"
	return r
}

// ended says why the context of a request ended.
func ended(ctx context.Context) *refusal {
	if errors.Is(context.Cause(ctx), httpserve.ErrDraining) {
		return draining()
	}
	return refuse(engine.CodeCancelled, "%v", httpserve.ErrClientGone)
}

// turnAway is the answer to a connection beyond a bound.
func turnAway(b httpserve.Bound, limit int) (status int, contentType string, body []byte) {
	r := refuseStatus(http.StatusServiceUnavailable, api.TypeServer, "too_many_connections", "the server has the %d connections open that it allows; come back later", limit)
	if b == httpserve.BoundAddress {
		r = refuseStatus(http.StatusTooManyRequests, api.TypeRateLimit, "too_many_connections", "your address has the %d connections open that the server allows one; use fewer, or keep them open for more requests", limit)
	}
	body, _ = r.body.MarshalJSON() // strings alone
	return r.status, "application/json", body
}

func unknownModel(asked string, served []string) *refusal {
	return &refusal{status: http.StatusNotFound, body: &api.Error{
		Message: fmt.Sprintf("model %.100q is not served; the served models are: %s", asked, strings.Join(served, ", ")),
		Type:    api.TypeNotFound, Param: "model", Code: "model_not_found",
	}}
}

// refuse answers with r, unless an answer has begun.
func (f *Frontend) refuse(x *exchange, r *refusal) {
	x.refusedWith = r.body.Code
	if x.status != 0 {
		return
	}
	h := x.Header()
	if r.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.retryAfter.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(max(1, r.retryAfter.Milliseconds()), 10))
	}
	if r.noRetry {
		h.Set("X-Should-Retry", "false")
	}
	f.writeJSON(x, r.status, r.body)
}

// writeJSON answers with value, by reflection; for all but the serving path.
func (f *Frontend) writeJSON(x *exchange, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		f.log.Error("encoding an answer", zap.String("request_id", x.id), zap.Error(err))
		status, body = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer could not be encoded","type":"server_error","param":null,"code":"internal_error"}}`)
	}
	f.writeBody(x, status, body)
}

// encoder is an answer that can be encoded in pieces.
type encoder interface {
	AppendJSON(b []byte, spill api.Spill) []byte
}

// writePieces answers with value. A long answer goes out as it is encoded, in chunks without a Content-Length.
func (f *Frontend) writePieces(x *exchange, value encoder) {
	buffer := f.buffers.Get().(*[]byte)
	defer f.buffers.Put(buffer)
	var failed error
	rest := value.AppendJSON((*buffer)[:0], func(piece []byte) (empty []byte, more bool) {
		x.Header().Set("Content-Type", "application/json")
		if failed == nil {
			_, failed = x.Write(piece)
		}
		return piece[:0], failed == nil
	})
	if cap(rest) < bigBody {
		*buffer = rest
	}
	if x.status == 0 {
		f.writeBody(x, http.StatusOK, rest)
		return
	}
	if failed == nil {
		_, failed = x.Write(rest)
	}
	if failed != nil { // net/http lets nothing out any more, so that the answer does not look whole
		x.refusedWith = "client_closed_request"
		f.log.Debug("the client left during its answer", zap.String("request_id", x.id), zap.Error(failed))
	}
}

// writeBody answers with a whole JSON body.
func (f *Frontend) writeBody(x *exchange, status int, body []byte) {
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	if _, err := x.Write(body); err != nil {
		f.log.Debug("the client left before its answer", zap.String("request_id", x.id), zap.Error(err))
	}
}
