package emulate

import (
	"fmt"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// skipBytes is about what a Skip takes.
const skipBytes = 16

func (r *run) cameraDoes(action method.CameraAction) error {
	switch a := action.(type) {
	case method.Encode:
		return r.encodeFrames(&a)
	case method.Skip:
		r.sendBytes(r.line.Now(), skipBytes, a)
	case method.Detect:
		return r.detectFrames(a)
	case method.Measure:
		return r.measureFrames(a)
	case method.Track:
		return r.trackDetections(a)
	case method.Try:
		return r.tryVariants(&a)
	case method.Results:
		r.recordResults(a)
	case method.Wake:
		r.wake[0] = max(a.At, r.line.Now())
		r.line.At(a.At, toCamera{method.Woke{}})
	}
	return nil
}

// keepBusy keeps the camera busy, after what it does already, and returns until when.
func (r *run) keepBusy(took time.Duration) time.Duration {
	r.out.CameraTime += took
	r.busy = max(r.busy, r.line.Now()) + took
	return r.busy
}

func (r *run) sendBytes(at time.Duration, bytes int, event method.ServerEvent) {
	if arrives := r.link.Send(at, bytes); arrives != link.Never {
		r.line.At(arrives, toServer{event})
	}
}

func (r *run) encodeFrames(a *method.Encode) error {
	s := r.segments[a.Segment]
	coded, name, err := r.lab.encodeFrames(s.first, a)
	if err != nil {
		return err
	}
	nal := coded.Segment.NALBytes()
	r.out.Encodes++
	r.out.NAL += nal
	r.out.Container += coded.Container
	s.bytes += coded.Container
	s.sent[a.Stream], s.of[a.Stream] = name, a.Frames
	done := r.keepBusy(coded.Took)
	r.line.At(done, toCamera{method.Encoded{Segment: a.Segment, Stream: a.Stream, NAL: nal, Container: coded.Container}})
	r.line.At(done, sent{coded.Container, method.Arrived{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Of: s.frames}})
	return nil
}

// sent is something that goes to the link.
type sent struct {
	bytes int
	method.Arrived
}

func (r *run) detectFrames(a method.Detect) error {
	if r.lab.tools.Camera == nil {
		return fmt.Errorf("it needs a network on the camera")
	}
	first := r.segments[a.Segment].first
	in, err := r.lab.inferFrames(r.lab.tools.Camera, r.capturedFrames(a.Segment, a.Frames), derivedKey(key{}, "camera", first, a.Frames))
	if err != nil {
		return err
	}
	r.line.At(r.keepBusy(in.took), toCamera{method.Found{Segment: a.Segment, Frames: a.Frames, Findings: in.findings}})
	return nil
}

// capturedFrames are those of a segment as they were captured.
func (r *run) capturedFrames(segment method.Segment, numbers []int) []*media.Frame {
	first, frames := r.segments[segment].first, make([]*media.Frame, len(numbers))
	for i, n := range numbers {
		frames[i] = r.lab.clip.Frames[first+n]
	}
	return frames
}

func (r *run) measureFrames(a method.Measure) error {
	tools := &r.lab.tools
	if tools.Differ == nil {
		return fmt.Errorf("it needs differences of frames")
	}
	s := r.segments[a.Segment]
	values := make([]float64, s.frames)
	before := tools.Clock()
	for i := range values {
		n := s.first + i
		switch {
		case a.Since != nil:
			values[i] = tools.Differ(a.Feature, r.capturedFrames(a.Since.Segment, []int{a.Since.Frame})[0], r.lab.clip.Frames[n])
		case n == 0:
			values[i] = math.Inf(1)
		default:
			values[i] = tools.Differ(a.Feature, r.lab.clip.Frames[n-1], r.lab.clip.Frames[n])
		}
	}
	r.line.At(r.keepBusy(tools.Clock()-before), toCamera{method.Measured{Segment: a.Segment, Values: values}})
	return nil
}

func (r *run) trackDetections(a method.Track) error {
	tools := &r.lab.tools
	if tools.Track == nil {
		return fmt.Errorf("it needs a tracker")
	}
	before := tools.Clock()
	found := tools.Track(r.capturedFrames(a.From.Segment, []int{a.From.Frame})[0], a.Detections, r.capturedFrames(a.Segment, a.Frames))
	r.line.At(r.keepBusy(tools.Clock()-before), toCamera{method.Tracked{Segment: a.Segment, Frames: a.Frames, Detections: found}})
	return nil
}

func (r *run) tryVariants(a *method.Try) error {
	against, trial, took, err := r.tryVariant(a, &a.Against, nil)
	if err != nil {
		return err
	}
	answer := method.Tried{Segment: a.Segment, Against: trial}
	for i := range a.Variants {
		_, trial, more, err := r.tryVariant(a, &a.Variants[i], against)
		if err != nil {
			return err
		}
		answer.Trials = append(answer.Trials, trial)
		took += more
	}
	r.line.At(r.keepBusy(took), toCamera{answer})
	return nil
}

// tryVariant is what a segment is like, encoded in a way, and its frames in the size that they were captured in. Against is nil of the variant that others are
// compared with.
func (r *run) tryVariant(a *method.Try, v *method.Variant, against []*media.Frame) (shown []*media.Frame, trial method.Trial, took time.Duration, err error) {
	s := r.segments[a.Segment]
	coded, name, err := r.lab.encodeFrames(s.first, &method.Encode{Segment: a.Segment, Frames: v.Frames, Settings: v.Settings})
	if err != nil {
		return nil, trial, 0, err
	}
	r.out.Encodes++
	frames, err := r.lab.decodeFrames(name)
	if err != nil {
		return nil, trial, 0, err
	}
	before := r.lab.tools.Clock()
	if shown, err = oneadapt.Shown(frames, v.Frames, s.frames, r.lab.clip.Frames[s.first], r.lab.tools.Codec.Scale); err != nil {
		return nil, trial, 0, err
	}
	if against == nil {
		against = shown
	}
	trial.Bytes = coded.Container
	trial.Changes, err = oneadapt.Changes(a.Gradient, against, shown, a.Parts)
	return shown, trial, coded.Took + r.lab.tools.Clock() - before, err
}
