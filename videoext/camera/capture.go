package camera

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/prefillonly/prefillonly/internal/osthread"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// Source is where frames come from.
type Source interface {
	// Next waits for the next frame; io.EOF: there are no more.
	Next(ctx context.Context) (*media.Frame, error)
	Close() error
}

// Footage says how frames are got.
type Footage struct {
	// Open opens the source, and again where it begins anew.
	Open func(ctx context.Context) (Source, error)
	Rate float64 // frames in a second
	Live bool    // it is a camera: it sets the pace, and when it stops it is opened until it returns
	Loop bool    // at its end it begins anew
	// Paced gives frames at the rate in real time; else they come as fast as they are taken.
	Paced bool
}

// shot is a frame, or what happened instead of one.
type shot struct {
	frame *media.Frame
	lost  error         // a live source is not there
	end   error         // there are no more frames; io.EOF: all is well
	took  time.Duration // of the processor, for decoding
}

// film takes frames and gives them on. Indices and times go on where a source begins anew.
type film struct {
	Footage
	source  Source
	out     chan<- shot
	began   time.Time
	index   int           // of the first frame of the source
	from    time.Duration // its time
	last    *media.Frame
	backoff backoff
}

// run gives shots until the end, or that of ctx.
func (f *film) run(ctx context.Context) {
	runtime.LockOSThread() // its processor time is that of decoding
	defer runtime.UnlockOSThread()
	defer func() { f.close() }()
	f.began = time.Now()
	for {
		s := f.nextShot(ctx)
		if ctx.Err() != nil || !f.sendShot(ctx, s) || s.end != nil {
			return
		}
		if s.lost != nil && !sleep(ctx, f.backoff.nextDelay()) {
			return
		}
	}
}

func (f *film) sendShot(ctx context.Context, s shot) bool {
	select {
	case f.out <- s:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *film) close() {
	if f.source != nil {
		_ = f.source.Close() // it was read only
		f.source = nil
	}
}

// nextShot waits for a frame.
func (f *film) nextShot(ctx context.Context) shot {
	for {
		before := osthread.Time()
		frame, err := f.readFrame(ctx)
		took := osthread.Time() - before
		switch {
		case err == nil:
			f.placeFrame(frame)
			if f.Paced && !f.Live {
				f.waitUntil(ctx, frame.Time)
			}
			f.backoff.reset()
			return shot{frame: frame, took: took}
		case f.Live:
			f.restartSource()
			return shot{lost: err}
		case errors.Is(err, io.EOF) && f.Loop && f.last != nil:
			f.restartSource()
		default:
			return shot{end: err}
		}
	}
}

// restartSource closes the source, and has the frames of the next one come after those that were.
func (f *film) restartSource() {
	f.close()
	if f.last == nil {
		return
	}
	f.index, f.from = f.last.Index+1, f.last.Time+time.Duration(float64(time.Second)/f.Rate)
	if f.Live {
		f.from = max(f.from, time.Since(f.began))
	}
}

func (f *film) readFrame(ctx context.Context) (*media.Frame, error) {
	if f.source == nil {
		source, err := f.Open(ctx)
		if err != nil {
			return nil, err
		}
		f.source = source
	}
	frame, err := f.source.Next(ctx)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the source ended: %w", io.EOF)
	}
	return frame, err
}

func (f *film) placeFrame(frame *media.Frame) {
	frame.Index += f.index
	frame.Time += f.from
	f.last = frame
}

// latest is how far a source may be behind before its pace begins anew.
const latest = time.Second

// waitUntil waits until a frame is due.
func (f *film) waitUntil(ctx context.Context, at time.Duration) {
	early := at - time.Since(f.began)
	if early < -latest {
		f.began = f.began.Add(-early)
	}
	sleep(ctx, early)
}

// sleep says whether ctx is still going on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
