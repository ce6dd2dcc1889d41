package camera

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// stream is all that is known of a stream: it is told what happens, and says what is to be worked on and sent. It knows no clock.
type stream struct {
	rate   float64
	memory int // bytes of frames
	// detects says that the camera has a network.
	detects bool

	spec   string // of the method; empty: no server has named one
	frames int    // of a segment
	camera method.Camera
	next   method.Segment // the number of the next segment
	partly []*media.Frame // of it
	before *media.Frame   // the last one of the segment before
	held   map[method.Segment][]*media.Frame
	wake   time.Duration // when the method is to be told; negative: never

	ledger ledger
	link   estimate
	todo   []task // that no worker has yet
	doing  task   // that the worker has; nil: none
	totals Totals
	err    error // why it cannot go on
}

// Bounds of memory.
const (
	maxHeld     = 12       // segments whose frames a method keeps
	maxTasks    = 4        // that wait, for frames to be taken
	maxMessages = 64 << 20 // bytes of what is not done
	maxUnderWay = 16       // segments that are not done: of more the frames are dropped
)

func newStream(rate float64, memory int) *stream {
	return &stream{
		rate: rate, memory: memory, held: map[method.Segment][]*media.Frame{}, wake: -1,
		ledger: ledger{maxBytes: maxMessages},
	}
}

// maxBehind is how far a server may be behind what it once said is done, as one is that was killed. One that is further behind is
// another one, and the stream begins anew.
const maxBehind = 1024

// handleWelcome begins a session.
func (s *stream) handleWelcome(now time.Duration, w *session.Welcome) error {
	another := w.Next+maxBehind < s.firstPending()
	if w.Method != s.spec || another {
		m, err := methods.New(w.Method, methods.Learned{})
		if err != nil {
			return fmt.Errorf("the server wants method %q: %w", w.Method, err)
		}
		s.spec, s.frames = w.Method, m.Frames
		s.camera, _ = m.New()
		s.wake, s.partly, s.todo = -1, nil, nil
		clear(s.held)
		s.ledger.clear()
	}
	if w.Next > s.next { // another camera has used the numbers before it
		s.ledger.clear()
	}
	if w.Next > s.next || another {
		s.next = w.Next
	}
	s.ledger.resumeSession(w.Next)
	s.link = estimate{at: now, progress: now}
	return nil
}

// firstPending is the first segment that is not done.
func (s *stream) firstPending() method.Segment {
	if len(s.ledger.entries) > 0 {
		return s.ledger.entries[0].segment
	}
	return s.next
}

// hasRoom says whether frames of another segment can be kept.
func (s *stream) hasRoom() bool {
	if len(s.partly) > 0 {
		return true
	}
	if s.spec == "" || len(s.held) >= maxHeld || len(s.todo) >= maxTasks || len(s.ledger.entries) >= maxUnderWay {
		return false
	}
	kept := s.heldBytes()
	return kept == 0 || s.before == nil || kept+s.frames*frameBytes(s.before) <= s.memory
}

// heldBytes is how many bytes the frames have that are held, worked on, or wait for that.
func (s *stream) heldBytes() (bytes int) {
	all := map[*media.Frame]bool{}
	note := func(frames []*media.Frame) {
		for _, f := range frames {
			if f != nil && !all[f] {
				all[f] = true
				bytes += frameBytes(f)
			}
		}
	}
	for _, frames := range s.held {
		note(frames)
	}
	for _, t := range s.todo {
		note(t.keepsFrames())
	}
	if s.doing != nil {
		note(s.doing.keepsFrames())
	}
	return bytes
}

func frameBytes(f *media.Frame) int { return f.Width * f.Height * 3 / 2 }

// addFrame takes a frame in.
func (s *stream) addFrame(now time.Duration, f *media.Frame) {
	if !s.hasRoom() {
		s.totals.Dropped++
		return
	}
	if len(s.partly) > 0 && (s.partly[0].Width != f.Width || s.partly[0].Height != f.Height) {
		s.flushSegment(now)
	}
	s.totals.Frames++
	if s.partly = append(s.partly, f); len(s.partly) == s.frames {
		s.flushSegment(now)
	}
}

// flushSegment ends the segment with the frames that are there.
func (s *stream) flushSegment(now time.Duration) {
	if len(s.partly) == 0 {
		return
	}
	frames := s.partly
	s.partly = nil
	segment := s.next
	s.next++
	s.held[segment] = frames
	s.ledger.open(segment, len(frames), now)
	s.totals.Segments++
	s.stepMethod(now, method.Captured{Segment: segment, Frames: len(frames), Width: frames[0].Width, Height: frames[0].Height})
	s.before = frames[len(frames)-1]
}

// stepMethod tells the method something, and how the link is.
func (s *stream) stepMethod(now time.Duration, event method.CameraEvent) {
	if s.camera == nil {
		return
	}
	do := s.camera.Step(now, s.link.methodLink())
	for _, action := range append(do, s.camera.Step(now, event)...) {
		s.runTask(now, action)
	}
}

