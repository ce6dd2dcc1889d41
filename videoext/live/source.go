package live

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/source"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// read brings the frames of a source that the server reads itself, until ctx ends or the source does.
func (s *stream) read(ctx context.Context, address string) {
	from := source.Source{Address: address, Resolve: s.resolve, Rate: s.spec.Rate, After: s.from.Time} // frames up to there have their results
	if s.spec.isRemote() {
		from.Follow(ctx, sourced{s})
		return
	}
	switch err := from.Play(ctx, s.spec.Loop, sourced{s}); {
	case ctx.Err() != nil:
	case err != nil:
		s.held.End()
		s.log.Error("the source cannot be read", zap.Error(err))
		s.setState(stateFailed, err.Error())
	default:
		s.deliverIncoming(ctx, incoming{event: streams.Ended{}})
	}
}

// sourced is a stream as its source sees it.
type sourced struct{ *stream }

// Opened takes the memory that the source says it takes, and keeps it while the source is away.
func (s sourced) Opened(info ffmpeg.Info) error {
	return s.held.Set(sourceMemory(&info))
}

func (s sourced) Admit(ctx context.Context, rate float64, width, height int) error {
	return s.admit(ctx, demand{rate, width, height, s.held.Size()}.atMost(s.spec.Rate))
}

func (s sourced) Running() { s.setState(stateRunning, "") }

func (s sourced) Waiting(why error, delay time.Duration) {
	s.setState(stateWaiting, fmt.Sprintf("%v; it is opened again after %v", why, delay))
	s.log.Warn("the source is opened again", zap.Error(why), zap.Duration("delay", delay))
}

func (s sourced) Keyless() { s.setState(stateWaiting, "waiting for a key frame") }

func (s sourced) Read(bytes int, decoding time.Duration) {
	s.figure.Spend(metrics.Spent{Decode: decoding})
	s.figure.Sent(method.A, bytes)
}

// Frame brings a segment of one frame.
func (s sourced) Frame(ctx context.Context, frame *media.Frame) {
	if frame.Broken && time.Since(s.broke) > time.Minute {
		s.broke = time.Now()
		s.log.Warn("the source's own time does not follow what it said before: the stream's goes on", zap.Duration("time", frame.Time))
	}
	s.deliverIncoming(ctx, incoming{
		event:   streams.Came{Frames: []int{0}, Times: []time.Duration{frame.Time}, Of: 1, Broken: frame.Broken},
		footage: &footage{numbers: []int{0}, bytes: int64(len(frame.Y) + len(frame.Cb) + len(frame.Cr)), load: func(context.Context) ([]*media.Frame, error) { return []*media.Frame{frame}, nil }},
	})
}

// deliverIncoming hands what comes to run, and waits until it is taken.
func (s *stream) deliverIncoming(ctx context.Context, m incoming) {
	select {
	case s.inbox <- m:
	case <-ctx.Done():
	}
}
