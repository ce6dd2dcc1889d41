package source

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
)

// seen is a Stream that notes what it is brought, and ends by itself after so many frames.
type seen struct {
	Stream
	times   []time.Duration
	running int
	broken  int // discontinuities
	bytes   int
	most    int
	end     context.CancelFunc
}

func (s *seen) Opened(ffmpeg.Info) error        { return nil }
func (s *seen) Running()                        { s.running++ }
func (s *seen) Read(bytes int, _ time.Duration) { s.bytes += bytes }
func (s *seen) Frame(_ context.Context, frame *media.Frame) {
	if frame.Broken {
		s.broken++
	}
	if s.times = append(s.times, frame.Time); len(s.times) == s.most {
		s.end()
	}
}

// TestPlay brings the frames of a file that come behind a time, from there on at the clip's own pace, and in a loop all of them again, whose times go on.
func TestPlay(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	const rate, all, left = 12, 24, 6
	from := Source{Address: "../media/ffmpeg/testdata/drawn.mp4", After: time.Second*(all-left)/rate - time.Millisecond}
	for _, loop := range []bool{false, true} {
		ctx, end := context.WithCancel(t.Context())
		s, began := &seen{most: left + 3, end: end}, time.Now()
		if err := from.Play(ctx, loop, s); (err != nil) != loop {
			t.Errorf("loop %t: %v", loop, err)
		}
		end()
		want, files := left, 1
		if loop {
			want, files = s.most, 2
		}
		if len(s.times) != want || s.running != files || s.bytes == 0 || !slices.IsSorted(s.times) || s.times[0] <= from.After {
			t.Errorf("loop %t: %d bytes of %d files, frames at %v", loop, s.bytes, s.running, s.times)
		}
		if took, least := time.Since(began), (s.times[left-1] - s.times[0]); took < least {
			t.Errorf("loop %t: %v of video came in %v", loop, least, took)
		}
		if loop && (s.times[left] != s.times[left-1]+time.Second/rate || s.broken != 0) {
			t.Errorf("the file begins again at %v behind %v, %d discontinuities", s.times[left], s.times[left-1], s.broken)
		}
	}
	if err := (&Source{Address: "missing.mp4"}).Play(t.Context(), true, &seen{}); err == nil {
		t.Error("a missing file is played")
	}
}

// TestMeasure counts the frames of a second, or of as many frames as tell the rate.
func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		gap  time.Duration
		rate float64
		read int
	}{{50 * time.Millisecond, 20, measuredFrames}, {500 * time.Millisecond, 2, 3}, {0, MaxRate, measuredFrames}, {time.Millisecond, MaxRate, measuredFrames}} {
		at := -c.gap
		frames, rate, err := measureRate(t.Context(), func(context.Context) (*media.Frame, error) {
			at += c.gap
			return &media.Frame{Time: at}, nil
		})
		if err != nil || rate != c.rate || len(frames) != c.read {
			t.Errorf("frames %v apart: %v a second by %d, %v", c.gap, rate, len(frames), err)
		}
	}
	if _, _, err := measureRate(t.Context(), func(context.Context) (*media.Frame, error) { return nil, io.EOF }); err != io.EOF {
		t.Errorf("a camera without frames: %v", err)
	}
}

// TestPlayResumesALoop goes on behind a time that lies in a later round, with the file's first frame.
func TestPlayResumesALoop(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	s := &seen{most: 2, end: end}
	from := Source{Address: "../media/ffmpeg/testdata/drawn.mp4", After: time.Minute}
	if err := from.Play(ctx, true, s); err == nil || s.times[0] <= from.After || s.times[0] > from.After+time.Second/4 {
		t.Errorf("%v, frames at %v", err, s.times)
	}
}

// brief is a Stream of a camera that notes the delays before it is opened again, and ends with the third.
type brief struct {
	seen
	delays []time.Duration
}

func (b *brief) Admit(context.Context, float64, int, int) error { return nil }
func (b *brief) Waiting(_ error, delay time.Duration) {
	if b.delays = append(b.delays, delay); len(b.delays) == 3 {
		b.end()
	}
}

// TestFollowBacksOff: a camera that hangs up soon each time is opened again less and less often, although it was admitted.
func TestFollowBacksOff(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	camera := &rtsptest.Camera{Units: rtsptest.Drawn(), HangUp: true}
	ctx, end := context.WithCancel(t.Context())
	b := &brief{seen: seen{end: end}}
	from := Source{Address: camera.Start(t), After: -1}
	from.Follow(ctx, b)
	if want := []time.Duration{firstDelay, 2 * firstDelay, 4 * firstDelay}; !slices.Equal(b.delays, want) || b.running != 3 {
		t.Errorf("it is opened again after %v, want %v, and was running %d times", b.delays, want, b.running)
	}
}
