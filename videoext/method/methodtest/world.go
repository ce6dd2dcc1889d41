package methodtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// faults are what goes wrong, each with a probability or at times.
type faults struct {
	answerLost   float64 // of an answer
	failed       float64 // of what is sent or inferred
	linkDown     bool    // for 5 of every 20 seconds: what is sent meanwhile waits, and answers are lost
	serverBehind bool    // inference takes longer than segments last
	sceneEmpty   bool    // nothing is to be found
}

// world carries out what both sides of a method ask for, in virtual time, with things that move where a stream has frames.
type world struct {
	m          method.Method
	r          *rand.Rand
	f          faults
	camera     method.Camera
	server     method.Server
	line       link.Timeline
	cameraWake time.Duration
	serverWake time.Duration
	linkFree   time.Duration // when all that was sent so far is through
	deviceFree time.Duration

	segments   []*segment
	transcript []step
	problems   []string
	mostHeld   int // segments that were captured and not released, at one time
}

// segment is what is known of one.
type segment struct {
	frames   int
	sent     [2]bool // or skipped
	arrived  [2]bool
	released bool
	final    int  // results that are final
	served   bool // they are the server's
}

// step is one call of one side, and what came of it.
type step struct {
	now   time.Duration
	event any
	did   any
}

// happening is a message to a side.
type happening struct {
	event any
	to    side
}

type side bool

const (
	toCamera side = false
	toServer side = true
)

const (
	frameTime = 100 * time.Millisecond
	width     = 640
	height    = 360
	bandwidth = 100_000.0 // bytes a second
)

// runWorld streams so many segments to the end.
func runWorld(m method.Method, segments int, seed uint64, f faults) *world {
	w := &world{m: m, r: rand.New(rand.NewPCG(seed, 1)), f: f}
	w.camera, w.server = m.New()
	length := time.Duration(m.Frames) * frameTime
	for i := range segments {
		frames := m.Frames
		if i == segments-1 {
			frames = 1 + w.r.IntN(m.Frames)
		}
		w.segments = append(w.segments, &segment{frames: frames})
		at := time.Duration(i+1) * length
		w.addEvent(at, toCamera, method.Link{Bandwidth: bandwidth})
		w.addEvent(at, toCamera, method.Captured{Segment: method.Segment(i), Frames: frames, Width: width, Height: height})
	}
	w.drainEvents()
	w.addEvent(w.line.Now()+time.Minute, toServer, method.Ended{})
	w.drainEvents()
	return w
}

func (w *world) addEvent(at time.Duration, to side, event any) {
	w.line.At(at, happening{event, to})
}

// now is the time.
func (w *world) now() time.Duration { return w.line.Now() }

func (w *world) addProblem(format string, args ...any) {
	if len(w.problems) < 10 {
		w.problems = append(w.problems, fmt.Sprintf("%v: ", w.now())+fmt.Sprintf(format, args...))
	}
}

func (w *world) drainEvents() {
	for steps := 0; ; steps++ {
		next, ok := w.line.Next()
		if !ok {
			return
		}
		h := next.(happening)
		if steps > 1000*(len(w.segments)+10) {
			w.addProblem("it never comes to rest")
			return
		}
		switch event := h.event.(type) {
		case method.Woke:
			if h.to == toCamera && w.now() == w.cameraWake {
				w.callCamera(event)
			} else if h.to == toServer && w.now() == w.serverWake {
				w.callServer(event)
			}
		case method.Link:
			event.Backlog = max(0, int((w.linkFree-w.now()).Seconds()*bandwidth))
			if w.isLinkDown(w.now()) {
				event.Bandwidth = 0
			}
			w.callCamera(event)
		case method.ServerEvent:
			if h.to == toServer {
				w.callServer(event)
			} else {
				w.callCamera(h.event.(method.CameraEvent))
			}
		case method.CameraEvent:
			w.callCamera(event)
		}
	}
}

// isLinkDown says whether the link carries nothing.
func (w *world) isLinkDown(at time.Duration) bool {
	return w.f.linkDown && at%(20*time.Second) > 10*time.Second && at%(20*time.Second) < 15*time.Second
}

func (w *world) callCamera(event method.CameraEvent) {
	did := w.camera.Step(w.now(), event)
	w.transcript = append(w.transcript, step{w.now(), event, did})
	for _, action := range did {
		w.cameraDoes(action)
	}
	held := 0
	if c, ok := event.(method.Captured); ok {
		for _, s := range w.segments[:c.Segment+1] {
			if !s.released {
				held++
			}
		}
		w.mostHeld = max(w.mostHeld, held)
	}
}

func (w *world) callServer(event method.ServerEvent) {
	did := w.server.Step(w.now(), event)
	w.transcript = append(w.transcript, step{w.now(), event, did})
	for _, action := range did {
		w.serverDoes(action)
	}
}

// capturedSegment is a segment that was captured, or nil.
func (w *world) capturedSegment(n method.Segment, what any) *segment {
	if n < 0 || int(n) >= len(w.segments) || time.Duration(n+1)*time.Duration(w.m.Frames)*frameTime > w.now() {
		w.addProblem("%T of segment %d, which was not captured", what, n)
		return nil
	}
	return w.segments[n]
}

func (w *world) heldSegment(n method.Segment, what any) *segment {
	s := w.capturedSegment(n, what)
	if s != nil && s.released {
		w.addProblem("%T of segment %d, which was released", what, n)
		return nil
	}
	return s
}

func (w *world) checkFrames(s *segment, frames []int, what any) {
	if len(frames) == 0 {
		w.addProblem("%T of no frames", what)
	}
	for i, f := range frames {
		if f < 0 || f >= s.frames || i > 0 && f <= frames[i-1] {
			w.addProblem("%T of frames %v of a segment of %d", what, frames, s.frames)
			return
		}
	}
}

// frameFindings are some things, that depend on the frame alone.
func (w *world) frameFindings(n method.Segment, frame int) videoext.Findings {
	if w.f.sceneEmpty {
		return videoext.Findings{}
	}
	r := rand.New(rand.NewPCG(uint64(n), uint64(frame)))
	var f videoext.Findings
	box := func(size float32) videoext.Region {
		x, y := r.Float32()*(1-size), r.Float32()*(1-size)
		return videoext.Region{X0: x, Y0: y, X1: x + size, Y1: y + size}
	}
	for i := range r.IntN(6) {
		f.Detections = append(f.Detections, videoext.Detection{Region: box(0.15), Class: 2, Score: 0.9 - 0.15*float32(i)})
	}
	for range r.IntN(6) {
		f.Proposals = append(f.Proposals, videoext.Proposal{Region: box(0.12), Objectness: 0.2 + 0.8*r.Float32()})
	}
	return f
}

func (w *world) allFindings(n method.Segment, frames []int) (all []videoext.Findings) {
	for _, f := range frames {
		all = append(all, w.frameFindings(n, f))
	}
	return all
}

// frameDifference is how much a frame differs from the one before.
func frameDifference(n method.Segment, frame int) float64 {
	if n == 0 && frame == 0 {
		return math.Inf(1)
	}
	return rand.New(rand.NewPCG(uint64(n), uint64(frame))).Float64()
}
