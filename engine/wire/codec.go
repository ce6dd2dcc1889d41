package wire

import (
	"errors"
	"fmt"
)

// The binary form of a message is a list of frames. Frame 0, the header, is one msgpack map: "v"
// (Version), "k" (Kind), then the message's fields in a fixed order, zero ones left out. Keys that
// the reader does not know are skipped, so a field can be added without a new Version. A list of
// tokens, blocks, copies or prompt scores is a frame of its own, raw little-endian 32-bit words: its key in
// the header holds its length, and frames follow in the order of their keys.

// maxFrames bounds the frames of one message, and so the items of a pass.
const maxFrames = 1 << 16

// ErrMalformed is wrapped by every error of Decode but VersionError.
var ErrMalformed = errors.New("malformed message")

// VersionError says that the peer speaks another version of the protocol.
type VersionError struct{ Got uint64 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the peer speaks version %d of the prefillonly protocol, this process version %d: run the same release of prefillonly on both sides", e.Got, Version)
}

// body is a message or a part of one, as fields of a msgpack map.
type body interface {
	// encode writes the fields that are not zero.
	encode(w *writer)
	// decode reads the value of key, or reports false with nothing read when the key is unknown.
	decode(r *reader, key []byte) bool
}

// Encode returns the frames of m, which do not share memory with it. Tick and Lost never travel:
// for them it returns nil.
func Encode(m Message) [][]byte {
	b, ok := m.(body)
	if !ok {
		return nil
	}
	w := newWriter()
	defer w.release()
	start := w.beginMap()
	w.uint("v", Version)
	w.uint("k", uint64(m.kind()))
	b.encode(w)
	w.endMap(start)
	w.frames[0] = w.buf.Bytes()
	return w.frames
}

// Decode is the inverse of Encode; empty slices come back as nil. It allocates in proportion to the
// frames it is given, whatever lengths they claim. The message does not share memory with them.
func Decode(frames [][]byte) (Message, error) {
	if len(frames) == 0 {
		return nil, fmt.Errorf("%w: no header frame", ErrMalformed)
	}
	if len(frames) > maxFrames {
		return nil, fmt.Errorf("%w: %d frames, at most %d are allowed", ErrMalformed, len(frames), maxFrames)
	}
	r := newReader(frames)
	defer r.release()
	n := r.mapLen()
	if n < 2 {
		r.fail("header lacks version and kind")
	}
	if v := r.leading("v"); r.err == nil && v != Version {
		return nil, &VersionError{Got: v}
	}
	kind := r.leading("k")
	m := newMessage(Kind(min(kind, 255)))
	if m == nil {
		r.fail("unknown kind %d", kind)
		return nil, r.err
	}
	r.fields(n-2, m.(body))
	r.end()
	if r.err != nil {
		return nil, fmt.Errorf("%T: %w", m, r.err)
	}
	return m, nil
}

// newMessage returns an empty message of kind k, or nil when no such message travels.
func newMessage(k Kind) Message {
	switch k {
	case KindHello:
		return new(Hello)
	case KindWelcome:
		return new(Welcome)
	case KindSubmit:
		return new(Submit)
	case KindCancel:
		return new(Cancel)
	case KindResult:
		return new(Result)
	case KindRun:
		return new(Run)
	case KindPause:
		return new(Pause)
	case KindResume:
		return new(Resume)
	case KindAbort:
		return new(Abort)
	case KindPaused:
		return new(Paused)
	case KindDone:
		return new(Done)
	case KindReset:
		return new(Reset)
	case KindResetDone:
		return new(ResetDone)
	}
	return nil
}
