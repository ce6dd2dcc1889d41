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
		w.encode(a)
	case method.Skip:
		if s := w.of(a.Segment, a); s != nil {
			w.once(a.Segment, s, a.Stream, a)
			if a.Of != s.frames {
				w.problem("Skip says that segment %d has %d frames, and it has %d", a.Segment, a.Of, s.frames)
			}
			w.linkFree = max(w.linkFree, w.now())
			w.add(w.linkFree, toServer, a)
		}
	case method.Detect:
		if s := w.held(a.Segment, a); s != nil {
			w.frames(s, a.Frames, a)
			w.add(soon, toCamera, method.Found{Segment: a.Segment, Frames: a.Frames, Findings: w.allFindings(a.Segment, a.Frames)})
		}
	case method.Measure:
		w.measure(a, soon)
	case method.Track:
		w.track(a, soon)
	case method.Try:
		w.try(a, soon)
	case method.Release:
		if s := w.held(a.Segment, a); s != nil {
			s.released = true
		}
	case method.Wake:
		w.cameraWake = a.At
		w.add(max(a.At, w.now()), toCamera, method.Woke{})
	case method.Results:
		w.results(a)
	default:
		w.problem("an unknown action %T", action)
	}
}

func (w *world) encode(a method.Encode) {
	s := w.held(a.Segment, a)
	if s == nil {
		return
	}
	w.frames(s, a.Frames, a)
	w.once(a.Segment, s, a.Stream, a)
	w.settings(a)
	bytes := 2000 * len(a.Frames)
	w.add(w.now()+5*time.Millisecond, toCamera, method.Encoded{Segment: a.Segment, Stream: a.Stream, NAL: bytes, Container: bytes + 900})
	start := max(w.linkFree, w.now())
	for w.down(start) {
		start += 100 * time.Millisecond
	}
	w.linkFree = start + time.Duration(float64(bytes)/bandwidth*float64(time.Second))
	if w.r.Float64() < w.f.failed {
		w.add(w.linkFree, toServer, method.Failed{Segment: a.Segment, Stream: a.Stream, Of: s.frames})
		return
	}
	s.arrived[a.Stream] = true
	w.add(w.linkFree, toServer, method.Arrived{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Of: s.frames})
}

// settings holds what is encoded to what an encoder takes.
func (w *world) settings(a method.Encode) {
	s := a.Settings
	if s.Rate == 0 {
		s.Rate = 1 / frameTime.Seconds()
	}
	if err := s.Check(len(a.Frames), width, height); err != nil {
		w.problem("Encode: %v", err)
	}
	if n := len(a.Kept); n > 0 && n != len(a.Frames) {
		w.problem("parts of %d frames are kept, of %d", n, len(a.Frames))
	}
}

// once holds that each stream of a segment is sent or skipped once, and stream A in order.
func (w *world) once(n method.Segment, s *segment, stream method.Stream, what any) {
	if s.sent[stream] {
		w.problem("%T: stream %v of segment %d a second time", what, stream, n)
	}
	s.sent[stream] = true
	if stream == method.A && n > 0 && !w.segments[n-1].sent[method.A] {
		w.problem("%T: segment %d is sent before the one before it", what, n)
	}
	if stream == method.B && !s.sent[method.A] {
		w.problem("%T: stream B of segment %d is sent before A", what, n)
	}
}

func (w *world) measure(a method.Measure, at time.Duration) {
	s := w.held(a.Segment, a)
	if s == nil || a.Since != nil && w.held(a.Since.Segment, a) == nil {
		return
	}
	values := make([]float64, s.frames)
	for i := range values {
		values[i] = difference(a.Segment, i)
	}
	w.add(at, toCamera, method.Measured{Segment: a.Segment, Values: values})
}

