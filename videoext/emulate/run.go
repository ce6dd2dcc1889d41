package emulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Outcome is what a method made of a clip.
type Outcome struct {
	Found          []videoext.Findings // the final ones of each frame
	NAL, Container int                 // bytes that were sent
	Segments       []int               // of Container, those of each segment
	// Delay is the mean over the things in Found: from when the frame was captured to when a result first had the thing.
	Delay time.Duration
	// CameraTime and ServerTime are the processor's for encoding and the camera's networks, and for the server's networks.
	CameraTime, ServerTime time.Duration
	// GradientTime is the part of ServerTime that gradients took, and Feedback the bytes of those that went to the camera.
	GradientTime time.Duration
	Feedback     int
	// Inferences are frames that the server's network was asked about, Gradients those that it was asked for, and Encodes segments that the camera encoded, to be sent or to be tried.
	Inferences, Gradients, Encodes int
}

// Run streams the clip. Work on the camera is done one after the other; the server has room for each segment at once, so that a
// method's delay is its own and not that of a busy device.
func (l *Lab) Run(m method.Method, to *link.Link) (*Outcome, error) {
	r := &run{lab: l, method: m, link: to}
	r.camera, r.server = m.New()
	for first := 0; first < len(l.clip.Frames); first += m.Frames {
		n := min(m.Frames, len(l.clip.Frames)-first)
		segment := method.Segment(len(r.segments))
		r.segments = append(r.segments, &segmentRun{first: first, frames: n})
		size := l.clip.Frames[first]
		r.line.At(r.captureTime(first+n), toCamera{method.Captured{Segment: segment, Frames: n, Width: size.Width, Height: size.Height}})
	}
	if err := r.drainEvents(); err != nil {
		return nil, err
	}
	for i, s := range r.segments {
		if !s.told { // the link stopped
			r.line.At(r.line.Now(), toServer{method.Skip{Segment: method.Segment(i), Stream: method.A, Of: s.frames}})
		}
	}
	r.line.At(r.line.Now(), toServer{method.Ended{}})
	if err := r.drainEvents(); err != nil {
		return nil, err
	}
	return r.buildOutcome()
}

// run is one method on a clip.
type run struct {
	lab      *Lab
	method   method.Method
	link     *link.Link
	camera   method.Camera
	server   method.Server
	line     link.Timeline
	busy     time.Duration // until when the camera is
	wake     [2]time.Duration
	segments []*segmentRun
	out      Outcome
}

// segmentRun is a segment on its way.
type segmentRun struct {
	first, frames int
	bytes         int      // that were sent
	sent          [2]key   // the work of each stream
	of            [2][]int // their frames
	told          bool     // the server's side has been told of stream A
	results       []result // as they came
}

type result struct {
	at time.Duration
	method.Results
}

// What happens, and to which side.
type (
	toCamera struct{ method.CameraEvent }
	toServer struct{ method.ServerEvent }
)

// captureTime is when so many frames have been captured.
func (r *run) captureTime(frames int) time.Duration {
	return time.Duration(float64(frames) / r.lab.clip.Rate * float64(time.Second))
}

func (r *run) drainEvents() error {
	for what, ok := r.line.Next(); ok; what, ok = r.line.Next() {
		var err error
		switch to := what.(type) {
		case toCamera:
			err = r.callCamera(to.CameraEvent)
		case toServer:
			err = r.callServer(to.ServerEvent)
		case sent:
			r.sendBytes(r.line.Now(), to.bytes, to.Arrived)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.method.Name, r.method.Setting, err)
		}
	}
	return nil
}

