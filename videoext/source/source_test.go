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
	bytes   int
	most    int
	end     context.CancelFunc
}

func (s *seen) Opened(ffmpeg.Info) error        { return nil }
func (s *seen) Running()                        { s.running++ }
func (s *seen) Read(bytes int, _ time.Duration) { s.bytes += bytes }
func (s *seen) Frame(_ context.Context, _ *media.Frame, at time.Duration) {
	if s.times = append(s.times, at); len(s.times) == s.most {
		s.end()
	}
}

// TestPlay brings the frames of a file that come behind a time, from there on at the clip's own pace, and in a loop all of them again.
func TestPlay(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	const rate, all, left = 12, 24, 6
	from := Source{Address: "../media/ffmpeg/testdata/drawn.mp4", Name: "drawn", After: time.Second*(all-left)/rate - time.Millisecond}
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
		if len(s.times) != want || s.running != files || s.bytes == 0 || !slices.IsSorted(s.times[:left]) || s.times[0] <= from.After {
			t.Errorf("loop %t: %d bytes of %d files, frames at %v", loop, s.bytes, s.running, s.times)
		}
		if took, least := time.Since(began), (s.times[left-1] - s.times[0]); took < least {
			t.Errorf("loop %t: %v of video came in %v", loop, least, took)
		}
		if loop && s.times[left] != 0 {
			t.Errorf("the file begins again at %v", s.times[left])
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
		frames, rate, err := measure(t.Context(), func(context.Context) (*media.Frame, error) {
			at += c.gap
			return &media.Frame{Time: at}, nil
		})
		if err != nil || rate != c.rate || len(frames) != c.read {
			t.Errorf("frames %v apart: %v a second by %d, %v", c.gap, rate, len(frames), err)
		}
	}
	if _, _, err := measure(t.Context(), func(context.Context) (*media.Frame, error) { return nil, io.EOF }); err != io.EOF {
		t.Errorf("a camera without frames: %v", err)
	}
}

// TestContinued holds that times grow over a camera's restarts, by as much as the camera was away, and keep their distances within.
func TestContinued(t *testing.T) {
	now := time.Unix(100, 0)
	c := &continued{last: 10 * time.Second, at: now}
	for i, step := range []struct{ wait, given, want time.Duration }{
		{3 * time.Second, 0, 13 * time.Second}, // opened 3 s after the process began
		{time.Second, time.Second, 14 * time.Second},
		{0, time.Second, 14*time.Second + time.Millisecond},     // the camera's clock stands still
		{5 * time.Second, 0, 19*time.Second + time.Millisecond}, // opened anew
		{0, time.Second, 20*time.Second + time.Millisecond},
	} {
		now = now.Add(step.wait)
		c.opened = i == 0 || i == 3
		if got := c.time(step.given, now); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	if fresh := (&continued{last: -1, at: now, opened: true}); fresh.time(time.Second, now) != time.Second {
		t.Error("a camera without a past has its times changed")
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
