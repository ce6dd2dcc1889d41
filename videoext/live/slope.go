package live

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/session"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// sight is what the network said of frames, and of the last of them that it saw whole.
type sight struct {
	streams.Inferred
	jobs.Seen
}

// requestGradient asks for the gradient of the frame that was seen last: it is asked for when that is told. One that has not begun after an interval is dropped; one
// that has is waited for as long as the camera uses it.
func (s *stream) requestGradient(ctx context.Context, a streams.ComputeGradient) {
	seen, asked, interval := s.sight.Seen, time.Now(), s.segmentDuration()
	s.group.Go(func() { // ends with ctx, or before
		answer := streams.GradientComputed{GradientComputed: method.GradientComputed{Segment: a.Segment}}
		limited, stop := context.WithTimeout(ctx, time.Duration(oneadapt.Usual().Fresh)*interval)
		defer stop()
		name := "video/" + s.spec.Name
		look := jobs.Terms{Stream: name + "/gradient", Arrived: asked, Deadline: interval, Promised: s.spec.frameDeadline() > 0, User: name}
		var count metrics.Gradients
		var err error
		answer.Gradient, count.Computing, err = s.computeGradient(limited, &seen, look)
		var told []byte
		if err == nil {
			told, err = answer.Gradient.AppendBinary(nil)
		}
		var failed *engine.Error
		late := errors.As(err, &failed) && failed.Code == engine.CodeDeadline || errors.Is(err, context.DeadlineExceeded) || err == nil && time.Since(asked) > interval
		switch count.Asked, count.Feedback = 1, uint64(len(told)); {
		case late:
			count.Late = 1
		case err != nil && ctx.Err() == nil:
			count.Failed = 1
		}
		s.figure.CountGradient(count)
		if err == nil {
			s.segments.addGradient(a.Segment, answer.Gradient)
		}
		if err != nil {
			answer.Gradient = nil
			s.log.Warn("there is no gradient", zap.Int("segment", int(a.Segment)), zap.Error(err))
		}
		select {
		case s.gradients <- answer:
		case <-ctx.Done():
		}
	})
}

// computeGradient has the gradient of a frame, and what of a device it took.
func (s *stream) computeGradient(ctx context.Context, seen *jobs.Seen, l jobs.Terms) (*oneadapt.Map, time.Duration, error) {
	network, err := s.currentNetwork()
	if err == nil && !seen.Whole() {
		err = errors.New("the network has seen no frame of the segment")
	}
	if err != nil {
		return nil, 0, err
	}
	gradient, spent, err := s.maker.Gradient(ctx, network, seen, l, oneadapt.UsualUtility())
	s.figure.Spend(spent)
	return gradient, spent.Device, err
}

// recordEncoding keeps how a camera has encoded a segment, on the stream that its knobs are of.
func (s *stream) recordEncoding(m *session.Sent) {
	if m.Stream != method.A {
		return
	}
	s.segments.addSegment(Segment{
		Number: m.Segment, Of: m.Of, Frames: len(m.Frames), Bytes: m.Container, Seconds: float64(m.Of) / m.Data.Rate, Width: m.Data.Width, Height: m.Data.Height,
		Quantisers: quantiserGrid(m.Knobs.Quantisers), BBias: m.Knobs.BBias,
	})
}

// segmentDuration is how long a segment of a camera lasts.
func (s *stream) segmentDuration() time.Duration {
	m, err := s.spec.newMethod()
	rate := s.frameRate()
	if err != nil || rate <= 0 { // the method was checked, and a camera says its rate
		return time.Second
	}
	return time.Duration(float64(m.Frames) / rate * float64(time.Second))
}
