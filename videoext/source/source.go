// Package source reads the videos that a server fetches itself, and brings each frame when its time has come: files to their end or again
// and again, and cameras that speak RTSP, which are opened anew whenever they stop.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/prefillonly/prefillonly/internal/osthread"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// Delays before a camera is opened again: each twice the one before, and the first one again behind a camera that played for so long.
const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 30 * time.Second
	healthy    = 10 * time.Second
)

// maxLag is how far a file's frames may be behind the clock before their time is counted anew.
const maxLag = time.Second

// MaxRate is the most frames a second that a camera is taken to send.
const MaxRate = 240.0

// Source is what is read.
type Source struct {
	Address string                                                       // path of a file, or URL of a camera
	Name    string                                                       // what errors call it
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error) // of ffmpeg.Options, for a camera
	Rate    float64                                                      // frames a second at most; 0: as many as there are
	After   time.Duration                                                // of a frame that was brought before; negative: there was none
}

// Stream is what frames are brought to.
type Stream interface {
	// Opened is asked when a source is opened, as ffmpeg's Options have it. An error leaves it.
	Opened(info ffmpeg.Info) error
	// Admit is asked when a camera has been opened, and shows how many frames a second of which size it brings. An error leaves it.
	Admit(ctx context.Context, rate float64, width, height int) error
	// Running says that frames will come.
	Running()
	// Waiting says that no more come before a camera is opened again, after a delay, and why.
	Waiting(why error, delay time.Duration)
	// Read says that a frame took so many bytes, and so much of a processor's time.
	Read(bytes int, decoding time.Duration)
	// Frame brings a frame, and returns when it is taken or ctx has ended. The times of a stream's frames grow, but where a file begins again.
	Frame(ctx context.Context, frame *media.Frame, at time.Duration)
}

// Play brings the frames of a file, each when its own time has come, until the file ends; in a loop that is when ctx ends.
func (s *Source) Play(ctx context.Context, loop bool, to Stream) error {
	for after := s.After; ; after = -1 {
		if err := s.playOnce(ctx, loop, after, to); !errors.Is(err, io.EOF) {
			return err
		}
		if !loop {
			return nil
		}
	}
}

// playOnce brings the frames behind a time.
func (s *Source) playOnce(ctx context.Context, loop bool, after time.Duration, to Stream) error {
	clip, err := ffmpeg.Open(ctx, s.Address, ffmpeg.Options{Rate: s.Rate, Admit: to.Opened})
	if err != nil {
		return err
	}
	defer clip.Close()
	next := counted(clip, to)
	var begun time.Time // of the file's time 0
	for read := 0; ; read++ {
		frame, err := next(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) && loop && read == 0 && after < 0 {
				return fmt.Errorf("%s has no frames", s.Name)
			}
			return err
		}
		if read == 0 {
			to.Running()
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
		to.Frame(ctx, frame, frame.Time)
	}
}

// Follow brings the frames of a camera, and opens it again whenever it stops, until ctx ends.
func (s *Source) Follow(ctx context.Context, to Stream) {
	clock := &continued{last: s.After, at: time.Now()}
	for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
		clock.opened = true
		played, err := s.followOnce(ctx, clock, to)
		if ctx.Err() != nil {
			return
		}
		if played >= healthy {
			delay = firstDelay
		}
		to.Waiting(err, delay)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
	}
}

// followOnce reads until the camera stops, and says for how long it played after it was admitted.
func (s *Source) followOnce(ctx context.Context, clock *continued, to Stream) (played time.Duration, err error) {
	clip, err := ffmpeg.Open(ctx, s.Address, ffmpeg.Options{Rate: s.Rate, Resolve: s.Resolve, Admit: to.Opened})
	if err != nil {
		return 0, err
	}
	defer clip.Close()
	next := counted(clip, to)
	frames, rate, err := measure(ctx, next)
	if err == nil {
		info := clip.Info()
		err = to.Admit(ctx, rate, info.Width, info.Height)
	}
	if err != nil {
		return 0, err
	}
	to.Running()
	begun := time.Now()
	for {
		for _, frame := range frames {
			to.Frame(ctx, frame, clock.time(frame.Time, time.Now()))
		}
		clear(frames) // they are the stream's
		frame, err := next(ctx)
		if err != nil {
			return time.Since(begun), err
		}
		frames = append(frames[:0], frame)
	}
}

// measuredFrames is how many frames tell a camera's rate, which it may not say or may not hold; of large ones, as many as measuredBytes has, or 3.
const (
	measuredFrames = 9
	measuredBytes  = 64 << 20
)

// measure reads the first frames of a camera, and says how many come in a second.
func measure(ctx context.Context, next func(context.Context) (*media.Frame, error)) (frames []*media.Frame, rate float64, err error) {
	for len(frames) < measuredFrames {
		frame, err := next(ctx)
		if err != nil {
			return nil, 0, err
		}
		frames = append(frames, frame)
		if large := len(frames) >= 3 && (len(frames)+1)*len(frame.Y)*3/2 > measuredBytes; large || frame.Time-frames[0].Time >= time.Second {
			break
		}
	}
	span := frames[len(frames)-1].Time - frames[0].Time
	if span <= 0 {
		return frames, MaxRate, nil
	}
	return frames, min(float64(len(frames)-1)/span.Seconds(), MaxRate), nil
}

// counted are the frames of a clip, while what they take is told.
func counted(clip *ffmpeg.Clip, to Stream) func(context.Context) (*media.Frame, error) {
	bytes := 0
	return func(ctx context.Context) (*media.Frame, error) {
		var frame *media.Frame
		took, err := osthread.Measure(func() (err error) {
			frame, err = clip.Next(ctx)
			return err
		})
		to.Read(clip.Bytes()-bytes, took)
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
