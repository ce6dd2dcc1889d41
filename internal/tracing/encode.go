package tracing

import (
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields are those of OpenTelemetry's trace.proto and
// common.proto, version 1.
const (
	resourceScopes protowire.Number = 2 // of ResourceSpans

	scopeScope protowire.Number = 1 // of ScopeSpans
	scopeSpans protowire.Number = 2

	instrumentationName protowire.Number = 1 // of InstrumentationScope

	spanTrace      protowire.Number = 1 // of Span
	spanID         protowire.Number = 2
	spanState      protowire.Number = 3
	spanParent     protowire.Number = 4
	spanName       protowire.Number = 5
	spanKind       protowire.Number = 6
	spanBegin      protowire.Number = 7
	spanEnd        protowire.Number = 8
	spanAttributes protowire.Number = 9
	spanStatus     protowire.Number = 15
	spanFlags      protowire.Number = 16

	statusMessage protowire.Number = 2 // of Status
	statusCode    protowire.Number = 3

	pairKey   protowire.Number = 1 // of KeyValue
	pairValue protowire.Number = 2

	valueText  protowire.Number = 1 // of AnyValue
	valueInt   protowire.Number = 3
	valueFloat protowire.Number = 4
)

// encoding is the spans of a batch. Its memory serves one batch after another.
type encoding struct {
	spans []byte // fields of ScopeSpans
	one   []byte // the fields of a Span
	ids   [][8]byte
}

// addSpans appends the spans of a request.
func (e *encoding) addSpans(r *Request, spans []Span) {
	e.ids = e.ids[:0]
	for i := range spans {
		id := [8]byte(r.span)
		if i > 0 {
			fillID(id[:])
		}
		e.ids = append(e.ids, id)
		e.one = e.appendSpan(e.one[:0], r, spans, i)
		e.spans = appendBytes(e.spans, scopeSpans, e.one)
	}
}

// appendSpan appends the fields of a request's i-th span.
func (e *encoding) appendSpan(to []byte, r *Request, spans []Span, i int) []byte {
	s, kind, flags := &spans[i], tracepb.Span_SPAN_KIND_INTERNAL, uint32(1)
	if s.Server {
		kind = tracepb.Span_SPAN_KIND_SERVER
	}
	to = appendBytes(to, spanTrace, r.trace[:])
	to = appendBytes(to, spanID, e.ids[i][:])
	if r.state != "" {
		to = appendText(to, spanState, r.state)
	}
	switch {
	case i > 0:
		to = appendBytes(to, spanParent, e.ids[s.Parent][:])
		flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	case r.parent.IsValid():
		to = appendBytes(to, spanParent, r.parent[:])
		flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	to = appendText(to, spanName, s.Name)
	to = appendVarint(to, spanKind, uint64(kind))
	to = appendFixed(to, spanBegin, uint64(s.Begin.UnixNano()))
	to = appendFixed(to, spanEnd, uint64(max(s.End.UnixNano(), s.Begin.UnixNano())))
	for j := range s.Attributes {
		to = s.Attributes[j].appendField(to)
	}
	if s.Failed != "" {
		status := appendText(nil, statusMessage, s.Failed)
		to = appendBytes(to, spanStatus, appendVarint(status, statusCode, uint64(tracepb.Status_STATUS_CODE_ERROR)))
	}
	to = protowire.AppendTag(to, spanFlags, protowire.Fixed32Type)
	return protowire.AppendFixed32(to, flags)
}

// appendField writes the attribute as a field of a Span.
func (a *Attribute) appendField(to []byte) []byte {
	var room [16]byte
	value, text := room[:0], ""
	switch a.kind {
	case isText:
		text = validUTF8(a.text)
		value = protowire.AppendVarint(protowire.AppendTag(value, valueText, protowire.BytesType), uint64(len(text)))
	case isInt:
		value = appendVarint(value, valueInt, a.bits)
	case isFloat:
		value = appendFixed(value, valueFloat, a.bits)
	}
	size := len(value) + len(text)
	pair := protowire.SizeTag(pairKey) + protowire.SizeBytes(len(a.key)) + protowire.SizeTag(pairValue) + protowire.SizeBytes(size)
	to = protowire.AppendVarint(protowire.AppendTag(to, spanAttributes, protowire.BytesType), uint64(pair))
	to = protowire.AppendString(protowire.AppendTag(to, pairKey, protowire.BytesType), a.key)
	to = protowire.AppendVarint(protowire.AppendTag(to, pairValue, protowire.BytesType), uint64(size))
	return append(append(to, value...), text...)
}

// takeBatch is the batch, beside what its spans have in common; the next batch begins empty.
func (e *encoding) takeBatch(to *tracepb.ResourceSpans) *tracepb.ResourceSpans {
	named := appendBytes(nil, scopeScope, appendText(nil, instrumentationName, scope))
	fields := make([]byte, 0, len(e.spans)+len(named)+16)
	fields = protowire.AppendVarint(protowire.AppendTag(fields, resourceScopes, protowire.BytesType), uint64(len(named)+len(e.spans)))
	fields = append(append(fields, named...), e.spans...)
	e.spans = e.spans[:0]
	to.ProtoReflect().SetUnknown(fields)
	return to
}

func appendBytes(to []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), v)
}

func appendText(to []byte, field protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(to, field, protowire.BytesType), validUTF8(v))
}

// validUTF8 is a text that a collector takes: one that is not UTF-8, such as a path that a client has made up, would cost
// all spans of its batch.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func appendVarint(to []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), v)
}

func appendFixed(to []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(to, field, protowire.Fixed64Type), v)
}
