package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/motion"
)

// encoder is the camera program, of which faults make an end.
type encoder interface {
	Encode(ctx context.Context, frames []*media.Frame, s media.Settings) (*media.Segment, error)
}

// stream is one video on its way from a camera to a network: both sides of a method, and what carries out what they ask for. Encoding, the wire's
// form of segments and decoding are real; time is virtual.
type stream struct {
	method  method.Method
	camera  method.Camera
	server  method.Server
	encoder encoder
	scaler  *ffmpeg.Scaler
	random  *rand.Rand
	faults  float64 // how likely one is, of each thing that is sent
	line    link.Timeline
	next    method.Segment
	open    map[method.Segment]*segment
	seen    *seen
}

// segment is one without final results.
type segment struct {
	first, of int
	captured  []*media.Frame
	told      bool // the server's side, of stream A
	arrived   [2]map[int]*media.Frame
}

type (
	toCamera struct{ method.CameraEvent }
	toServer struct{ method.ServerEvent }
)

const rate = 10 // frames a second

func (s *stream) begin() { s.camera, s.server = s.method.New() }

// replaceCamera is the camera's end: what it has not sent is lost, and another one goes on.
func (s *stream) replaceCamera() {
	s.seen.vanished++
	s.camera, _ = s.method.New()
	for id, g := range s.open {
		g.captured = nil
		if !g.told {
			s.line.At(s.line.Now(), toServer{method.Failed{Segment: id, Stream: method.A, Of: g.of}})
		}
	}
}

// captureSegment takes a segment, and does what becomes of it until the next one would be.
func (s *stream) captureSegment(ctx context.Context) error {
	id, n := s.next, s.method.Frames
	s.next++
	g := &segment{first: int(id) * n, of: n}
	for i := range n {
		g.captured = append(g.captured, renderFrame(g.first+i))
	}
	s.open[id] = g
	s.seen.captured += n
	s.line.At(s.captureTime(id+1), toCamera{method.Captured{Segment: id, Frames: n, Width: width, Height: height}})
	return s.run(ctx, s.captureTime(id+2))
}

func (s *stream) captureTime(id method.Segment) time.Duration {
	return time.Duration(id) * time.Duration(s.method.Frames) * time.Second / rate
}

// finishSegments says that nothing more arrives; then all segments must have their results.
func (s *stream) finishSegments(ctx context.Context) error {
	if err := s.run(ctx, 1<<62); err != nil {
		return err
	}
	s.line.At(s.line.Now(), toServer{method.Ended{}})
	if err := s.run(ctx, 1<<62); err != nil {
		return err
	}
	for id, g := range s.open {
		if g != nil {
			s.seen.lost += g.of
			s.seen.addNote("%s: segment %d has no final results", s.method.Name, id)
		}
	}
	return nil
}

// run does what happens before a time.
func (s *stream) run(ctx context.Context, until time.Duration) error {
	stop := &struct{}{}
	if until < 1<<62 {
		s.line.At(until, stop)
	}
	for what, ok := s.line.Next(); ok && what != any(stop); what, ok = s.line.Next() {
		var err error
		switch to := what.(type) {
		case toCamera:
			for _, a := range s.camera.Step(s.line.Now(), to.CameraEvent) {
				if err == nil {
					err = s.cameraDoes(ctx, a)
				}
			}
		case toServer:
			s.recordServerEvent(to.ServerEvent)
			for _, a := range s.server.Step(s.line.Now(), to.ServerEvent) {
				if err == nil {
					err = s.serverDoes(a)
				}
			}
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.method.Name, s.method.Setting, err)
		}
	}
	return nil
}

// recordServerEvent remembers which segments the server's side has been told of.
func (s *stream) recordServerEvent(event method.ServerEvent) {
	told := func(id method.Segment) {
		if g := s.open[id]; g != nil {
			g.told = true
		}
	}
	switch e := event.(type) {
	case method.Arrived:
		told(e.Segment)
	case method.Skip:
		told(e.Segment)
	case method.Failed:
		told(e.Segment)
	}
}

// soonTime is when what is done now is done.
func (s *stream) soonTime() time.Duration { return s.line.Now() + 10*time.Millisecond }

func (s *stream) cameraDoes(ctx context.Context, action method.CameraAction) error {
	switch a := action.(type) {
	case method.Encode:
		return s.encodeFrames(ctx, a)
	case method.Skip:
		s.line.At(s.soonTime(), toServer{a})
	case method.Release:
		if g := s.open[a.Segment]; g != nil {
			g.captured = nil
		}
	case method.Measure:
		g := s.open[a.Segment]
		if g == nil || g.captured == nil {
			return nil
		}
		values := make([]float64, g.of)
		for i := 1; i < g.of; i++ {
			values[i] = motion.Differ(a.Feature, g.captured[i-1], g.captured[i])
		}
		s.line.At(s.soonTime(), toCamera{method.Measured{Segment: a.Segment, Values: values}})
	case method.Wake:
		s.line.At(a.At, toCamera{method.Woke{}})
	case method.Results:
		s.checkResults(a)
	default:
		return fmt.Errorf("the soak does no %T", action)
	}
	return nil
}

