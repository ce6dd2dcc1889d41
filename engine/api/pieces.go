package api

import "encoding/json"

// PieceBytes is the size from which what is encoded goes to a Spill.
const PieceBytes = 64 << 10

// Spill takes the bytes that are encoded so far and returns an empty buffer for those that follow, so that an
// answer of any length is encoded in little memory. It reports whether there is any use in going on. A nil
// Spill leaves everything in one buffer.
type Spill func(b []byte) (empty []byte, more bool)

// Encoder is an answer that can be encoded in pieces.
type Encoder interface {
	AppendJSON(b []byte, spill Spill) []byte
}

// flushFull hands b on when it is long enough.
func (s Spill) flushFull(b []byte) (rest []byte, more bool) {
	if s == nil || len(b) < PieceBytes {
		return b, true
	}
	return s(b)
}

// List is a list in JSON. Elements of a long one are made as they are encoded, so that they are never
// all in memory.
type List[T any] struct {
	Items []T // all of it, or nil
	n     int
	at    func(i int) T
}

// Made is a List of n elements, of which at makes the i-th. It is called in their order.
func Made[T any](n int, at func(i int) T) List[T] { return List[T]{n: n, at: at} }

// UnmarshalJSON decodes a list whole.
func (l *List[T]) UnmarshalJSON(data []byte) error {
	*l = List[T]{}
	return json.Unmarshal(data, &l.Items)
}

// Len is the number of elements.
func (l *List[T]) Len() int { return max(len(l.Items), l.n) }

// Append appends the list, of which element appends one.
func (l *List[T]) Append(b []byte, spill Spill, element func(b []byte, v T) []byte) []byte {
	at := l.at
	if l.Items != nil {
		at = func(i int) T { return l.Items[i] }
	}
	return AppendElements(b, l.Len(), spill, func(b []byte, i int) []byte { return element(b, at(i)) })
}

// AppendList appends a list, of which element appends one.
func AppendList[T any](b []byte, list []T, spill Spill, element func(b []byte, v T) []byte) []byte {
	return AppendElements(b, len(list), spill, func(b []byte, i int) []byte { return element(b, list[i]) })
}

// AppendElements appends a list of n elements, of which element appends the i-th. It ends early when there is no use in going on.
func AppendElements(b []byte, n int, spill Spill, element func(b []byte, i int) []byte) []byte {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = element(b, i)
		var more bool
		if b, more = spill.flushFull(b); !more {
			break
		}
	}
	return append(b, ']')
}
