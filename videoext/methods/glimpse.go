package methods

import (
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Glimpse sends a frame when it differs enough from the last one that was sent, and follows what the server found in it through the others
// on the camera (Chen and others, "Glimpse: Continuous, Real-Time Object Recognition on Mobile Devices", SenSys 2015, sections 4 and 5). Its
// results arise on the camera.
type Glimpse struct {
	Common
	videoext.Quality
	Threshold float64       // part of pixels that differ, for a frame to be sent
	Patience  time.Duration // that the camera has for the server's answer
}

// DefaultGlimpse sends a frame when a twentieth of its pixels has changed.
func DefaultGlimpse() Glimpse {
	return Glimpse{Common: UsualCommon(), Quality: videoext.Quality{QP: 24, Scale: 1}, Threshold: 0.05, Patience: 2 * time.Second}
}

// mostUnfinished is how many segments wait for results at one time; of one more the first gets them without an answer.
const mostUnfinished = 4

// Check says what is wrong with a configuration.
func (c *Glimpse) Check() error {
	if err := c.Common.check("glimpse"); err != nil {
		return err
	}
	if !(c.Threshold >= 0) || c.Patience <= 0 {
		return fmt.Errorf("glimpse: a threshold of %g is to be 0 or more, and patience of %v above 0", c.Threshold, c.Patience)
	}
	return c.Quality.Check()
}

// New is Glimpse as a method. The configuration has been checked.
func (c Glimpse) New() method.Method {
	setting := fmt.Sprintf("%v over %g", c.Quality, c.Threshold)
	return method.Method{Name: "glimpse", Setting: setting, Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return &glimpseCamera{c: c, up: uplink{longest: c.MaxBacklog}}, &glimpseServer{classes: c.Classes}
	}}
}

// glimpseServer tells the camera what is in the frames that it sent.
type glimpseServer struct {
	classes   []int
	inferring []method.Segment
}

// Step implements method.Server.
func (s *glimpseServer) Step(_ time.Duration, event method.ServerEvent) []method.ServerAction {
	switch e := event.(type) {
	case method.Arrived:
		if e.Stream == method.A {
			s.inferring = append(s.inferring, e.Segment)
			return []method.ServerAction{method.Infer{Segment: e.Segment, Stream: method.A, Frames: e.Frames, How: method.Plain{}}}
		}
	case method.Inferred:
		if !s.removeInferring(e.Segment) {
			return nil
		}
		seen := method.Seen{Frames: e.Frames, Detections: make([][]videoext.Detection, len(e.Frames))}
		for i := range e.Frames {
			seen.Detections[i] = videoext.OfClasses(e.Findings[i].Detections, s.classes)
		}
		return []method.ServerAction{method.Answer{Segment: e.Segment, Content: seen}}
	case method.Failed:
		if e.Stream == method.A {
			s.removeInferring(e.Segment)
			return []method.ServerAction{method.Answer{Segment: e.Segment, Content: method.Seen{}}}
		}
	case method.Ended:
		s.inferring = nil
	}
	return nil
}

func (s *glimpseServer) removeInferring(segment method.Segment) bool {
	i := slices.Index(s.inferring, segment)
	if i >= 0 {
		s.inferring = slices.Delete(s.inferring, i, i+1)
	}
	return i >= 0
}

type glimpseCamera struct {
	c        Glimpse
	up       uplink
	segments []*glimpsed   // without final results, in order
	last     *method.Frame // that is sent
	known    *hint         // where results are from before the first segment
	held     []method.Segment
}

// hint is a frame of which it is known what is in it.
type hint struct {
	method.Frame
	detections []videoext.Detection
}

// glimpsed is a segment.
type glimpsed struct {
	method.Captured
	triggers  []int // frames to be sent
	measuring bool  // whether there are more
	complete  bool  // there are no more
	sent      bool  // or skipped
	until     time.Duration
	answered  bool   // or there will be no answer
	hints     []hint // what the server found
	tracking  bool
	results   [][]videoext.Detection // of the frames until now
}

// Step implements method.Camera.
func (g *glimpseCamera) Step(now time.Duration, event method.CameraEvent) (do []method.CameraAction) {
	switch e := event.(type) {
	case method.Captured:
		g.segments = append(g.segments, &glimpsed{Captured: e})
		g.held = append(g.held, e.Segment)
	case method.Measured:
		g.handleMeasured(e)
	case method.Answer:
		g.handleAnswer(e)
	case method.Tracked:
		g.handleTracked(e)
	case method.Link:
		g.up.Link = e
		return nil
	case method.Woke:
	default:
		return nil
	}
	do = append(do, g.chooseFrames(now)...)
	do = append(do, g.flushResults(now)...)
	do = append(do, g.releaseFrames()...)
	return append(do, g.requestWake()...)
}

func (g *glimpseCamera) findSegment(segment method.Segment) *glimpsed {
	for _, s := range g.segments {
		if s.Segment == segment {
			return s
		}
	}
	return nil
}

// chooseFrames looks for frames to be sent, in the first segment of which they are not known, in turns with measured; and sends them.
func (g *glimpseCamera) chooseFrames(now time.Duration) (do []method.CameraAction) {
	for _, s := range g.segments {
		switch {
		case s.sent:
			continue
		case s.measuring:
			return do
		}
		if g.last == nil {
			g.addTrigger(s, 0)
		}
		if !s.complete {
			s.measuring = true
			since := *g.last
			return append(do, method.Measure{Segment: s.Segment, Feature: method.Pixel, Since: &since})
		}
		do = append(do, g.sendChosenFrames(now, s))
	}
	return do
}

