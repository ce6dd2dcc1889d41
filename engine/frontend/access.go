package frontend

import (
	"net/http"
	"time"

	"go.uber.org/zap"
)

// observe counts a finished exchange.
func (f *Frontend) observe(x *exchange) {
	if x.status >= 400 {
		f.metrics.Refused(x.status)
	}
	if x.call == nil || x.call.Jobs == 0 {
		return
	}
	requests := f.metrics.Of(x.model)
	switch {
	case x.status == statusClientClosed || x.refusedWith == "client_closed_request":
		requests.Aborted()
	case x.refusedWith != "":
		requests.Failed()
	case x.call.Finish != "": // not rendered, but run
		requests.Answered(x.start, x.call)
	}
}

// probes are asked many times a minute by whatever watches the server, itself included.
var probes = map[string]bool{"/health": true, "/ready": true, "/ping": true}

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
	fields := make([]zap.Field, 0, 13)
	fields = append(fields,
		zap.String("request_id", x.id), zap.String("method", r.Method), zap.String("path", r.URL.Path),
		zap.Int("status", x.status), milliseconds("total_ms", time.Since(x.start)))
	if x.model != "" {
		fields = append(fields, zap.String("model", x.model))
	}
	if c := x.call; c != nil && c.Jobs > 0 {
		fields = append(fields, zap.Int("jobs", c.Jobs), zap.Int("n_input", c.PromptTokens),
			zap.Int("n_cached", c.CachedTokens), zap.Int("n_output", c.CompletionTokens),
			milliseconds("queue_ms", c.Queued), milliseconds("exec_ms", c.Running))
	}
	if x.refusedWith != "" {
		fields = append(fields, zap.String("error", x.refusedWith))
	}
	entry.Write(fields...)
}

func milliseconds(key string, d time.Duration) zap.Field {
	return zap.Float64(key, float64(d.Microseconds())/1000)
}
