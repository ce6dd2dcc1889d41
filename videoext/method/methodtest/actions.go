package methodtest

import (
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// cameraDoes carries out what the camera's side asks for.
func (w *world) cameraDoes(action method.CameraAction) {
	soon := w.now() + time.Duration(1+w.r.IntN(20))*time.Millisecond
	switch a := action.(type) {
	case method.Encode:
		w.encodeFrames(a)
	case method.Skip:
		if s := w.capturedSegment(a.Segment, a); s != nil {
			w.checkSentOnce(a.Segment, s, a.Stream, a)
			if a.Of != s.frames {
				w.addProblem("Skip says that segment %d has %d frames, and it has %d", a.Segment, a.Of, s.frames)
			}
			w.linkFree = max(w.linkFree, w.now())
			w.addEvent(w.linkFree, toServer, a)
		}
	case method.Detect:
		if s := w.heldSegment(a.Segment, a); s != nil {
			w.checkFrames(s, a.Frames, a)
			w.addEvent(soon, toCamera, method.Found{Segment: a.Segment, Frames: a.Frames, Findings: w.allFindings(a.Segment, a.Frames)})
		}
	case method.Measure:
		w.measureFrames(a, soon)
	case method.Track:
		w.trackDetections(a, soon)
	case method.Try:
		w.tryVariants(a, soon)
	case method.Release:
		if s := w.heldSegment(a.Segment, a); s != nil {
			s.released = true
		}
	case method.Wake:
		w.cameraWake = a.At
		w.addEvent(max(a.At, w.now()), toCamera, method.Woke{})
	case method.Results:
		w.handleResults(a)
	default:
		w.addProblem("an unknown action %T", action)
	}
}

func (w *world) encodeFrames(a method.Encode) {
	s := w.heldSegment(a.Segment, a)
	if s == nil {
		return
	}
	w.checkFrames(s, a.Frames, a)
	w.checkSentOnce(a.Segment, s, a.Stream, a)
	w.checkSettings(a)
	bytes := 2000 * len(a.Frames)
	w.addEvent(w.now()+5*time.Millisecond, toCamera, method.Encoded{Segment: a.Segment, Stream: a.Stream, NAL: bytes, Container: bytes + 900})
	start := max(w.linkFree, w.now())
	for w.isLinkDown(start) {
		start += 100 * time.Millisecond
	}
	w.linkFree = start + time.Duration(float64(bytes)/bandwidth*float64(time.Second))
	if w.r.Float64() < w.f.failed {
		w.addEvent(w.linkFree, toServer, method.Failed{Segment: a.Segment, Stream: a.Stream, Of: s.frames})
		return
	}
	s.arrived[a.Stream] = true
	w.addEvent(w.linkFree, toServer, method.Arrived{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Of: s.frames})
}

// checkSettings holds what is encoded to what an encoder takes.
func (w *world) checkSettings(a method.Encode) {
	s := a.Settings
	if s.Rate == 0 {
		s.Rate = 1 / frameTime.Seconds()
	}
	if err := s.Check(len(a.Frames), width, height); err != nil {
		w.addProblem("Encode: %v", err)
	}
	if n := len(a.Kept); n > 0 && n != len(a.Frames) {
		w.addProblem("parts of %d frames are kept, of %d", n, len(a.Frames))
	}
}

// checkSentOnce holds that each stream of a segment is sent or skipped once, and stream A in order.
func (w *world) checkSentOnce(n method.Segment, s *segment, stream method.Stream, what any) {
	if s.sent[stream] {
		w.addProblem("%T: stream %v of segment %d a second time", what, stream, n)
	}
	s.sent[stream] = true
	if stream == method.A && n > 0 && !w.segments[n-1].sent[method.A] {
		w.addProblem("%T: segment %d is sent before the one before it", what, n)
	}
	if stream == method.B && !s.sent[method.A] {
		w.addProblem("%T: stream B of segment %d is sent before A", what, n)
	}
}

func (w *world) measureFrames(a method.Measure, at time.Duration) {
	s := w.heldSegment(a.Segment, a)
	if s == nil || a.Since != nil && w.heldSegment(a.Since.Segment, a) == nil {
		return
	}
	values := make([]float64, s.frames)
	for i := range values {
		values[i] = frameDifference(a.Segment, i)
	}
	w.addEvent(at, toCamera, method.Measured{Segment: a.Segment, Values: values})
}

func (w *world) tryVariants(a method.Try, at time.Duration) {
	s := w.heldSegment(a.Segment, a)
	if s == nil {
		return
	}
	if a.Gradient == nil || len(a.Gradient.Values) != a.Gradient.Width*a.Gradient.Height {
		w.addProblem("segment %d is tried by the gradient %+v", a.Segment, a.Gradient)
		return
	}
	answer := method.Tried{Segment: a.Segment}
	for i, v := range append([]method.Variant{a.Against}, a.Variants...) {
		e := method.Encode{Segment: a.Segment, Frames: v.Frames, Settings: v.Settings}
		w.checkFrames(s, v.Frames, e)
		w.checkSettings(e)
		t := method.Trial{Bytes: 1000 * (1 + w.r.IntN(9)), Changes: []float64{w.r.Float64()}}
		if a.Parts {
			t.Changes = make([]float64, len(a.Gradient.Values))
			t.Changes[w.r.IntN(len(t.Changes))] = w.r.Float64()
		}
		if i == 0 {
			answer.Against = t
		} else {
			answer.Trials = append(answer.Trials, t)
		}
	}
	if w.r.Float64() < w.f.failed {
		answer = method.Tried{Segment: a.Segment}
	}
	w.addEvent(at, toCamera, answer)
}

func (w *world) trackDetections(a method.Track, at time.Duration) {
	s, from := w.heldSegment(a.Segment, a), w.heldSegment(a.From.Segment, a)
	if s == nil || from == nil {
		return
	}
	w.checkFrames(s, a.Frames, a)
	found := make([][]videoext.Detection, len(a.Frames))
	for i := range found {
		found[i] = a.Detections
	}
	w.addEvent(at, toCamera, method.Tracked{Segment: a.Segment, Frames: a.Frames, Detections: found})
}

// serverDoes carries out what the server's side asks for.
func (w *world) serverDoes(action method.ServerAction) {
	switch a := action.(type) {
	case method.Infer:
		w.inferFrames(a)
	case method.ComputeGradient:
		w.computeGradient(a)
	case method.Answer:
		if w.capturedSegment(a.Segment, a) == nil || w.isLinkDown(w.now()) || w.r.Float64() < w.f.answerLost {
			return
		}
		w.addEvent(w.now()+time.Duration(10+w.r.IntN(50))*time.Millisecond, toCamera, a)
	case method.Results:
		w.handleResults(a)
		if s := w.capturedSegment(a.Segment, a); s != nil && a.Final {
			s.served = true
		}
	case method.Wake:
		w.serverWake = a.At
		w.addEvent(max(a.At, w.now()), toServer, method.Woke{})
	default:
		w.addProblem("an unknown action %T", action)
	}
}

func (w *world) inferFrames(a method.Infer) {
	s := w.capturedSegment(a.Segment, a)
	if s == nil {
		return
	}
	w.checkFrames(s, a.Frames, a)
	if !s.arrived[a.Stream] {
		w.addProblem("Infer of stream %v of segment %d, which is not here", a.Stream, a.Segment)
	}
	if s.served {
		w.addProblem("Infer of segment %d, whose results are final", a.Segment)
	}
	if p, ok := a.How.(method.Pasted); ok && (len(p.Regions) != len(a.Frames) || !s.arrived[method.A]) {
		w.addProblem("%d frames are to be pasted, with regions of %d", len(a.Frames), len(p.Regions))
	}
	took := 20 * time.Millisecond * time.Duration(len(a.Frames))
	if w.f.serverBehind {
		took = 2 * frameTime * time.Duration(len(a.Frames))
	}
	w.deviceFree = max(w.deviceFree, w.now()) + took
	if w.r.Float64() < w.f.failed {
		w.addEvent(w.deviceFree, toServer, method.Failed{Segment: a.Segment, Stream: a.Stream, Of: s.frames})
		return
	}
	w.addEvent(w.deviceFree, toServer, method.Inferred{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Findings: w.allFindings(a.Segment, a.Frames)})
}

func (w *world) computeGradient(a method.ComputeGradient) {
	s := w.capturedSegment(a.Segment, a)
	if s == nil {
		return
	}
	w.checkFrames(s, []int{a.Frame}, a)
	if !s.arrived[method.A] || s.served {
		w.addProblem("ComputeGradient of segment %d, which is not here or whose results are final", a.Segment)
	}
	answer := method.GradientComputed{Segment: a.Segment}
	if w.r.Float64() >= w.f.failed {
		answer.Gradient = oneadapt.NewMap((width+15)/16, (height+15)/16)
		for i := range answer.Gradient.Values {
			answer.Gradient.Values[i] = w.r.Float32()
		}
		answer.Gradient.Utility = float32(w.r.IntN(9))
	}
	w.deviceFree = max(w.deviceFree, w.now()) + 70*time.Millisecond
	w.addEvent(w.deviceFree, toServer, answer)
}

func (w *world) handleResults(r method.Results) {
	s := w.capturedSegment(r.Segment, r)
	if s == nil {
		return
	}
	if len(r.Frames) != s.frames {
		w.addProblem("results of %d frames for segment %d, which has %d", len(r.Frames), r.Segment, s.frames)
	}
	if s.final > 0 {
		w.addProblem("segment %d has results after its final ones", r.Segment)
	}
	if r.Final {
		s.final++
	}
}
