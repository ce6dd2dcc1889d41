package frontend

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/request"
)

// observeExchange counts a finished exchange.
func (f *Frontend) observeExchange(x *exchange.Exchange) {
	if x.Status() >= 400 {
		f.metrics.Refused(x.Status())
	}
	of := x.Record()
	if of == nil {
		return
	}
	requests := f.metrics.Of(x.Model)
	switch {
	case x.Aborted():
		requests.Aborted()
	case x.Refused() != "":
		requests.Failed(x.Start)
	case of.Finish != "": // not rendered, but run
		requests.Answered(x.Start, of, x.TraceID())
	}
}

// recordFields are what the log says of a request's jobs.
func recordFields(of *request.Record) (list []zap.Field) {
	if t := of.Tokens; t != nil {
		list = append(list, zap.Int("jobs", of.Jobs), zap.Int("n_input", t.Prompt), zap.Int("n_cached", t.Cached), zap.Int("n_output", t.Completion))
	}
	if f := of.Frames; f != nil {
		list = append(list, zap.Float64("frames", f.Count), millisecondsField("prepare_ms", f.Prepared))
	}
	return append(list, millisecondsField("queue_ms", of.Queued), millisecondsField("exec_ms", of.Running))
}

// probes are asked many times a minute by whatever watches the server, itself and open pages included.
var probes = map[string]bool{"/ui/now": true, "/ui/now.txt": true, "/health": true, "/ready": true, "/ping": true, "/v2/health/live": true, "/v2/health/ready": true}

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
	if of := x.Record(); of != nil {
		fields = append(fields, recordFields(of)...)
	}
	if x.Refused() != "" {
		fields = append(fields, zap.String("error", x.Refused()))
	}
	entry.Write(fields...)
}

func millisecondsField(key string, d time.Duration) zap.Field {
	return zap.Float64(key, float64(d.Microseconds())/1000)
}
