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
	if s.spec.remote() {
		s.follow(ctx, file)
		return
	}
	after := s.from.Time // frames up to there have their results
	for {
		switch err := s.readFile(ctx, file, after); {
		case ctx.Err() != nil:
			return
		case !errors.Is(err, io.EOF):
			s.log.Error("the source cannot be read", zap.Error(err))
			s.set(stateFailed, err.Error())
			return
		case !s.spec.Loop:
			s.bring(ctx, incoming{event: streams.Ended{}})
			return
		}
		after = -1
	}
}

// readFile brings the frames of a file behind a time, each when its own has come.
func (s *stream) readFile(ctx context.Context, file string, after time.Duration) error {
	clip, err := ffmpeg.Open(ctx, file, ffmpeg.Options{Rate: s.spec.Rate})
	if err != nil {
		return err
	}
	defer clip.Close()
	next := s.counted(clip)
	var begun time.Time // of the source's time 0
	for read := 0; ; read++ {
		frame, err := next(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) && s.spec.Loop && read == 0 && after < 0 {
				return fmt.Errorf("%s has no frames", s.spec.shown())
			}
			return err
		}
		if read == 0 {
			s.set(stateRunning, "")
		}
		if frame.Time <= after {
			continue
		}
		if begun.IsZero() || time.Since(begun)-frame.Time > maxLag {
			begun = time.Now().Add(-frame.Time)
		}
		select {
		case <-time.After(time.Until(begun.Add(frame.Time))):
		case <-ctx.Done():
			return ctx.Err()
		}
		s.bringFrame(ctx, frame, frame.Time)
	}
}

// follow brings the frames of a camera that speaks RTSP, and opens it again whenever it stops, until ctx ends.
func (s *stream) follow(ctx context.Context, address string) {
	clock := &continued{last: s.from.Time, at: time.Now()}
	for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
		clock.opened = true
		read, err := s.followOnce(ctx, address, clock)
		if ctx.Err() != nil {
			return
		}
		if read {
			delay = firstDelay
		}
		s.set(stateWaiting, fmt.Sprintf("%v; it is opened again after %v", err, delay))
		s.log.Warn("the source is opened again", zap.Error(err), zap.Duration("delay", delay))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
	}
}

// followOnce reads until the camera stops; read says that it was admitted.
func (s *stream) followOnce(ctx context.Context, address string, clock *continued) (read bool, err error) {
	clip, err := ffmpeg.Open(ctx, address, ffmpeg.Options{Rate: s.spec.Rate})
	if err != nil {
		return false, err
	}
	defer clip.Close()
	next := s.counted(clip)
	frames, rate, err := measure(ctx, next)
	if err == nil {
		info := clip.Info()
		err = s.admit(ctx, demand{rate, info.Width, info.Height}.atMost(s.spec.Rate))
	}
	if err != nil {
		return false, err
	}
	s.set(stateRunning, "")
	for {
		for _, frame := range frames {
			s.bringFrame(ctx, frame, clock.time(frame.Time, time.Now()))
		}
		frame, err := next(ctx)
		if err != nil {
			return true, err
		}
		frames = append(frames[:0], frame)
	}
}

// measuredFrames is how many frames tell a camera's rate, which it may not say or may not hold.
const measuredFrames = 9

// measure reads the first frames of a camera, and says how many come in a second.
func measure(ctx context.Context, next func(context.Context) (*media.Frame, error)) (frames []*media.Frame, rate float64, err error) {
	for len(frames) < measuredFrames {
		frame, err := next(ctx)
		if err != nil {
			return nil, 0, err
		}
		if frames = append(frames, frame); frame.Time-frames[0].Time >= time.Second {
			break
		}
	}
	span := frames[len(frames)-1].Time - frames[0].Time
	if span <= 0 {
		return frames, maxRate, nil
	}
	return frames, min(float64(len(frames)-1)/span.Seconds(), maxRate), nil
}

// counted are the frames of a clip, while what they take is counted.
func (s *stream) counted(clip *ffmpeg.Clip) func(context.Context) (*media.Frame, error) {
	bytes := 0
	return func(ctx context.Context) (*media.Frame, error) {
		var frame *media.Frame
		took, err := osthread.Measure(func() (err error) {
			frame, err = clip.Next(ctx)
			return err
		})
		s.figure.Spend(metrics.Spent{Decode: took})
		s.figure.Sent(method.A, clip.Bytes()-bytes)
		bytes = clip.Bytes()
		return frame, err
	}
}

// continued makes the times of a camera that is opened again and again those of one that went on meanwhile: they always grow.
type continued struct {
	last   time.Duration // of the frame before; negative: there was none
	at     time.Time     // when that came, or this process began
	shift  time.Duration
	opened bool // anew, since then
}

func (c *continued) time(t time.Duration, now time.Time) time.Duration {
	if c.last >= 0 && (c.opened || t+c.shift <= c.last) {
		c.shift = c.last + max(now.Sub(c.at), time.Millisecond) - t
	}
	c.opened, c.last, c.at = false, t+c.shift, now
	return c.last
}

// bringFrame brings a segment of one frame.
func (s *stream) bringFrame(ctx context.Context, frame *media.Frame, at time.Duration) {
	s.bring(ctx, incoming{
		event:   streams.Came{Frames: []int{0}, Times: []time.Duration{at}, Of: 1},
		footage: &footage{numbers: []int{0}, load: func(context.Context) ([]*media.Frame, error) { return []*media.Frame{frame}, nil }},
	})
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
