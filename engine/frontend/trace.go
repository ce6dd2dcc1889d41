package frontend

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/spans"
	"github.com/prefillonly/prefillonly/internal/tracing"
)

// traced is what an exchange collects for its spans.
type traced struct {
	*tracing.Request
	jobs  client.Trace
	route string
}

// trace begins the spans of an exchange whose key is one of the server's. What watches the server has none.
func (f *Frontend) trace(x *exchange, r *http.Request) {
	if f.cfg.Tracer == nil || watched[r.URL.Path] {
		return
	}
	if request := f.cfg.Tracer.Begin(r.Header); request != nil {
		x.trace = &traced{Request: request}
	}
}

// times is where an exchange keeps the times of its jobs; nil where nobody asks for them.
func (x *exchange) times() *client.Trace {
	if x.trace == nil {
		return nil
	}
	return &x.trace.jobs
}

// traceID names the trace of an exchange; empty where it has no spans.
func (x *exchange) traceID() string {
	if x.trace == nil {
		return ""
	}
	return x.trace.TraceID()
}

// routed notes which route an exchange took.
func (x *exchange) routed(r *http.Request) {
	if x.trace != nil {
		x.trace.route = chi.RouteContext(r.Context()).RoutePattern()
	}
}

// endTrace hands on what the spans of an exchange are made of.
func (f *Frontend) endTrace(x *exchange, r *http.Request) {
	if x.trace == nil {
		return
	}
	e := &spans.Exchange{
		Method: r.Method, Route: x.trace.route, Path: r.URL.Path[:min(len(r.URL.Path), maxPath)], ID: x.id, Status: x.status, Failed: x.refusedWith,
		Begun: x.start, Ended: time.Now(), Model: x.model, Jobs: x.trace.jobs, Device: f.deviceOf,
	}
	if x.call != nil && x.call.asked() {
		x.call.tell(e)
	}
	f.cfg.Tracer.End(x.trace.Request, e)
}

// spanCounts tells the metrics of spans, where there are some.
func (f *Frontend) spanCounts() func() tracing.Counts {
	if f.cfg.Tracer == nil {
		return nil
	}
	return f.cfg.Tracer.Counts
}

// maxPath bounds the bytes of a path in a span.
const maxPath = 256

func (r ofCompletion) tell(e *spans.Exchange) {
	record := *r.Record
	e.Completion = &record
}

func (r ofInference) tell(e *spans.Exchange) {
	record := *r.Record
	e.Inference = &record
}

// deviceOf is what GPU an executor has.
func (f *Frontend) deviceOf(executor string) string {
	for _, e := range f.pool.State().Executors {
		if e.Name == executor {
			return e.GPU
		}
	}
	return ""
}
