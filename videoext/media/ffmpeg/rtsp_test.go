//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
)

// TestCamera: the frames of an RTSP camera are those of the file, in order; then it falls silent or hangs up, which is an
// error that names it, without its password, in time; and it can be opened again.
func TestCamera(t *testing.T) {
	units := rtsptest.Drawn()
	for name, c := range map[string]*rtsptest.Camera{"silent": {Units: units}, "hangs up": {Units: units, HangUp: true}} {
		t.Run(name, func(t *testing.T) {
			address := c.Start(t)
			for range 2 {
				clip := mustOpen(t, address, Options{Timeout: 2 * time.Second})
				if i := clip.Info(); i.Width != 96 || i.Codec != "h264" || i.Duration >= 0 {
					t.Errorf("the camera is said to be %+v", i)
				}
				file := mustOpen(t, "testdata/drawn.mkv", Options{})
				frames, began := 0, time.Now()
				var err error
				var f *media.Frame
				for ; ; frames++ {
					if f, err = clip.Next(t.Context()); err != nil {
						break
					}
					want := next(t, file)
					if want == nil || !bytes.Equal(raw(f), raw(want)) || f.Index != frames {
						t.Fatalf("frame %d is number %d, or another one", frames, f.Index)
					}
					if d := f.Time - want.Time; d < -2*time.Millisecond || d > 2*time.Millisecond {
						t.Errorf("frame %d is at %v instead of %v", frames, f.Time, want.Time)
					}
				}
				if took := time.Since(began); frames < 20 || took > 10*time.Second || strings.Contains(err.Error(), "secret") {
					t.Errorf("%d frames, and after %v: %v", frames, took, err)
				}
				t.Logf("%d frames, then: %v", frames, err)
				if err := clip.Seek(t.Context(), 0); err == nil {
					t.Error("a camera went back in time")
				}
				if err := clip.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestCameraIsCancelled: a context ends the wait for a camera's answer, and for its next frame.
func TestCameraIsCancelled(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Open(ctx, "rtsp://"+mute.Addr().String()+"/x", Options{Timeout: time.Minute}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("opening, after %v: %v", time.Since(began), err)
	}
	began = time.Now()
	if _, err := Open(t.Context(), "rtsp://"+mute.Addr().String()+"/x", Options{Timeout: 300 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "timed out") || time.Since(began) > 5*time.Second {
		t.Errorf("opening with a time limit, after %v: %v", time.Since(began), err)
	}
	clip := mustOpen(t, (&rtsptest.Camera{Units: rtsptest.Drawn()}).Start(t), Options{Timeout: time.Minute})
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for err = nil; err == nil; _, err = clip.Next(ctx) {
	}
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
		t.Errorf("a frame, after %v: %v", time.Since(began), err)
	}
}
