package camera

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/prefillonly/prefillonly/internal/osthread"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/motion"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// Encoder encodes frames of one size, which is that of the settings. videoext/media/x264 has one.
type Encoder interface {
	Encode(ctx context.Context, frames []*media.Frame, s media.Settings) (*media.Segment, error)
}

// Detector finds what is in a frame. One goroutine uses it. videoext/detect has one.
type Detector interface {
	Find(f *media.Frame) (videoext.Findings, error)
}

// task is work on frames. They are the task's own: the segment may be released meanwhile.
type task interface {
	runTask(ctx context.Context, w *worker) outcome
	keepsFrames() []*media.Frame // some may be nil
}

// outcome is what came of a task.
type outcome struct {
	event   method.CameraEvent // nil: the work came to nothing
	segment method.Segment
	stream  method.Stream
	data    []byte // of Encode: the message with it
	err     error
	took    Times
}

// Times are the processor's, by what it did.
type Times struct{ Decode, Scale, EncodeA, EncodeB, Detect, Measure, Track, Try time.Duration }

func (t *Times) addTimes(o Times) {
	t.Decode += o.Decode
	t.Scale += o.Scale
	t.EncodeA += o.EncodeA
	t.EncodeB += o.EncodeB
	t.Detect += o.Detect
	t.Measure += o.Measure
	t.Track += o.Track
	t.Try += o.Try
}

// worker does tasks one after the other, on one thread.
type worker struct {
	encoder  Encoder
	detector Detector
	preset   string
	scaler   ffmpeg.Scaler
	in       <-chan task
	out      chan<- outcome
}

// run works until ctx ends.
func (w *worker) run(ctx context.Context) {
	runtime.LockOSThread() // its processor time is that of the work
	defer runtime.UnlockOSThread()
	defer w.scaler.Close()
	for {
		select {
		case t := <-w.in:
			select {
			case w.out <- t.runTask(ctx, w):
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// addProcessorTime adds the processor's time until now to one of the times, and begins with the next.
func addProcessorTime(since *time.Duration, on *time.Duration) {
	now := osthread.Time()
	*on += now - *since
	*since = now
}

type encodeTask struct {
	method.Encode
	frames []*media.Frame
	of     int
	rate   float64
}

func (t *encodeTask) keepsFrames() []*media.Frame { return t.frames }

func (t *encodeTask) runTask(ctx context.Context, w *worker) outcome {
	out := outcome{segment: t.Segment, stream: t.Stream}
	segment, err := t.encodeFrames(ctx, w, &out.took)
	var file []byte
	if err == nil {
		file, err = ffmpeg.MP4(segment)
	}
	if err == nil {
		sent := session.Sent{Segment: t.Segment, Stream: t.Stream, Of: t.of, Frames: t.Frames, Container: len(file), Data: segment}
		sent.Knobs = session.Knobs{Quantisers: t.Settings.Summary(), BBias: t.Settings.BBias}
		out.data, err = session.Append(nil, &sent)
	}
	if err != nil {
		out.err = fmt.Errorf("stream %v of segment %d: %w", t.Stream, t.Segment, err)
		return out
	}
	out.event = method.Encoded{Segment: t.Segment, Stream: t.Stream, NAL: segment.NALBytes(), Container: len(file)}
	return out
}

func (t *encodeTask) encodeFrames(ctx context.Context, w *worker, took *Times) (*media.Segment, error) {
	s := t.Settings
	if s.Rate == 0 {
		s.Rate = t.rate
	}
	if s.Preset == "" {
		s.Preset = w.preset
	}
	if err := s.Check(len(t.frames), t.frames[0].Width, t.frames[0].Height); err != nil {
		return nil, err
	}
	since := osthread.Time()
	frames, err := t.prepareFrames(&w.scaler, &s)
	if err != nil {
		return nil, err
	}
	addProcessorTime(&since, &took.Scale)
	on := &took.EncodeA
	if t.Stream == method.B {
		on = &took.EncodeB
	}
	defer addProcessorTime(&since, on)
	return w.encoder.Encode(ctx, frames, s)
}

// prepareFrames scales frames, and then blackens what is not shown of them, so that nothing black gets into what is.
func (t *encodeTask) prepareFrames(scaler *ffmpeg.Scaler, s *media.Settings) (frames []*media.Frame, err error) {
	for i, f := range t.frames {
		if width, height := s.Size(f.Width, f.Height); width != f.Width || height != f.Height {
			if f, err = scaler.Scale(f, width, height); err != nil {
				return nil, err
			}
		}
		if t.Kept != nil {
			f = videoext.Keep(f, t.Kept[i])
		}
		frames = append(frames, f)
	}
	return frames, nil
}

type detectTask struct {
	method.Detect
	frames []*media.Frame
}

func (t *detectTask) keepsFrames() []*media.Frame { return t.frames }

// runTask finds nothing in a frame that the network cannot look at.
func (t *detectTask) runTask(_ context.Context, w *worker) (out outcome) {
	since := osthread.Time()
	defer addProcessorTime(&since, &out.took.Detect)
	found := method.Found{Segment: t.Segment, Frames: t.Detect.Frames, Findings: make([]videoext.Findings, len(t.frames))}
	for i, f := range t.frames {
		var err error
		if found.Findings[i], err = w.detector.Find(f); err != nil {
			out.err = fmt.Errorf("frame %d of segment %d: %w", t.Detect.Frames[i], t.Segment, err)
		}
	}
	out.event = found
	return out
}

// measureTask has the frame before each of a segment, or that before the first and Since.
type measureTask struct {
	method.Measure
	before *media.Frame // of the first frame; nil: there is none
	since  *media.Frame // of all; nil: each is compared with the one before
	frames []*media.Frame
}

func (t *measureTask) keepsFrames() []*media.Frame {
	return append([]*media.Frame{t.before, t.since}, t.frames...)
}

func (t *measureTask) runTask(_ context.Context, _ *worker) (out outcome) {
	since := osthread.Time()
	defer addProcessorTime(&since, &out.took.Measure)
	values, before := make([]float64, len(t.frames)), t.before
	for i, f := range t.frames {
		if t.since != nil {
			before = t.since
		}
		if values[i] = math.Inf(1); before != nil && before.Width == f.Width && before.Height == f.Height {
			values[i] = motion.Differ(t.Feature, before, f)
		}
		before = f
	}
	out.event = method.Measured{Segment: t.Segment, Values: values}
	return out
}

type trackTask struct {
	method.Track
	from *media.Frame
	to   []*media.Frame
}

func (t *trackTask) keepsFrames() []*media.Frame { return append([]*media.Frame{t.from}, t.to...) }

func (t *trackTask) runTask(_ context.Context, _ *worker) (out outcome) {
	since := osthread.Time()
	defer addProcessorTime(&since, &out.took.Track)
	found := motion.Track(t.from, t.Detections, t.to)
	out.event = method.Tracked{Segment: t.Segment, Frames: t.Track.Frames, Detections: found}
	return out
}
