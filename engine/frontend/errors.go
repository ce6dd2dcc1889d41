package frontend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/inference"
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

// refusalOf maps an error of the pool's client, or of what answers by it: one of the request, a failure of the engine,
// or the end of ctx.
func refusalOf(ctx context.Context, err error) *refusal {
	var wrong *api.Error
	var wrongTensors *inference.RequestError
	var failed *engine.Error
	switch {
	case errors.As(err, &wrong):
		return invalid(wrong)
	case errors.As(err, &wrongTensors):
		return invalid(api.Invalid("", "%v", wrongTensors))
	case errors.As(err, &failed):
		r := fromEngine(failed)
		var field *completion.FieldError
		if errors.As(err, &field) {
			r.body.Param = field.Field
		}
		return r
	case ctx.Err() != nil:
		return ended(ctx)
	}
	return refuse(engine.CodeInternal, "%v", err)
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

// unknownModel is in vLLM's words.
func unknownModel(asked string) *refusal {
	return &refusal{status: http.StatusNotFound, body: &api.Error{
		Message: fmt.Sprintf("The model `%.200s` does not exist.", asked),
		Type:    api.TypeNotFound, Param: "model", Code: "model_not_found",
	}}
}

func unknownPath(path string) *refusal {
	see := "/v1/models, /v1/completions and /v1/chat/completions"
	if strings.HasPrefix(path, "/v1/files") || strings.HasPrefix(path, "/v1/batches") {
		see = "the parameter --batch-dir, with which the server keeps files and batches"
	}
	if isV2(path) {
		see = "/v2/models/MODEL and /v2/models/MODEL/infer"
	}
	return refuseStatus(http.StatusNotFound, api.TypeNotFound, "unknown_path", "%.200s is not served; see %s", path, see)
}

// textFailed refuses what needs the tokenizer of a model whose tokenizer cannot be opened.
func textFailed(m *Model, err error) *refusal {
	return refuse(engine.CodeUnavailable, "the model `%s` has failed: %v", m.Name, err)
}
