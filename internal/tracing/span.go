package tracing

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
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

// encodeResource is what the spans have in common; all values are texts.
func encodeResource(from *resource.Resource) *resourcepb.Resource {
	to := &resourcepb.Resource{}
	for _, a := range from.Attributes() {
		text := &commonpb.AnyValue_StringValue{StringValue: a.Value.String()}
		to.Attributes = append(to.Attributes, &commonpb.KeyValue{Key: string(a.Key), Value: &commonpb.AnyValue{Value: text}})
	}
	return to
}
