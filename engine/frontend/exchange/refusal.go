package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/internal/httpserve"
)

// statusClientClosed is nginx's code for a client that left; only the log and the metrics see it.
const statusClientClosed = 499

// codeLeft is of requests whose client left.
const codeLeft = "client_closed_request"

// Refusal is an HTTP status with its error body. A retryAfter above 0 becomes a header.
type Refusal struct {
	Status     int
	Body       *api.Error
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
	engine.CodeCancelled:    {statusClientClosed, api.TypeInvalidRequest, codeLeft, true},
	engine.CodeExecutorLost: {http.StatusInternalServerError, api.TypeServer, "executor_lost", true},
	engine.CodeUnavailable:  {http.StatusServiceUnavailable, api.TypeServer, "unavailable", false},
	engine.CodeConflict:     {http.StatusConflict, api.TypeInvalidRequest, "conflict", true},
}

// fromEngine maps a failure of the engine. Codes of a newer scheduler are internal errors.
func fromEngine(e *engine.Error) *Refusal {
	row, known := httpOf[e.Code]
	if !known {
		row = httpOf[engine.CodeInternal]
	}
	r := &Refusal{Status: row.status, retryAfter: e.RetryAfter, noRetry: row.noRetry}
	r.Body = &api.Error{Message: e.Message, Type: row.kind, Code: row.code}
	if row.status >= http.StatusInternalServerError { // it may be of a file or a socket of the server
		r.Body.Message = engine.HidePaths(e.Message)
	}
	again := row.status == http.StatusTooManyRequests || row.status == http.StatusServiceUnavailable
	if again && r.retryAfter <= 0 {
		r.retryAfter = time.Second
	}
	return r
}

// RefusalOf maps an error of the pool's client, or of what answers by it: one of the request, a failure of the engine,
// or the end of ctx. Nil is of no error.
func RefusalOf(ctx context.Context, err error) *Refusal {
	if err == nil {
		return nil
	}
	var wrong *api.Error
	var failed *engine.Error
	switch {
	case errors.As(err, &wrong):
		return Invalid(wrong)
	case errors.As(err, &failed):
		r := fromEngine(failed)
		var field *request.FieldError
		if errors.As(err, &field) {
			r.Body.Param = field.Field
		}
		return r
	case ctx.Err() != nil:
		return Ended(ctx)
	}
	return newRefusal(engine.CodeInternal, "%v", err)
}

func newRefusal(code engine.Code, format string, args ...any) *Refusal {
	return fromEngine(engine.Errorf(code, format, args...))
}

// Unavailable refuses what may be served later.
func Unavailable(format string, args ...any) *Refusal {
	return newRefusal(engine.CodeUnavailable, format, args...)
}

// Invalid is a 400 about a request field.
func Invalid(e *api.Error) *Refusal { return &Refusal{Status: http.StatusBadRequest, Body: e} }

// WithStatus refuses for a reason of HTTP, of one of the types and with a code of OpenAI's errors.
func WithStatus(status int, kind, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Body: &api.Error{Message: fmt.Sprintf(format, args...), Type: kind, Code: code}}
}

// Draining refuses a request that came after the server was told to end, or was not answered by then.
func Draining() *Refusal {
	r := Unavailable("%v; ask again, another server may answer", httpserve.ErrDraining)
	r.Body.Code = "shutting_down"
	return r
}

// Ended says why the context of a request ended.
func Ended(ctx context.Context) *Refusal {
	if errors.Is(context.Cause(ctx), httpserve.ErrDraining) {
		return Draining()
	}
	return newRefusal(engine.CodeCancelled, "%v", httpserve.ErrClientGone)
}

// UnknownModel is in vLLM's words.
func UnknownModel(asked string) *Refusal {
	return &Refusal{Status: http.StatusNotFound, Body: &api.Error{
		Message: fmt.Sprintf("The model `%.200s` does not exist.", asked),
		Type:    api.TypeNotFound, Param: "model", Code: "model_not_found",
	}}
}

// UnknownPath refuses what no route serves.
func UnknownPath(path string) *Refusal {
	see := "/v1/models, /v1/completions and /v1/chat/completions"
	if strings.HasPrefix(path, "/v1/files") || strings.HasPrefix(path, "/v1/batches") {
		see = "the parameter --batch-dir, with which the server keeps files and batches"
	}
	if isV2(path) {
		see = "/v2/models/MODEL and /v2/models/MODEL/infer"
	}
	return WithStatus(http.StatusNotFound, api.TypeNotFound, "unknown_path", "%.200s is not served; see %s", path, see)
}
