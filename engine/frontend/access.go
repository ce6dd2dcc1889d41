package frontend

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/spans"
)

// observe counts a finished exchange.
func (f *Frontend) observe(x *exchange) {
	if x.status >= 400 {
		f.metrics.Refused(x.status)
	}
	if x.call == nil || !x.call.asked() {
		return
	}
	requests := f.metrics.Of(x.model)
	switch {
	case x.status == statusClientClosed || x.refusedWith == "client_closed_request":
		requests.Aborted()
	case x.refusedWith != "":
		requests.Failed(x.start)
	default:
		x.call.count(requests, x)
	}
}

// outcome is what is known of a request that asks a model.
type outcome interface {
	asked() bool                                   // jobs were made of it
	count(requests *metrics.Requests, x *exchange) // as answered, if it was run
	fields() []zap.Field
	tell(*spans.Exchange)
}

type ofCompletion struct{ *completion.Record }

func (r ofCompletion) asked() bool { return r.Jobs > 0 }

func (r ofCompletion) count(requests *metrics.Requests, x *exchange) {
	if r.Finish != "" { // not rendered, but run
		requests.Answered(x.start, r.Record, x.traceID())
	}
}

func (r ofCompletion) fields() []zap.Field {
	return []zap.Field{
		zap.Int("jobs", r.Jobs), zap.Int("n_input", r.PromptTokens), zap.Int("n_cached", r.CachedTokens), zap.Int("n_output", r.CompletionTokens),
		milliseconds("queue_ms", r.Queued), milliseconds("exec_ms", r.Running),
	}
}

type ofInference struct{ *inference.Record }

func (r ofInference) asked() bool { return r.Frames > 0 }

func (r ofInference) count(requests *metrics.Requests, x *exchange) {
	if r.Answered {
		requests.Inferred(x.start, r.Record, x.traceID())
	}
}

func (r ofInference) fields() []zap.Field {
	return []zap.Field{
		zap.Float64("frames", r.Frames), milliseconds("prepare_ms", r.Prepared),
		milliseconds("queue_ms", r.Queued), milliseconds("exec_ms", r.Running),
	}
}

// probes are asked many times a minute by whatever watches the server, itself and open pages included.
var probes = map[string]bool{"/ui/now": true, "/health": true, "/ready": true, "/ping": true, "/v2/health/live": true, "/v2/health/ready": true}

// logAccess writes the one line of a request; never text of a prompt or an answer.
func (f *Frontend) logAccess(x *exchange, r *http.Request) {
	if !f.cfg.AccessLog {
		return
	}
	level := zap.InfoLevel
	if probes[r.URL.Path] {
		level = zap.DebugLevel
	}
	entry := f.log.Check(level, "request")
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 14)
	fields = append(fields,
		zap.String("request_id", x.id), zap.String("method", r.Method), zap.String("path", r.URL.Path),
		zap.Int("status", x.status), milliseconds("total_ms", time.Since(x.start)))
	if id := x.traceID(); id != "" {
		fields = append(fields, zap.String("trace_id", id))
	}
	if x.model != "" {
		fields = append(fields, zap.String("model", x.model))
	}
	if x.call != nil && x.call.asked() {
		fields = append(fields, x.call.fields()...)
	}
	if x.refusedWith != "" {
		fields = append(fields, zap.String("error", x.refusedWith))
	}
	entry.Write(fields...)
}

func milliseconds(key string, d time.Duration) zap.Field {
	return zap.Float64(key, float64(d.Microseconds())/1000)
}
