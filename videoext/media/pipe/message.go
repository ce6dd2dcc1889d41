package pipe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// version is that of the protocol; both sides are of one release.
const version = 1

// kind is what a message is.
type kind byte

// A message is a kind, the lengths of its head and of its body (4 bytes each, the most significant first), the head in
// MessagePack, and the body.
const (
	hello       kind = iota + 1 // from the encoder, first. Head: the version
	frame                       // one more for the encode that follows. Head: frameHead; body: the planes
	encode                      // the frames before it. Head: encodeHead
	openSource                  // Head: openHead
	encodeClip                  // frames of a source. Head: encodeHead
	closeSource                 // Head: the source. It is not answered
	opened                      // an answer. Head: openedHead
	encoded                     // an answer. Head: Times; body: the segment
	failed                      // an answer. Head: failedHead
)

const (
	maxHead = 64 << 20 // maps of all frames of a segment
	maxBody = 1 << 30  // a segment
	// maxRaw is how many bytes the frames of a segment may have before they are encoded.
	maxRaw = 1 << 30
)

type frameHead struct {
	Width, Height, Index int
	Time                 time.Duration
	Matrix               media.Matrix
}

type encodeHead struct {
	Settings     settingsHead
	Source       int // of encodeClip
	First, Count int // of its frames
}

// settingsHead are Settings with the quality as one of three.
type settingsHead struct {
	Width, Height, BFrames, BBias, ChromaOffset int
	Rate, IPRatio, PBRatio                      float64
	Preset                                      string
	QP                                          *media.QP
	CRF                                         *media.CRF
	Maps                                        [][]byte
}

type openHead struct {
	Name string
	Rate float64
}

type openedHead struct {
	Source int
	Info   ffmpeg.Info
}

type failedHead struct {
	Text string
	End  bool // the source has no such frames
}

func newSettingsHead(s *media.Settings) (h settingsHead, err error) {
	h = settingsHead{
		Width: s.Width, Height: s.Height, BFrames: s.BFrames, BBias: s.BBias, ChromaOffset: s.ChromaOffset,
		Rate: s.Rate, IPRatio: s.IPRatio, PBRatio: s.PBRatio, Preset: s.Preset,
	}
	switch q := s.Quality.(type) {
	case media.QP:
		h.QP = &q
	case media.CRF:
		h.CRF = &q
	case media.Maps:
		h.Maps = make([][]byte, len(q))
		for i, m := range q {
			if h.Maps[i], err = m.AppendBinary(nil); err != nil {
				return h, err
			}
		}
	}
	return h, nil
}

func (h *settingsHead) toSettings() (media.Settings, error) {
	s := media.Settings{
		Width: h.Width, Height: h.Height, BFrames: h.BFrames, BBias: h.BBias, ChromaOffset: h.ChromaOffset,
		Rate: h.Rate, IPRatio: h.IPRatio, PBRatio: h.PBRatio, Preset: h.Preset,
	}
	switch {
	case h.QP != nil:
		s.Quality = *h.QP
	case h.CRF != nil:
		s.Quality = *h.CRF
	case h.Maps != nil:
		maps := make(media.Maps, len(h.Maps))
		for i, data := range h.Maps {
			m, err := media.ParseQPMap(data)
			if err != nil {
				return s, err
			}
			maps[i] = m
		}
		s.Quality = maps
	}
	return s, nil
}

// connection is one side's end of the pipes.
type connection struct {
	in  io.Reader
	out io.Writer
}

// sendMessage writes a message; head may be nil.
func (c *connection) sendMessage(k kind, head any, body ...[]byte) error {
	var text []byte
	if head != nil {
		var err error
		if text, err = msgpack.Marshal(head); err != nil {
			return err
		}
	}
	size := 0
	for _, b := range body {
		size += len(b)
	}
	if len(text) > maxHead || size > maxBody {
		return fmt.Errorf("a message of %d bytes is larger than this pipe takes", len(text)+size)
	}
	lengths := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte{byte(k)}, uint32(len(text))), uint32(size))
	if _, err := c.out.Write(append(lengths, text...)); err != nil {
		return err
	}
	for _, b := range body {
		if _, err := c.out.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// message is one whose body is still to be read.
type message struct {
	kind kind
	head []byte
	size int // of the body
}

// receiveMessage reads the next message but its body. io.EOF says that the other side has ended between messages.
func (c *connection) receiveMessage() (m message, err error) {
	var begin [9]byte
	if _, err := io.ReadFull(c.in, begin[:]); err != nil {
		return m, err
	}
	head, size := binary.BigEndian.Uint32(begin[1:]), binary.BigEndian.Uint32(begin[5:])
	if head > maxHead || size > maxBody {
		return m, fmt.Errorf("a message of kind %d says that it has %d and %d bytes, which is more than this pipe takes", begin[0], head, size)
	}
	m.kind, m.size = kind(begin[0]), int(size)
	m.head, err = c.readMessage(int(head))
	return m, err
}

// readMessage reads so many bytes, and takes memory only as they come.
func (c *connection) readMessage(size int) ([]byte, error) {
	var b bytes.Buffer
	if n, err := io.CopyN(&b, c.in, int64(size)); err != nil {
		return nil, fmt.Errorf("%d of %d bytes came: %w", n, size, unexpectedEOF(err))
	}
	return b.Bytes(), nil
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseHead reads a message's head.
func (m *message) parseHead(into any) error {
	if err := msgpack.Unmarshal(m.head, into); err != nil {
		return fmt.Errorf("a message of kind %d: %w", m.kind, err)
	}
	return nil
}

func (c *connection) sendFrame(f *media.Frame) error {
	if err := f.Check(); err != nil {
		return err
	}
	if tight := f.Width == f.YStride && (f.Width+1)/2 == f.CStride; !tight {
		f = f.Clone()
	}
	luma, chroma := f.Width*f.Height, (f.Width+1)/2*((f.Height+1)/2)
	return c.sendMessage(frame, frameHead{f.Width, f.Height, f.Index, f.Time, f.Matrix}, f.Y[:luma], f.Cb[:chroma], f.Cr[:chroma])
}

func (c *connection) receiveFrame(m *message) (*media.Frame, error) {
	var h frameHead
	if err := m.parseHead(&h); err != nil {
		return nil, err
	}
	if err := media.CheckSize(h.Width, h.Height); err != nil {
		return nil, err
	}
	if h.Matrix > media.BT709 {
		return nil, fmt.Errorf("a frame of matrix %d", h.Matrix)
	}
	f := media.NewFrame(h.Width, h.Height)
	f.Index, f.Time, f.Matrix = h.Index, h.Time, h.Matrix
	if want := len(f.Y) + len(f.Cb) + len(f.Cr); m.size != want {
		return nil, fmt.Errorf("a frame of %d x %d pixels comes with %d bytes instead of %d", h.Width, h.Height, m.size, want)
	}
	for _, plane := range [][]byte{f.Y, f.Cb, f.Cr} {
		if _, err := io.ReadFull(c.in, plane); err != nil {
			return nil, unexpectedEOF(err)
		}
	}
	return f, nil
}