// encodeFrames sends frames; faults flip a byte on the way, or cut the end off.
func (s *stream) encodeFrames(ctx context.Context, a method.Encode) error {
	g := s.open[a.Segment]
	if g == nil || g.captured == nil {
		return nil // its camera has vanished
	}
	if a.Settings.Rate == 0 {
		a.Settings.Rate = rate
	}
	frames := make([]*media.Frame, len(a.Frames))
	for i, n := range a.Frames {
		if frames[i] = g.captured[n]; a.Kept != nil {
			frames[i] = videoext.Keep(frames[i], a.Kept[i])
		}
	}
	coded, err := s.encoder.Encode(ctx, frames, a.Settings)
	if err != nil {
		return err
	}
	data, err := coded.AppendBinary(nil)
	if err != nil {
		return err
	}
	s.line.At(s.soonTime(), toCamera{method.Encoded{Segment: a.Segment, Stream: a.Stream, NAL: coded.NALBytes(), Container: len(data)}})
	broken := s.random.Float64() < s.faults
	if broken {
		s.seen.corrupt++
		if at := s.random.IntN(len(data)); s.random.IntN(2) == 0 {
			data = data[:at]
		} else {
			data[at] ^= byte(1 + s.random.IntN(255))
		}
	}
	return s.receiveSegment(ctx, g, a, data, broken)
}

func (s *stream) receiveSegment(ctx context.Context, g *segment, a method.Encode, data []byte, broken bool) error {
	received, err := media.ParseSegment(data)
	var frames []*media.Frame
	if err == nil {
		frames, err = ffmpeg.Decode(ctx, received)
	}
	if broken != (err != nil) || err == nil && len(frames) != len(a.Frames) {
		return fmt.Errorf("segment %d, broken %v: decoded into %d of %d frames, %v", a.Segment, broken, len(frames), len(a.Frames), err)
	}
	if err != nil {
		s.line.At(s.soonTime(), toServer{method.Failed{Segment: a.Segment, Stream: a.Stream, Of: g.of}})
		return nil
	}
	g.arrived[a.Stream] = map[int]*media.Frame{}
	for i, n := range a.Frames {
		g.arrived[a.Stream][n] = frames[i]
	}
	s.line.At(s.soonTime(), toServer{method.Arrived{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Of: g.of}})
	return nil
}

func (s *stream) serverDoes(action method.ServerAction) error {
	switch a := action.(type) {
	case method.Infer:
		return s.inferFrames(a)
	case method.Answer:
		s.line.At(s.soonTime(), toCamera{a})
	case method.Results:
		s.checkResults(a)
	case method.Wake:
		s.line.At(a.At, toServer{method.Woke{}})
	}
	return nil
}

func (s *stream) inferFrames(a method.Infer) error {
	g := s.open[a.Segment]
	if g == nil {
		return fmt.Errorf("frames of segment %d are looked at, which has its final results", a.Segment)
	}
	found := make([]videoext.Findings, len(a.Frames))
	for i, n := range a.Frames {
		f := g.arrived[a.Stream][n]
		if f == nil {
			return fmt.Errorf("frame %d of segment %d did not arrive on stream %v", n, a.Segment, a.Stream)
		}
		if p, ok := a.How.(method.Pasted); ok {
			whole, err := s.scaler.Scale(g.arrived[method.A][n], f.Width, f.Height)
			if err != nil {
				return err
			}
			videoext.Paste(whole, f, p.Regions[i])
			f = whole
		}
		var err error
		if found[i], err = detectNumber(f); err != nil {
			return err
		}
	}
	s.line.At(s.soonTime(), toServer{method.Inferred{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Findings: found}})
	return nil
}

// checkResults holds what was found against the frames: a frame that arrived has its own number, others that of one before.
func (s *stream) checkResults(a method.Results) {
	g := s.open[a.Segment]
	if g == nil {
		s.seen.twice++
		s.seen.addNote("%s: segment %d, which has its final results, has results again", s.method.Name, a.Segment)
		return
	}
	for n, found := range a.Frames {
		own := (g.first + n) % numbers
		wrong := func(d videoext.Detection) bool {
			behind := (own - d.Class + numbers) % numbers
			return behind > numbers/2 || behind > 0 && g.arrived[method.A][n] != nil
		}
		if slices.ContainsFunc(found.Detections, wrong) {
			s.seen.wrong++
			s.seen.addNote("%s: frame %d of segment %d has results of another one: %+v", s.method.Name, n, a.Segment, found.Detections)
		}
		if a.Final && g.arrived[method.A][n] != nil && len(found.Detections) > 0 {
			s.seen.own++
		}
	}
	if a.Final {
		s.seen.final += len(a.Frames)
		delete(s.open, a.Segment)
	}
}
