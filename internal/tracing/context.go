package tracing

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// maxState bounds the bytes of a tracestate that is kept, which is what the specification asks for at least.
const maxState = 512

// Request is the place in a trace of a request that has spans.
type Request struct {
	trace  trace.TraceID
	parent trace.SpanID // the caller's; zero where there is none
	span   trace.SpanID // of the request's first span
	state  string
}

// TraceID is the trace's, in hexadecimal; empty of nil.
func (r *Request) TraceID() string {
	if r == nil {
		return ""
	}
	return hex.EncodeToString(r.trace[:])
}

// SpanID is that of the request's first span, in hexadecimal.
func (r *Request) SpanID() string { return hex.EncodeToString(r.span[:]) }

// beginRequest reads the W3C context that a request brings, and decides whether it has spans. A context that breaks the
// specification's rules counts as none.
func beginRequest(h http.Header, sampler sdktrace.Sampler) *Request {
	r := &Request{}
	ctx := context.Background()
	parents := h["Traceparent"]
	if len(parents) == 1 && len(parents[0]) <= maxState {
		ctx = propagation.TraceContext{}.Extract(ctx, carrier{parents[0], stateOf(h)})
	}
	remote := trace.SpanContextFromContext(ctx)
	if remote.IsValid() {
		r.trace, r.parent = remote.TraceID(), remote.SpanID()
	} else {
		fillID(r.trace[:8])
		fillID(r.trace[8:])
	}
	decision := sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: r.trace, Kind: trace.SpanKindServer})
	if decision.Decision != sdktrace.RecordAndSample {
		return nil
	}
	fillID(r.span[:])
	if remote.IsValid() {
		r.state = decision.Tracestate.String()
	}
	return r
}

// stateOf joins the tracestate headers; what is longer than maxState is dropped.
func stateOf(h http.Header) string {
	state := ""
	if values := h["Tracestate"]; len(values) == 1 {
		state = values[0]
	} else {
		state = strings.Join(values[:min(len(values), maxState)], ",")
	}
	if len(state) > maxState {
		return ""
	}
	return state
}

// fillID makes an id of 8 bytes, which is not zero.
func fillID(id []byte) {
	n := rand.Uint64()
	for n == 0 {
		n = rand.Uint64()
	}
	binary.LittleEndian.PutUint64(id, n)
}

// carrier is the two headers of a request for a propagator.
type carrier struct{ parent, state string }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if key == "traceparent" {
		return c.parent
	}
	return c.state
}

// Set implements propagation.TextMapCarrier; nothing is sent on.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return []string{"traceparent", "tracestate"} }