func (w *world) try(a method.Try, at time.Duration) {
	s := w.held(a.Segment, a)
	if s == nil {
		return
	}
	if a.Gradient == nil || len(a.Gradient.Values) != a.Gradient.Width*a.Gradient.Height {
		w.problem("segment %d is tried by the gradient %+v", a.Segment, a.Gradient)
		return
	}
	answer := method.Tried{Segment: a.Segment}
	for i, v := range append([]method.Variant{a.Against}, a.Variants...) {
		e := method.Encode{Segment: a.Segment, Frames: v.Frames, Settings: v.Settings}
		w.frames(s, v.Frames, e)
		w.settings(e)
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
	w.add(at, toCamera, answer)
}

func (w *world) track(a method.Track, at time.Duration) {
	s, from := w.held(a.Segment, a), w.held(a.From.Segment, a)
	if s == nil || from == nil {
		return
	}
	w.frames(s, a.Frames, a)
	found := make([][]videoext.Detection, len(a.Frames))
	for i := range found {
		found[i] = a.Detections
	}
	w.add(at, toCamera, method.Tracked{Segment: a.Segment, Frames: a.Frames, Detections: found})
}

// serverDoes carries out what the server's side asks for.
func (w *world) serverDoes(action method.ServerAction) {
	switch a := action.(type) {
	case method.Infer:
		w.infer(a)
	case method.Differentiate:
		w.differentiate(a)
	case method.Answer:
		if w.of(a.Segment, a) == nil || w.down(w.now()) || w.r.Float64() < w.f.answerLost {
			return
		}
		w.add(w.now()+time.Duration(10+w.r.IntN(50))*time.Millisecond, toCamera, a)
	case method.Results:
		w.results(a)
		if s := w.of(a.Segment, a); s != nil && a.Final {
			s.served = true
		}
	case method.Wake:
		w.serverWake = a.At
		w.add(max(a.At, w.now()), toServer, method.Woke{})
	default:
		w.problem("an unknown action %T", action)
	}
}

func (w *world) infer(a method.Infer) {
	s := w.of(a.Segment, a)
	if s == nil {
		return
	}
	w.frames(s, a.Frames, a)
	if !s.arrived[a.Stream] {
		w.problem("Infer of stream %v of segment %d, which is not here", a.Stream, a.Segment)
	}
	if s.served {
		w.problem("Infer of segment %d, whose results are final", a.Segment)
	}
	if p, ok := a.How.(method.Pasted); ok && (len(p.Regions) != len(a.Frames) || !s.arrived[method.A]) {
		w.problem("%d frames are to be pasted, with regions of %d", len(a.Frames), len(p.Regions))
	}
	took := 20 * time.Millisecond * time.Duration(len(a.Frames))
	if w.f.serverBehind {
		took = 2 * frameTime * time.Duration(len(a.Frames))
	}
	w.deviceFree = max(w.deviceFree, w.now()) + took
	if w.r.Float64() < w.f.failed {
		w.add(w.deviceFree, toServer, method.Failed{Segment: a.Segment, Stream: a.Stream, Of: s.frames})
		return
	}
	w.add(w.deviceFree, toServer, method.Inferred{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Findings: w.allFindings(a.Segment, a.Frames)})
}

func (w *world) differentiate(a method.Differentiate) {
	s := w.of(a.Segment, a)
	if s == nil {
		return
	}
	w.frames(s, []int{a.Frame}, a)
	if !s.arrived[method.A] || s.served {
		w.problem("Differentiate of segment %d, which is not here or whose results are final", a.Segment)
	}
	answer := method.Differentiated{Segment: a.Segment}
	if w.r.Float64() >= w.f.failed {
		answer.Gradient = oneadapt.NewMap((width+15)/16, (height+15)/16)
		for i := range answer.Gradient.Values {
			answer.Gradient.Values[i] = w.r.Float32()
		}
		answer.Gradient.Utility = float32(w.r.IntN(9))
	}
	w.deviceFree = max(w.deviceFree, w.now()) + 70*time.Millisecond
	w.add(w.deviceFree, toServer, answer)
}

func (w *world) results(r method.Results) {
	s := w.of(r.Segment, r)
	if s == nil {
		return
	}
	if len(r.Frames) != s.frames {
		w.problem("results of %d frames for segment %d, which has %d", len(r.Frames), r.Segment, s.frames)
	}
	if s.final > 0 {
		w.problem("segment %d has results after its final ones", r.Segment)
	}
	if r.Final {
		s.final++
	}
}
