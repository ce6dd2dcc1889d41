package frontend

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/metrics"
)

// observeExchange counts a finished exchange.
func (f *Frontend) observeExchange(x *exchange.Exchange) {
	if x.Status() >= 400 {
		f.metrics.Refused(x.Status())
	}
	of := outcomeOf(x)
	if of == nil {
		return
	}
	requests := f.metrics.Of(x.Model)
	switch {
	case x.Aborted():
		requests.Aborted()
	case x.Refused() != "":
		requests.Failed(x.Start)
	default:
		of.count(requests, x)
	}
}

// outcome is what is known of a request that asks a model.
type outcome interface {
	count(requests *metrics.Requests, x *exchange.Exchange) // as answered, if it was run
	fields() []zap.Field
	tell(*spanSource)
}

// outcomeOf is that of an exchange; nil if no jobs were made of it.
func outcomeOf(x *exchange.Exchange) outcome {
	switch {
	case x.Completion != nil && x.Completion.Jobs > 0:
		return ofCompletion{x.Completion}
	case x.Inference != nil && x.Inference.Frames > 0:
		return ofInference{x.Inference}
	}
	return nil
}

type ofCompletion struct{ *completion.Record }

func (r ofCompletion) count(requests *metrics.Requests, x *exchange.Exchange) {
	if r.Finish != "" { // not rendered, but run
		requests.Answered(x.Start, r.Record, x.TraceID())
	}
}

func (r ofCompletion) fields() []zap.Field {
	return []zap.Field{
		zap.Int("jobs", r.Jobs), zap.Int("n_input", r.PromptTokens), zap.Int("n_cached", r.CachedTokens), zap.Int("n_output", r.CompletionTokens),
		millisecondsField("queue_ms", r.Queued), millisecondsField("exec_ms", r.Running),
	}
}

type ofInference struct{ *inference.Record }

func (r ofInference) count(requests *metrics.Requests, x *exchange.Exchange) {
	if r.Answered {
		requests.Inferred(x.Start, r.Record, x.TraceID())
	}
}

func (r ofInference) fields() []zap.Field {
	return []zap.Field{
		zap.Float64("frames", r.Frames), millisecondsField("prepare_ms", r.Prepared),
		millisecondsField("queue_ms", r.Queued), millisecondsField("exec_ms", r.Running),
	}
}

// probes are asked many times a minute by whatever watches the server, itself and open pages included.
var probes = map[string]bool{"/ui/now": true, "/health": true, "/ready": true, "/ping": true, "/v2/health/live": true, "/v2/health/ready": true}

// logAccess writes the one line of a request; never text of a prompt or an answer.
func (f *Frontend) logAccess(x *exchange.Exchange, r *http.Request) {
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
		zap.String("request_id", x.ID), zap.String("method", r.Method), zap.String("path", r.URL.Path),
		zap.Int("status", x.Status()), millisecondsField("total_ms", time.Since(x.Start)))
	if id := x.TraceID(); id != "" {
		fields = append(fields, zap.String("trace_id", id))
	}
	if x.Model != "" {
		fields = append(fields, zap.String("model", x.Model))
	}
	if of := outcomeOf(x); of != nil {
		fields = append(fields, of.fields()...)
	}
	if x.Refused() != "" {
		fields = append(fields, zap.String("error", x.Refused()))
	}
	entry.Write(fields...)
}

func millisecondsField(key string, d time.Duration) zap.Field {
	return zap.Float64(key, float64(d.Microseconds())/1000)
}
