// Package source reads the videos that a server fetches itself, and brings each frame when its time has come: files to their end or again
// and again, and cameras that speak RTSP, which are opened anew whenever they stop.
package source

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/prefillonly/prefillonly/internal/osthread"
	"github.com/prefillonly/prefillonly/internal/processors"
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
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error) // of ffmpeg.Options, for a camera
	Rate    float64                                                      // frames a second at most; 0: as many as there are
	After   time.Duration                                                // the time of a frame that was brought before; negative: there was none
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
	// Keyless says that a camera sends packets, of which none was of a key frame yet.
	Keyless()
	// Read says that a frame took so many bytes, and so much of a processor's time.
	Read(bytes int, decoding time.Duration)
	// Frame brings a frame, and returns when it is taken or ctx has ended. The times of a stream's frames grow.
	Frame(ctx context.Context, frame *media.Frame)
}

// Play brings the frames of a file, each when its own time has come, until the file ends; in a loop that is when ctx ends, and times go on where the
// file begins again.
func (s *Source) Play(ctx context.Context, loop bool, to Stream) error {
	p := &player{Source: s, to: to, last: s.After}
	for {
		if err := p.playOnce(ctx); !errors.Is(err, io.EOF) {
			return err
		}
		if !loop {
			return nil
		}
		p.from = p.nextLoopStart()
	}
}

// player plays a file.
type player struct {
	*Source
	to    Stream
	from  time.Duration // of the file's time 0
	last  time.Duration // of the frame before; negative: there was none
	long  time.Duration // the file, with the step behind its last frame
	begun time.Time     // of time 0
}

// nextLoopStart is where the file begins again: behind its end, and where it begins behind frames of an earlier process, in the loop that these ended in.
func (p *player) nextLoopStart() time.Duration {
	next := p.from + p.long
	if p.long > 0 {
		next = max(next, p.last/p.long*p.long)
	}
	return next
}

// playOnce brings the frames of the file behind the last one.
func (p *player) playOnce(ctx context.Context) error {
	stage := new(decoding)
	clip, err := ffmpeg.Open(ctx, p.Address, ffmpeg.Options{Rate: p.Rate, Admit: p.to.Opened, Stage: stage.runDecoding})
	if err != nil {
		return err
	}
	defer clip.Close()
	stage.sizeFrom(clip)
	step := stepOf(clip)
	next := newFrameReader(clip, p.to)
	for read := 0; ; read++ {
		frame, err := next(ctx)
		if err != nil {
			return err
		}
		if read == 0 {
			p.to.Running()
		}
		p.long = frame.Time + step
		if frame.Time += p.from; frame.Time <= p.last {
			continue
		}
		if err := p.waitUntil(ctx, frame.Time); err != nil {
			return err
		}
		p.last = frame.Time
		p.to.Frame(ctx, frame)
	}
}

// stepOf is from a frame of a clip to the next.
func stepOf(clip *ffmpeg.Clip) time.Duration {
	if rate := clip.Info().Rate; rate > 0 {
		return time.Duration(float64(time.Second) / rate)
	}
	return time.Millisecond
}

// waitUntil waits until the time of a frame has come.
func (p *player) waitUntil(ctx context.Context, at time.Duration) error {
	if p.begun.IsZero() || time.Since(p.begun)-at > maxLag {
		p.begun = time.Now().Add(-at)
	}
	select {
	case <-time.After(time.Until(p.begun.Add(at))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Follow brings the frames of a camera, and opens it again whenever it stops, until ctx ends. Their times go on meanwhile.
func (s *Source) Follow(ctx context.Context, to Stream) {
	clock := new(media.Clock)
	if s.After >= 0 {
		clock.Resume(s.After, time.Now())
	}
	for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
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
func (s *Source) followOnce(ctx context.Context, clock *media.Clock, to Stream) (played time.Duration, err error) {
	stage := new(decoding)
	clip, err := ffmpeg.Open(ctx, s.Address, ffmpeg.Options{Rate: s.Rate, Resolve: s.Resolve, Clock: clock, Keyless: to.Keyless, Admit: to.Opened, Stage: stage.runDecoding})
	if err != nil {
		return 0, err
	}
	defer clip.Close()
	stage.sizeFrom(clip)
	next := newFrameReader(clip, to)
	frames, rate, err := measureRate(ctx, next)
	if err == nil {
		err = to.Admit(ctx, rate, frames[0].Width, frames[0].Height)
	}
	if err != nil {
		return 0, err
	}
	to.Running()
	begun := time.Now()
	for {
		for _, frame := range frames {
			to.Frame(ctx, frame)
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

// measureRate reads the first frames of a camera, and says how many come in a second.
func measureRate(ctx context.Context, next func(context.Context) (*media.Frame, error)) (frames []*media.Frame, rate float64, err error) {
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

// decodePace is about what a pixel of a frame takes to be decoded.
const decodePace = 3 * time.Nanosecond

// decoding are the CPU stages of a source's frames.
type decoding struct{ takes time.Duration }

func (d *decoding) sizeFrom(clip *ffmpeg.Clip) {
	info := clip.Info()
	d.takes = decodePace * time.Duration(info.Width*info.Height)
}

func (d *decoding) runDecoding(ctx context.Context, decode func() error) error {
	_, err := processors.Shared().Do(ctx, processors.Stage{Kind: "decode", Takes: d.takes}, decode)
	return err
}

// newFrameReader are the frames of a clip, while what they take is told.
func newFrameReader(clip *ffmpeg.Clip, to Stream) func(context.Context) (*media.Frame, error) {
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
