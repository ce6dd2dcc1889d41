package frontend

import (
	"net/http"
	"time"

	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/internal/tracing"
)

// beginTrace begins the spans of an exchange whose key is one of the server's. What watches the server has none.
func (f *Frontend) beginTrace(x *exchange.Exchange, r *http.Request) {
	if f.cfg.Tracer == nil || watched[r.URL.Path] {
		return
	}
	if request := f.cfg.Tracer.Begin(r.Header); request != nil {
		x.Trace = &exchange.Trace{Request: request}
	}
}

// endTrace hands on what the spans of an exchange are made of.
func (f *Frontend) endTrace(x *exchange.Exchange, r *http.Request) {
	if x.Trace == nil {
		return
	}
	e := &spanSource{
		Method: r.Method, Route: x.Trace.Route, Path: r.URL.Path[:min(len(r.URL.Path), maxPath)], ID: x.ID, Status: x.Status(), Failed: x.Refused(),
		Begun: x.Start, Ended: time.Now(), Model: x.Model, Jobs: x.Trace.Jobs, Device: f.deviceOf,
	}
	if of := x.Record(); of != nil {
		record := *of // the rest of the request is let go
		e.Record = &record
	}
	f.cfg.Tracer.End(x.Trace.Request, e)
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

// deviceOf is what GPU an executor has.
func (f *Frontend) deviceOf(executor string) string {
	for _, e := range f.pool.State().Executors {
		if e.Name == executor {
			return e.GPU
		}
	}
	return ""
}