func (s *stream) runTask(now time.Duration, action method.CameraAction) {
	switch a := action.(type) {
	case method.Encode:
		if frames := s.selectFrames(a.Segment, a.Frames); len(frames) > 0 {
			s.todo = append(s.todo, &encodeTask{Encode: a, frames: frames, of: len(s.held[a.Segment]), rate: s.rate})
		}
	case method.Skip:
		s.skipStream(a)
	case method.Measure:
		s.measure(a)
	case method.Track:
		from, to := s.selectFrames(a.From.Segment, []int{a.From.Frame}), s.selectFrames(a.Segment, a.Frames)
		if len(from) > 0 && len(to) > 0 {
			s.todo = append(s.todo, &trackTask{Track: a, from: from[0], to: to})
		}
	case method.Detect:
		if !s.detects {
			s.err = fmt.Errorf("method %q needs a network on the camera, and this camera has none: name one with --detector", s.spec)
		} else if frames := s.selectFrames(a.Segment, a.Frames); len(frames) > 0 {
			s.todo = append(s.todo, &detectTask{Detect: a, frames: frames})
		}
	case method.Try:
		if frames := s.held[a.Segment]; len(frames) > 0 {
			s.todo = append(s.todo, &tryTask{Try: a, frames: frames, rate: s.rate})
		}
	case method.Results:
		data, err := session.Append(nil, &session.Resulted{Results: a})
		if err != nil {
			s.err = err
			return
		}
		s.ledger.addMessage(a.Segment, later, data, false)
	case method.Release:
		delete(s.held, a.Segment)
	case method.Wake:
		s.wake = max(a.At, now)
	}
}

// selectFrames are frames of a segment; none if they are not all there.
func (s *stream) selectFrames(segment method.Segment, numbers []int) []*media.Frame {
	held := s.held[segment]
	frames := make([]*media.Frame, len(numbers))
	for i, n := range numbers {
		if n < 0 || n >= len(held) {
			return nil
		}
		frames[i] = held[n]
	}
	return frames
}

func (s *stream) measure(a method.Measure) {
	frames := s.held[a.Segment]
	if len(frames) == 0 {
		return
	}
	t := &measureTask{Measure: a, frames: frames}
	if a.Since != nil {
		since := s.selectFrames(a.Since.Segment, []int{a.Since.Frame})
		if len(since) == 0 {
			return
		}
		t.since = since[0]
	} else {
		t.before = s.beforeSegment(a.Segment)
	}
	s.todo = append(s.todo, t)
}

// beforeSegment is the last frame of the segment before one; nil: it is not there any more.
func (s *stream) beforeSegment(segment method.Segment) *media.Frame {
	if frames := s.held[segment-1]; len(frames) > 0 {
		return frames[len(frames)-1]
	}
	if segment == s.next-1 {
		return s.before
	}
	return nil
}

// handleOutcome takes in what came of a task.
func (s *stream) handleOutcome(now time.Duration, out outcome) error {
	s.doing = nil
	s.totals.Times.addTimes(out.took)
	if out.data == nil && out.event == nil {
		s.skipMissed(out)
		return out.err
	}
	if out.data != nil {
		if e := s.ledger.findEntry(out.segment); e != nil {
			e.sent[out.stream] = len(out.data)
		}
		s.ledger.addMessage(out.segment, placeOf(out.stream), out.data, true)
		s.totals.Bytes[out.stream] += len(out.data)
	}
	s.stepMethod(now, out.event)
	return out.err
}

// skipMissed skips what could not be encoded.
func (s *stream) skipMissed(out outcome) {
	if e := s.ledger.findEntry(out.segment); e != nil {
		s.skipStream(method.Skip{Segment: out.segment, Stream: out.stream, Of: e.frames})
	}
}

// skipStream leaves a stream of a segment out.
func (s *stream) skipStream(k method.Skip) {
	s.totals.LeftOut[k.Stream]++
	s.ledger.addMessage(k.Segment, placeOf(k.Stream), encodeMessage(&session.Skipped{Skip: k}), false)
}

// handleMessage takes in what the server says after its Welcome. An error is about the server.
func (s *stream) handleMessage(now time.Duration, m session.Message) ([]Finished, error) {
	switch m := m.(type) {
	case *session.Answered:
		if err := s.checkAnswer(m.Answer); err != nil {
			return nil, err
		}
		s.stepMethod(now, m.Answer)
	case *session.Done:
		return s.finishSegments(now, m.Segment), nil
	case *session.Resulted: // for those who watch
	default:
		return nil, fmt.Errorf("the server says %T, which is not for cameras", m)
	}
	return nil, nil
}

// checkAnswer says what is wrong with an answer about frames that are not there.
func (s *stream) checkAnswer(a method.Answer) error {
	frames := s.frames
	if held, ok := s.held[a.Segment]; ok {
		frames = len(held)
	}
	switch c := a.Content.(type) {
	case method.Wanted:
		if len(c.Regions) > frames {
			return fmt.Errorf("the server wants regions of %d frames of segment %d, which has %d", len(c.Regions), a.Segment, frames)
		}
	case method.Seen:
		if n := len(c.Frames); n > 0 && c.Frames[n-1] >= frames {
			return fmt.Errorf("the server saw frame %d of segment %d, which has %d", c.Frames[n-1], a.Segment, frames)
		}
	}
	return nil
}

func (s *stream) finishSegments(now time.Duration, last method.Segment) (all []Finished) {
	for _, e := range s.ledger.removeDone(last) {
		delay := now - e.captured
		s.totals.Done++
		s.totals.Delay += delay
		all = append(all, Finished{Segment: e.segment, Frames: e.frames, Bytes: e.sent, Delay: delay, Bandwidth: s.link.rate})
	}
	return all
}

// wakeMethod tells the method the time that it asked for.
func (s *stream) wakeMethod(now time.Duration) {
	if s.wake >= 0 && now >= s.wake {
		s.wake = -1
		s.stepMethod(now, method.Woke{})
	}
}