// addTrigger notes that a frame is to be sent.
func (g *glimpseCamera) addTrigger(s *glimpsed, frame int) {
	s.triggers = append(s.triggers, frame)
	s.complete = frame == s.Frames-1
	g.last = &method.Frame{Segment: s.Segment, Frame: frame}
}

// handleMeasured notes the first frame that differs enough from the last one that is sent.
func (g *glimpseCamera) handleMeasured(e method.Measured) {
	s := g.findSegment(e.Segment)
	if s == nil || !s.measuring {
		return
	}
	s.measuring = false
	from := 0
	if n := len(s.triggers); n > 0 {
		from = s.triggers[n-1] + 1
	}
	for i := from; i < min(len(e.Values), s.Frames); i++ {
		if e.Values[i] > g.c.Threshold {
			g.addTrigger(s, i)
			return
		}
	}
	s.complete = true
}

// sendChosenFrames sends the frames that were chosen of a segment. Over a link that is jammed it does not; then the next segment's first frame is
// one to be sent.
func (g *glimpseCamera) sendChosenFrames(now time.Duration, s *glimpsed) method.CameraAction {
	s.sent = true
	if len(s.triggers) > 0 && g.up.Jammed(g.up.longest) {
		s.triggers, g.last = nil, nil
	}
	if len(s.triggers) == 0 {
		s.answered = true
		return method.Skip{Segment: s.Segment, Stream: method.A, Of: s.Frames}
	}
	s.until = now + g.c.Patience
	return method.Encode{Segment: s.Segment, Stream: method.A, Frames: s.triggers, Settings: g.c.settingsOf(g.c.Quality, s.Captured)}
}

func (g *glimpseCamera) handleAnswer(e method.Answer) {
	seen, ok := e.Content.(method.Seen)
	s := g.findSegment(e.Segment)
	if !ok || s == nil || s.answered {
		return
	}
	s.answered = true
	for i, frame := range seen.Frames {
		s.hints = append(s.hints, hint{method.Frame{Segment: s.Segment, Frame: frame}, seen.Detections[i]})
	}
}

// flushResults gives the results of segments in their order, when there is an answer or it is waited for no more.
func (g *glimpseCamera) flushResults(now time.Duration) (do []method.CameraAction) {
	for len(g.segments) > 0 {
		s := g.segments[0]
		if !s.sent || s.tracking {
			return do
		}
		if !s.answered && now < s.until && len(g.segments) <= mostUnfinished {
			return do
		}
		s.answered = true
		if track := g.trackNext(s); track != nil {
			return append(do, *track)
		}
		do = append(do, finalResults(s))
		g.segments = g.segments[1:]
	}
	return do
}

// trackNext takes over what is known of frames, and says what is to be tracked for the next one; nil: there are results of all.
func (g *glimpseCamera) trackNext(s *glimpsed) *method.Track {
	for len(s.results) < s.Frames {
		at, next := len(s.results), s.Frames
		for _, h := range slices.Backward(s.hints) {
			if h.Frame.Frame > at {
				next = h.Frame.Frame
			}
			if h.Frame.Frame == at {
				g.known = &h
			}
		}
		switch {
		case g.known != nil && g.known.Frame == (method.Frame{Segment: s.Segment, Frame: at}):
			s.results = append(s.results, g.known.detections)
		case g.known == nil || len(g.known.detections) == 0:
			s.results = append(s.results, nil)
		default:
			s.tracking = true
			return &method.Track{From: g.known.Frame, Detections: g.known.detections, Segment: s.Segment, Frames: frameNumbers(next)[at:]}
		}
	}
	return nil
}

func (g *glimpseCamera) handleTracked(e method.Tracked) {
	s := g.findSegment(e.Segment)
	if s == nil || !s.tracking {
		return
	}
	s.tracking = false
	for i, frame := range e.Frames {
		g.known = &hint{method.Frame{Segment: s.Segment, Frame: frame}, e.Detections[i]}
		s.results = append(s.results, e.Detections[i])
	}
}

func finalResults(s *glimpsed) method.Results {
	r := method.Results{Segment: s.Segment, Final: true, Frames: make([]videoext.Findings, s.Frames)}
	for i, d := range s.results {
		r.Frames[i].Detections = d
	}
	return r
}

// releaseFrames gives up frames that nothing is compared with or tracked from any more.
func (g *glimpseCamera) releaseFrames() (do []method.CameraAction) {
	g.held = slices.DeleteFunc(g.held, func(n method.Segment) bool {
		if g.findSegment(n) != nil || g.last != nil && g.last.Segment == n || g.known != nil && g.known.Segment == n && len(g.known.detections) > 0 {
			return false
		}
		do = append(do, method.Release{Segment: n})
		return true
	})
	return do
}

// requestWake asks to be told when the first answer has been waited for long enough.
func (g *glimpseCamera) requestWake() []method.CameraAction {
	for _, s := range g.segments {
		if s.sent && !s.answered {
			return []method.CameraAction{method.Wake{At: s.until}}
		}
	}
	return nil
}
