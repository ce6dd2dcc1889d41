package tracing

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Span is one of a request's.
type Span struct {
	Name       string
	Parent     int  // the position of its parent among the request's; of the first one the caller's is
	Server     bool // it answers a call from another process
	Begin, End time.Time
	Attributes []Attribute
	Failed     string // how; empty: it has not
}

// Attribute is a name and a value.
type Attribute struct {
	key, text string
	kind      kind
	bits      uint64 // of a number
}

type kind uint8

const (
	isText kind = iota
	isInt
	isFloat
)

// Text is an attribute that is a text.
func Text(key, value string) Attribute { return Attribute{key: key, text: value} }

// Int is an attribute that is a whole number.
func Int(key string, value int) Attribute {
	return Attribute{key: key, kind: isInt, bits: uint64(value)}
}

// Float is an attribute that is a number.
func Float(key string, value float64) Attribute {
	return Attribute{key: key, kind: isFloat, bits: math.Float64bits(value)}
}

// Seconds is an attribute that is a time in seconds, as vLLM gives times.
func Seconds(key string, value time.Duration) Attribute { return Float(key, value.Seconds()) }

// encode appends the spans of a request to those of a batch.
func encode(to []*tracepb.Span, r *Request, spans []Span) []*tracepb.Span {
	first := len(to)
	made := make([]tracepb.Span, len(spans))
	for i := range spans {
		s, p := &spans[i], &made[i]
		p.TraceId, p.TraceState, p.Name = r.trace[:], r.state, s.Name
		p.Kind, p.Flags = tracepb.Span_SPAN_KIND_INTERNAL, 1
		if s.Server {
			p.Kind = tracepb.Span_SPAN_KIND_SERVER
		}
		switch {
		case i > 0:
			p.SpanId = make([]byte, 8)
			fill(p.SpanId)
			p.ParentSpanId = to[first+s.Parent].SpanId
			p.Flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
		default:
			p.SpanId = r.span[:]
			if r.parent.IsValid() {
				p.ParentSpanId = r.parent[:]
				p.Flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
			}
		}
		p.StartTimeUnixNano, p.EndTimeUnixNano = uint64(s.Begin.UnixNano()), uint64(max(s.End.UnixNano(), s.Begin.UnixNano()))
		if s.Failed != "" {
			p.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: s.Failed}
		}
		p.Attributes = encodeAttributes(s.Attributes)
		to = append(to, p)
	}
	return to
}

func encodeAttributes(from []Attribute) []*commonpb.KeyValue {
	to, pairs, values := make([]*commonpb.KeyValue, len(from)), make([]commonpb.KeyValue, len(from)), make([]commonpb.AnyValue, len(from))
	for i := range from {
		a := &from[i]
		switch a.kind {
		case isText:
			values[i].Value = &commonpb.AnyValue_StringValue{StringValue: a.text}
		case isInt:
			values[i].Value = &commonpb.AnyValue_IntValue{IntValue: int64(a.bits)}
		case isFloat:
			values[i].Value = &commonpb.AnyValue_DoubleValue{DoubleValue: math.Float64frombits(a.bits)}
		}
		pairs[i].Key, pairs[i].Value = a.key, &values[i]
		to[i] = &pairs[i]
	}
	return to
}

// encodeResource is what the spans have in common; all values are texts.
func encodeResource(from *resource.Resource) *resourcepb.Resource {
	var all []Attribute
	for _, a := range from.Attributes() {
		all = append(all, Text(string(a.Key), a.Value.String()))
	}
	return &resourcepb.Resource{Attributes: encodeAttributes(all)}
}
