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
	"hash/crc32"
	"io"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Version is that of the messages. Both sides must have the same.
const Version = 3

// How long one message may be, and Hello, before a server knows who speaks.
const (
	MaxBytes      = 64 << 20
	MaxHelloBytes = 4 << 10
)

// Message is one of the types below.
type Message interface{ messageKind() byte }

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
	Knobs     Knobs          // that it was encoded by
	Data      *media.Segment // of Frames
}

// Knobs are what a server cannot see in what was encoded, for those who watch.
type Knobs struct {
	Quantisers *media.QPMap // Settings.Summary; nil: they were left to the encoder
	BBias      int          // likelihood of B frames, -100 to 100
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
	kindDone
	kindRefused
	kindSkipped
	kindAnswered
	kindResulted
	kindEnded
)

func (*Hello) messageKind() byte    { return kindHello }
func (*Welcome) messageKind() byte  { return kindWelcome }
func (*Sent) messageKind() byte     { return kindSent }
func (*Done) messageKind() byte     { return kindDone }
func (*Refused) messageKind() byte  { return kindRefused }
func (*Skipped) messageKind() byte  { return kindSkipped }
func (*Answered) messageKind() byte { return kindAnswered }
func (*Resulted) messageKind() byte { return kindResulted }
func (*Ended) messageKind() byte    { return kindEnded }

// SpoiltError says that what was encoded of a segment is not what the camera sent, or cannot be read. All that says whose it is arrived as it
// was, and the session can go on.
type SpoiltError struct {
	Segment method.Segment
	Stream  method.Stream
	Of      int // frames of the segment
	Err     error
}

func (e *SpoiltError) Error() string {
	return fmt.Sprintf("stream %v of segment %d: %v", e.Stream, e.Segment, e.Err)
}

func (e *SpoiltError) Unwrap() error { return e.Err }

// sumBytes is where a message's fields begin: behind its kind and their checksum.
const sumBytes = 1 + crc32.Size

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// messageChecksum is the checksum of a message's kind and fields.
func messageChecksum(kind byte, fields []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{kind}, castagnoli), castagnoli, fields)
}

// Append appends a message: its length as an unsigned varint, its kind, CRC-32C of the kind and the fields, big-endian, and the fields in their
// order. What was encoded of a segment follows them, and has a checksum of its own.
func Append(to []byte, m Message) ([]byte, error) {
	w := writer{data: make([]byte, sumBytes)}
	w.data[0] = m.messageKind()
	if err := writeMessage(&w, m); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(w.data[1:], messageChecksum(m.messageKind(), w.data[sumBytes:]))
	if sent, ok := m.(*Sent); ok {
		var err error
		if w.data, err = sent.Data.AppendBinary(w.data); err != nil {
			return nil, err
		}
	}
	if len(w.data) > MaxBytes {
		return nil, fmt.Errorf("a message of %d bytes is longer than %d", len(w.data), MaxBytes)
	}
	to = binary.AppendUvarint(to, uint64(len(w.data)))
	return append(to, w.data...), nil
}

// Parse reads one message without its length. It shares memory with data. A SpoiltError is about a Sent alone.
func Parse(data []byte) (Message, error) {
	if len(data) < sumBytes {
		return nil, fmt.Errorf("a message of %d bytes; it has a kind and a checksum, of %d", len(data), sumBytes)
	}
	fields := data[sumBytes:]
	r := reader{data: fields}
	m := readMessage(&r, data[0])
	if m == nil {
		return nil, fmt.Errorf("a message of unknown kind %d", data[0])
	}
	sent, segment := m.(*Sent)
	fields = fields[:len(fields)-len(r.data)]
	switch {
	case r.err == nil && messageChecksum(data[0], fields) != binary.BigEndian.Uint32(data[1:]):
		r.err = errors.New("it is spoilt: its checksum is another one")
	case r.err == nil && !segment && len(r.data) > 0:
		return nil, fmt.Errorf("%T of %d bytes is followed by %d", m, len(data)-len(r.data), len(r.data))
	}
	if r.err != nil {
		return nil, fmt.Errorf("%T of %d bytes: %w", m, len(data), r.err)
	}
	if segment {
		if err := sent.parseSegment(r.data); err != nil {
			return nil, &SpoiltError{sent.Segment, sent.Stream, sent.Of, err}
		}
	}
	return m, nil
}

// parseSegment reads what was encoded.
func (s *Sent) parseSegment(data []byte) (err error) {
	if s.Data, err = media.ParseSegment(data); err == nil && len(s.Data.Units) != len(s.Frames) {
		err = fmt.Errorf("it has %d frames for %d that are named", len(s.Data.Units), len(s.Frames))
	}
	return err
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

// Next waits for the next message. It returns io.EOF at an end between two messages. After a SpoiltError there is a next one.
func (r *Reader) Next() (Message, error) {
	n, err := r.Length(MaxBytes)
	if err != nil {
		return nil, err
	}
	return r.Body(n)
}

// Length waits for the next message, and says how many bytes it has, at most so many; Body then reads it.
func (r *Reader) Length(most int) (int, error) {
	n, err := binary.ReadUvarint(r.from)
	if err == nil && n > uint64(most) {
		err = fmt.Errorf("a message says that it has %d bytes; %d are the most", n, most)
	}
	return int(n), err
}

// Body reads the message whose Length was asked for.
func (r *Reader) Body(n int) (Message, error) {
	data, err := io.ReadAll(io.LimitReader(r.from, int64(n)))
	if err == nil && len(data) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return Parse(data)
}
