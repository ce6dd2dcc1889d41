package wire

import (
	"errors"
	"fmt"
)

// The binary form of a message is a list of frames. Frame 0, the header, is one msgpack map: "v"
// (Version), "k" (Kind), then the message's fields in a fixed order, zero ones left out. Keys that
// the reader does not know are skipped, so a field can be added without a new Version. A list of
// tokens, blocks, copies, weights or prompt scores is a frame of its own, raw little-endian words: its key in
// the header holds its length, and frames follow in the order of their keys. Lists of tokens, of blocks and of a
// vector's numbers are not copied to and from their frames: message and frames have that memory in common.

// maxFrames bounds the frames of one message, and so the items of a pass.
const maxFrames = 1 << 16

// ErrMalformed is wrapped by every error of Decode but VersionError.
var ErrMalformed = errors.New("malformed message")

// VersionError says that the peer speaks another version of the protocol.
type VersionError struct{ Got uint64 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the peer speaks version %d of the prefillonly protocol, this process version %d: run the same release of prefillonly on both sides", e.Got, Version)
}

// Encode returns the frames of m, which are of no use any more once lists of it have changed. Tick and Lost never
// travel: for them it returns nil.
func Encode(m Message) [][]byte { return encodeMessage(m, Version) }

// Refuse returns the frames that tell a peer of version v so, in the form of that version. Release is that of
// this process.
func Refuse(v uint64, release string) [][]byte {
	return encodeMessage(&Refused{Version: Version, Release: release}, v)
}

func encodeMessage(m Message, version uint64) [][]byte {
	if m.kind() == kindLocal {
		return nil
	}
	w := newWriter()
	defer w.release()
	start := w.beginMap()
	w.writeUint("v", version)
	w.writeUint("k", uint64(m.kind()))
	writeBody(w, m)
	w.endMap(start)
	w.frames[0] = w.buf.Bytes()
	return w.frames
}

// Decode is the inverse of Encode; empty slices come back as nil. It allocates in proportion to the
// frames it is given, whatever lengths they claim. The frames are the message's from then on.
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
	if v := r.readLeading("v"); r.err == nil && v != Version {
		return nil, &VersionError{Got: v}
	}
	kind := r.readLeading("k")
	m := newMessage(Kind(min(kind, 255)))
	if m == nil {
		r.fail("unknown kind %d", kind)
		return nil, r.err
	}
	readBody(r, n-2, m)
	r.expectEnd()
	if r.err != nil {
		return nil, fmt.Errorf("%T: %w", m, r.err)
	}
	return m, nil
}

// made are the empty messages, by kind.
var made = [kinds]func() Message{
	KindHello:     func() Message { return new(Hello) },
	KindWelcome:   func() Message { return new(Welcome) },
	KindSubmit:    func() Message { return new(Submit) },
	KindCancel:    func() Message { return new(Cancel) },
	KindResult:    func() Message { return new(Result) },
	KindRun:       func() Message { return new(Run) },
	KindPause:     func() Message { return new(Pause) },
	KindResume:    func() Message { return new(Resume) },
	KindAbort:     func() Message { return new(Abort) },
	KindPaused:    func() Message { return new(Paused) },
	KindDone:      func() Message { return new(Done) },
	KindReset:     func() Message { return new(Reset) },
	KindResetDone: func() Message { return new(ResetDone) },
	KindSetModel:  func() Message { return new(SetModel) },
	KindModelSet:  func() Message { return new(ModelSet) },
	KindLoad:      func() Message { return new(Load) },
	KindDrop:      func() Message { return new(Drop) },
	KindLoaded:    func() Message { return new(Loaded) },
	KindRefused:   func() Message { return new(Refused) },
	KindNext:      func() Message { return new(Next) },
}

// newMessage returns an empty message of kind k, or nil when no such message travels.
func newMessage(k Kind) Message {
	if k >= kinds || made[k] == nil {
		return nil
	}
	return made[k]()
}
