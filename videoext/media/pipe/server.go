package pipe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// Encoder encodes frames that have the settings' size.
type Encoder interface {
	Encode(ctx context.Context, frames []*media.Frame, s media.Settings) (*media.Segment, error)
}

// Times are how long the parts of encodings took, by the clock, and the processor time of the whole program.
type Times struct{ Decode, Scale, Encode, Processor time.Duration }

func (t *Times) addTimes(o Times) {
	t.Decode += o.Decode
	t.Scale += o.Scale
	t.Encode += o.Encode
	t.Processor += o.Processor
}

// server answers one client.
type server struct {
	connection
	encoder Encoder
	scaler  ffmpeg.Scaler
	sources map[int]*source
	opened  int            // how many were
	pending []*media.Frame // for the next encode
	raw     int            // bytes of them
	err     error          // why pending is of no use
}

// Serve answers a client at the other end of in and out until in ends, which is no error. What is wrong with a request
// is answered; what is no message of this protocol ends it.
func Serve(ctx context.Context, in io.Reader, out io.Writer, encoder Encoder) error {
	buffered := bufio.NewWriterSize(out, 64<<10)
	s := &server{connection: connection{bufio.NewReaderSize(in, 64<<10), buffered}, encoder: encoder, sources: map[int]*source{}}
	defer s.close()
	if err := errors.Join(s.sendMessage(hello, version), buffered.Flush()); err != nil {
		return err
	}
	for {
		m, err := s.receiveMessage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.handleMessage(ctx, &m)
		}
		if err == nil {
			err = buffered.Flush()
		}
		if err != nil {
			return fmt.Errorf("the other side of the pipe: %w", err)
		}
	}
}

func (s *server) close() {
	for _, source := range s.sources {
		_ = source.clip.Close() // it was read only
	}
	s.scaler.Close()
}

// handleMessage answers a message. Its errors are about the pipe.
func (s *server) handleMessage(ctx context.Context, m *message) error {
	if m.kind != frame && m.size != 0 {
		return fmt.Errorf("a message of kind %d has a body of %d bytes", m.kind, m.size)
	}
	switch m.kind {
	case frame:
		return s.takeFrame(m)
	case encode, encodeClip:
		var h encodeHead
		if err := m.parseHead(&h); err != nil {
			return err
		}
		return s.handleEncode(ctx, m.kind, &h)
	case openSource:
		var h openHead
		if err := m.parseHead(&h); err != nil {
			return err
		}
		return s.open(ctx, &h)
	case closeSource:
		var id int
		if err := m.parseHead(&id); err != nil {
			return err
		}
		return s.closeSource(id)
	}
	return fmt.Errorf("a message of kind %d is not known", m.kind)
}

// takeFrame keeps a frame for the encode that follows, which says it if they are too many.
func (s *server) takeFrame(m *message) error {
	f, err := s.receiveFrame(m)
	if err != nil {
		return err
	}
	if s.raw += m.size; s.raw > maxRaw || len(s.pending) == media.MaxFrames {
		s.pending, s.err = nil, fmt.Errorf("the frames of a segment have more than %d bytes, or are more than %d", maxRaw, media.MaxFrames)
	}
	if s.err == nil {
		s.pending = append(s.pending, f)
	}
	return nil
}

func (s *server) sendFailure(err error) error {
	return s.sendMessage(failed, failedHead{Text: err.Error(), End: errors.Is(err, io.EOF)})
}

func (s *server) open(ctx context.Context, h *openHead) error {
	clip, err := ffmpeg.Open(ctx, h.Name, ffmpeg.Options{Rate: h.Rate})
	if err != nil {
		return s.sendFailure(err)
	}
	s.opened++
	s.sources[s.opened] = &source{clip: clip, name: h.Name}
	return s.sendMessage(opened, openedHead{s.opened, clip.Info()})
}

func (s *server) closeSource(id int) error {
	source := s.sources[id]
	if source == nil {
		return fmt.Errorf("source %d is not open", id)
	}
	delete(s.sources, id)
	_ = source.clip.Close() // it was read only
	return nil
}

func (s *server) handleEncode(ctx context.Context, k kind, h *encodeHead) error {
	var took Times
	processor := processorTime()
	frames, err := s.framesToEncode(ctx, k, h, &took)
	var segment *media.Segment
	if err == nil {
		segment, err = s.encodeFrames(ctx, frames, h, &took)
	}
	var data []byte
	if err == nil {
		data, err = segment.AppendBinary(nil)
	}
	if err != nil {
		return s.sendFailure(err)
	}
	took.Processor = processorTime() - processor
	return s.sendMessage(encoded, took, data)
}

// framesToEncode are those to encode: what came before the message, or part of a source.
func (s *server) framesToEncode(ctx context.Context, k kind, h *encodeHead, took *Times) ([]*media.Frame, error) {
	if k == encode {
		frames, err := s.pending, s.err
		s.pending, s.raw, s.err = nil, 0, nil
		return frames, err
	}
	source := s.sources[h.Source]
	if source == nil {
		return nil, fmt.Errorf("source %d is not open", h.Source)
	}
	began := time.Now()
	frames, err := source.readFrames(ctx, h.First, h.Count)
	took.Decode = time.Since(began)
	return frames, err
}

func (s *server) encodeFrames(ctx context.Context, frames []*media.Frame, h *encodeHead, took *Times) (*media.Segment, error) {
	settings, err := h.Settings.toSettings()
	if err != nil {
		return nil, err
	}
	if len(frames) == 0 {
		return nil, errors.New("0 frames are to be encoded")
	}
	if err := settings.Check(len(frames), frames[0].Width, frames[0].Height); err != nil {
		return nil, err
	}
	began := time.Now()
	scaled := make([]*media.Frame, len(frames))
	for i, f := range frames {
		width, height := settings.Size(f.Width, f.Height)
		if scaled[i] = f; width != f.Width || height != f.Height {
			if scaled[i], err = s.scaler.Scale(f, width, height); err != nil {
				return nil, err
			}
		}
	}
	took.Scale = time.Since(began)
	began = time.Now()
	segment, err := s.encoder.Encode(ctx, scaled, settings)
	took.Encode = time.Since(began)
	return segment, err
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
