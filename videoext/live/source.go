package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/osthread"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// Delays before a source is opened again.
const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 30 * time.Second
)

// maxLag is how far a file's frames may be behind the clock before their time is counted anew.
const maxLag = time.Second

// read brings the frames of a source that the server reads itself, until ctx ends or the source does.
func (s *stream) read(ctx context.Context, file string) {
	after := s.from.Time // frames up to there have their results
	for delay := firstDelay; ; {
		read, err := s.readOnce(ctx, file, after)
		switch {
		case ctx.Err() != nil:
			return
		case s.spec.remote():
		case !errors.Is(err, io.EOF):
			s.log.Error("the source cannot be read", zap.Error(err))
			s.set(stateFailed, err.Error())
			return
		case !s.spec.Loop:
			s.bring(ctx, incoming{event: streams.Ended{}})
			return
		default:
			after = -1
			continue
		}
		if read > 0 {
			delay = firstDelay
		}
		s.set(stateWaiting, fmt.Sprintf("%v; it is opened again after %v", err, delay))
		s.log.Warn("the source is opened again", zap.Error(err), zap.Duration("delay", delay))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, maxDelay)
	}
}

// readOnce reads a source to its end, and says how many frames there were.
func (s *stream) readOnce(ctx context.Context, file string, after time.Duration) (read int, err error) {
	clip, err := ffmpeg.Open(ctx, file, ffmpeg.Options{Rate: s.spec.Rate})
	if err != nil {
		return 0, err
	}
	defer clip.Close()
	var begun time.Time // of the source's time 0
	for bytes := 0; ; read++ {
		var frame *media.Frame
		took, err := osthread.Measure(func() (err error) {
			frame, err = clip.Next(ctx)
			return err
		})
		s.figure.Spend(metrics.Spent{Decode: took})
		s.figure.Sent(method.A, clip.Bytes()-bytes)
		bytes = clip.Bytes()
		if err != nil {
			if errors.Is(err, io.EOF) && s.spec.Loop && read == 0 && after < 0 {
				return 0, fmt.Errorf("%s has no frames", s.spec.shown())
			}
			return read, err
		}
		if read == 0 {
			s.set(stateRunning, "")
		}
		if !s.spec.remote() {
			if frame.Time <= after {
				continue
			}
			if begun.IsZero() || time.Since(begun)-frame.Time > maxLag {
				begun = time.Now().Add(-frame.Time)
			}
			select {
			case <-time.After(time.Until(begun.Add(frame.Time))):
			case <-ctx.Done():
				return read, ctx.Err()
			}
		}
		s.bring(ctx, incoming{
			event:   streams.Came{Frames: []int{0}, Times: []time.Duration{frame.Time}, Of: 1},
			footage: &footage{numbers: []int{0}, load: func(context.Context) ([]*media.Frame, error) { return []*media.Frame{frame}, nil }},
		})
	}
}

// bring hands what comes to run, and waits until it is taken.
func (s *stream) bring(ctx context.Context, m incoming) bool {
	select {
	case s.inbox <- m:
		return true
	case <-ctx.Done():
		return false
	}
}