func (r *run) callCamera(event method.CameraEvent) error {
	now := r.line.Now()
	if _, woke := event.(method.Woke); woke && r.wake[0] != now {
		return nil
	}
	var do []method.CameraAction
	if _, ok := event.(method.Captured); ok {
		do = r.camera.Step(now, method.Link{Bandwidth: r.link.Estimate(), Backlog: r.link.Backlog(now)})
	}
	for _, action := range append(do, r.camera.Step(now, event)...) {
		if err := r.cameraDoes(action); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) callServer(event method.ServerEvent) error {
	switch e := event.(type) {
	case method.Woke:
		if r.wake[1] != r.line.Now() {
			return nil
		}
	case method.Arrived:
		r.segments[e.Segment].told = true
	case method.Skip:
		r.segments[e.Segment].told = true
	}
	for _, action := range r.server.Step(r.line.Now(), event) {
		if err := r.serverDoes(action); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) serverDoes(action method.ServerAction) error {
	switch a := action.(type) {
	case method.Infer:
		return r.inferFrames(a)
	case method.ComputeGradient:
		return r.computeGradient(a)
	case method.Answer:
		r.line.At(r.line.Now()+r.link.Travel(), toCamera{a})
	case method.Results:
		r.recordResults(a)
	case method.Wake:
		r.wake[1] = max(a.At, r.line.Now())
		r.line.At(a.At, toServer{method.Woke{}})
	}
	return nil
}

// inferFrames has the network look at frames of a stream.
func (r *run) inferFrames(a method.Infer) error {
	s := r.segments[a.Segment]
	l := r.lab
	name := derivedKey(s.sent[a.Stream], a.Frames, a.How)
	if p, ok := a.How.(method.Pasted); ok {
		name = derivedKey(s.sent[method.B], a.Frames, s.sent[method.A], p.Regions)
	}
	if _, ok := l.found[name]; !ok {
		frames, enlarging, err := r.prepareFrames(s, a)
		if err != nil {
			return err
		}
		in, err := l.inferFrames(l.tools.Server, frames, name)
		if err != nil {
			return err
		}
		in.took += enlarging
		l.found[name] = in
	}
	in := l.found[name]
	r.out.ServerTime += in.took
	r.out.Inferences += len(a.Frames)
	r.line.At(r.line.Now()+in.took, toServer{method.Inferred{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Findings: in.findings}})
	return nil
}

// computeGradient asks for the gradient of a frame, as its reader gets it.
func (r *run) computeGradient(a method.ComputeGradient) error {
	if r.lab.tools.Gradient == nil {
		return fmt.Errorf("it needs gradients of the server's network")
	}
	s := r.segments[a.Segment]
	frames, err := r.selectFrames(s, method.A, []int{a.Frame})
	if err != nil {
		return err
	}
	g, err := r.lab.frameGradient(frames[0], derivedKey(s.sent[method.A], a.Frame))
	if err != nil {
		return err
	}
	m, err := oneadapt.ReadMap(g.data)
	if err != nil {
		return err
	}
	r.out.ServerTime += g.took
	r.out.GradientTime += g.took
	r.out.Feedback += len(g.data)
	r.out.Gradients++
	r.line.At(r.line.Now()+r.lab.tools.GradientWait+g.took, toServer{method.GradientComputed{Segment: a.Segment, Gradient: m}})
	return nil
}

// prepareFrames makes what the network is to see, and tells how long a network that enlarges took for it.
func (r *run) prepareFrames(s *segmentRun, a method.Infer) (frames []*media.Frame, enlarging time.Duration, err error) {
	frames, err = r.selectFrames(s, a.Stream, a.Frames)
	if err != nil {
		return nil, 0, err
	}
	switch how := a.How.(type) {
	case method.Pasted:
		low, err := r.selectFrames(s, method.A, a.Frames)
		if err != nil {
			return nil, 0, err
		}
		for i, high := range frames {
			whole, err := r.lab.tools.Codec.Scale(low[i], high.Width, high.Height)
			if err != nil {
				return nil, 0, err
			}
			if whole == low[i] {
				whole = low[i].Clone()
			}
			videoext.Paste(whole, high, how.Regions[i])
			frames[i] = whole
		}
	case method.SuperResolved:
		if r.lab.tools.Resolve == nil {
			return nil, 0, fmt.Errorf("it needs a network that makes frames larger")
		}
		before := r.lab.tools.Clock()
		for i, f := range frames {
			if frames[i], err = r.lab.tools.Resolve(f, how.Factor); err != nil {
				return nil, 0, err
			}
		}
		enlarging = r.lab.tools.Clock() - before
	}
	return frames, enlarging, nil
}

// selectFrames are frames of a segment as they came out of a stream.
func (r *run) selectFrames(s *segmentRun, stream method.Stream, numbers []int) ([]*media.Frame, error) {
	all, err := r.lab.decodeFrames(s.sent[stream])
	if err != nil {
		return nil, err
	}
	frames := make([]*media.Frame, len(numbers))
	for i, n := range numbers {
		at := slices.Index(s.of[stream], n)
		if at < 0 || at >= len(all) {
			return nil, fmt.Errorf("frame %d of a segment was not sent on stream %v", n, stream)
		}
		frames[i] = all[at]
	}
	return frames, nil
}

// recordResults takes results down.
func (r *run) recordResults(a method.Results) {
	s := r.segments[a.Segment]
	s.results = append(s.results, result{r.line.Now(), a})
}
