// Package session is what a camera and a server say to each other over one connection: the messages of both sides of a method, with
// the encoded segments, as frames of bytes.
//
// The camera says Hello first and the server Welcome, which names the method and from which segment on the camera is to go on. A session
// that breaks is followed by another one of the same stream: what was sent of segments that are not done is sent again.
package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Version is that of the messages. Both sides must have the same.
const Version = 1

// MaxBytes is how long one message may be.
const MaxBytes = 64 << 20

// Message is one of the types below.
type Message interface{ kind() byte }

// Hello begins the camera's side.
type Hello struct {
	Width, Height int
	Rate          float64 // frames in a second
	Camera        string  // which of several with the same credentials it is, in logs
}

// Welcome begins the server's side.
type Welcome struct {
	Method string         // a specification of videoext/methods
	Next   method.Segment // the first of which nothing has come
}

// Sent is what was encoded of a segment.
type Sent struct {
	Segment   method.Segment
	Stream    method.Stream
	Of        int            // frames of the segment
	Frames    []int          // those that were encoded, increasing
	Container int            // bytes as a file
	Data      *media.Segment // of Frames
}

// Delay tells how long the camera waited for the final results of a segment, from its last frame on.
type Delay struct {
	Segment method.Segment
	Delay   time.Duration
}

// Done tells the camera that a segment has final results, and all before it. A session begins with that of the last one.
type Done struct{ Segment method.Segment }

// Refused ends a session: what was asked for cannot be.
type Refused struct{ Reason string }

// Skipped, Answered, Resulted and Ended are messages of package method.
type (
	Skipped  struct{ method.Skip }
	Answered struct{ method.Answer }
	Resulted struct{ method.Results }
	Ended    struct{ method.Ended }
)

const (
	kindHello byte = iota + 1
	kindWelcome
	kindSent
	kindDelay
	kindDone
	kindRefused
	kindSkipped
	kindAnswered
	kindResulted
	kindEnded
)

func (*Hello) kind() byte    { return kindHello }
func (*Welcome) kind() byte  { return kindWelcome }
func (*Sent) kind() byte     { return kindSent }
func (*Delay) kind() byte    { return kindDelay }
func (*Done) kind() byte     { return kindDone }
func (*Refused) kind() byte  { return kindRefused }
func (*Skipped) kind() byte  { return kindSkipped }
func (*Answered) kind() byte { return kindAnswered }
func (*Resulted) kind() byte { return kindResulted }
func (*Ended) kind() byte    { return kindEnded }

// Append appends a message: its length as an unsigned varint, its kind, and its fields in their order.
func Append(to []byte, m Message) ([]byte, error) {
	w := writer{data: []byte{m.kind()}}
	if err := write(&w, m); err != nil {
		return nil, err
	}
	if len(w.data) > MaxBytes {
		return nil, fmt.Errorf("a message of %d bytes is longer than %d", len(w.data), MaxBytes)
	}
	to = binary.AppendUvarint(to, uint64(len(w.data)))
	return append(to, w.data...), nil
}

// Parse reads one message without its length. It shares memory with data.
func Parse(data []byte) (Message, error) {
	if len(data) == 0 {
		return nil, errors.New("a message of no bytes")
	}
	r := reader{data: data[1:]}
	m := read(&r, data[0])
	switch {
	case m == nil:
		return nil, fmt.Errorf("a message of unknown kind %d", data[0])
	case r.err != nil:
		return nil, fmt.Errorf("%T of %d bytes: %w", m, len(data), r.err)
	case len(r.data) > 0:
		return nil, fmt.Errorf("%T of %d bytes is followed by %d", m, len(data)-len(r.data), len(r.data))
	}
	return m, nil
}

// Reader reads messages one after the other.
type Reader struct {
	from interface {
		io.Reader
		io.ByteReader
	}
}

// NewReader reads from a buffered reader.
func NewReader(from interface {
	io.Reader
	io.ByteReader
}) *Reader {
	return &Reader{from}
}

// Next waits for the next message. It returns io.EOF at an end between two messages.
func (r *Reader) Next() (Message, error) {
	n, err := binary.ReadUvarint(r.from)
	if err != nil {
		return nil, err
	}
	if n > MaxBytes {
		return nil, fmt.Errorf("a message says that it has %d bytes; %d are the most", n, MaxBytes)
	}
	data, err := io.ReadAll(io.LimitReader(r.from, int64(n)))
	if err == nil && uint64(len(data)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return Parse(data)
}
