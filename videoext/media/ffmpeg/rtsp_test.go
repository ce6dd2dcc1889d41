//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
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

// TestRedirections: a camera is followed to the same host alone, and not for ever; nothing else is connected to.
func TestRedirections(t *testing.T) {
	units := rtsptest.Drawn()
	end := &rtsptest.Camera{Units: units}
	address := strings.TrimPrefix(end.Start(t), "rtsp://user:secret@")
	other := &rtsptest.Camera{Units: units}
	elsewhere := strings.Replace(strings.TrimPrefix(other.Start(t), "rtsp://user:secret@"), "127.0.0.1", "localhost", 1)
	for name, c := range map[string]struct {
		sends, want string
		connections int
	}{
		"to the same host":  {"rtsp://" + address, "", 1},
		"in a loop":         {"rtsp://%s/stream", "redirects more than 3 times", 4},
		"to another host":   {"rtsp://" + elsewhere, "redirects to another host", 1},
		"to another scheme": {"http://" + address, "redirects to an invalid address", 1},
		"to a host to ask":  {"rtsp://secret.invalid/stream", "redirects to another host", 1},
	} {
		t.Run(name, func(t *testing.T) {
			camera := &rtsptest.Camera{Units: units, Sends: c.sends}
			clip, err := Open(t.Context(), camera.Start(t), Options{})
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "stream")) {
				t.Errorf("opening: %v, want %q", err, c.want)
			}
			if err == nil {
				defer clip.Close()
			}
			if n := camera.Connected(); n != c.connections {
				t.Errorf("%d connections, want %d", n, c.connections)
			}
		})
	}
	if end.Connected() != 1 || other.Connected() != 0 {
		t.Errorf("%d connections to where one sends, and %d to another host", end.Connected(), other.Connected())
	}
}

// TestResolve: a camera is opened at the addresses that are given, in turn, and its name is not looked up again.
func TestResolve(t *testing.T) {
	camera := &rtsptest.Camera{Units: rtsptest.Drawn()}
	address := strings.Replace(camera.Start(t), "127.0.0.1", "camera.invalid", 1)
	resolve := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "camera.invalid" {
			t.Errorf("%s is looked up", host)
		}
		return []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}, nil
	}
	clip, err := Open(t.Context(), address, Options{Resolve: resolve})
	if err != nil {
		t.Fatal(err)
	}
	defer clip.Close()
	if _, err := clip.Next(t.Context()); err != nil {
		t.Error(err)
	}
	refused := errors.New("not there")
	if _, err := Open(t.Context(), address, Options{Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, refused }}); !errors.Is(err, refused) || camera.Connected() != 1 {
		t.Errorf("%v, and %d connections", err, camera.Connected())
	}
}

// TestErrorsHaveNoSecrets: what cannot be opened is named by its host; what the host says is not told.
func TestErrorsHaveNoSecrets(t *testing.T) {
	speaks, err := net.Listen("tcp", "127.0.0.1:0") // another protocol
	if err != nil {
		t.Fatal(err)
	}
	defer speaks.Close()
	go func() { // ends with the listener
		for {
			c, err := speaks.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("RTSP/1.0 500 SECRETANSWER\r\nCSeq: 1\r\n\r\n")) // the client may be gone
			_ = c.Close()
		}
	}()
	place := speaks.Addr().String()
	for _, address := range []string{"rtsp://admin:SECRET@" + place + "/SECRET?token=SECRET", "rtsp://127.0.0.1:1/SECRET", "rtsp://u:SECRET@unknown.invalid/", "rtsp://a:b@SECRET#x@127.0.0.1/", "rtsp://SECRET:SECRET"} {
		_, err := Open(t.Context(), address, Options{})
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", address, err)
		}
		t.Log(err)
	}
}

// TestCameraTimeGoesOn: times of a camera's frames grow by about as much as passes, whatever it says, and where that does not follow is told; a stamp of
// 32 bits that begins anew does follow.
func TestCameraTimeGoesOn(t *testing.T) {
	const pace, start, frames = 50 * time.Millisecond, 90000 * 1000, 20
	const step, leap = uint32(90000 * pace / time.Second), 90000 * 300
	jumping := func(at, by int) func(i int) uint32 {
		return func(i int) uint32 {
			stamp := start + uint32(i)*step
			if i >= at {
				stamp += uint32(by)
			}
			return stamp
		}
	}
	for name, c := range map[string]struct {
		stamp       func(i int) uint32
		least, most int // discontinuities
	}{
		"goes on":             {jumping(0, 0), 0, 0},
		"begins anew":         {func(i int) uint32 { return uint32(i)*step - 5*step }, 0, 0},
		"back by 300 s":       {jumping(10, -leap), 1, 1},
		"ahead by 300 s":      {jumping(10, leap), 1, 1},
		"stands still":        {func(int) uint32 { return start }, frames / 2, frames},
		"back by 300 s twice": {func(i int) uint32 { return start + uint32(i)*step - uint32(i/8)*leap }, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			camera := &rtsptest.Camera{Units: rtsptest.Drawn(), Pace: pace, Loop: true, Stamp: c.stamp}
			clip := mustOpen(t, camera.Start(t), Options{})
			broken, first, last := 0, time.Duration(0), time.Duration(-1)
			began := time.Now()
			for i := range frames {
				f, err := clip.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if f.Time <= last {
					t.Errorf("frame %d at %v behind %v", i, f.Time, last)
				}
				if i == 0 {
					first, began = f.Time, time.Now()
				}
				if last = f.Time; f.Broken {
					broken++
				}
			}
			if took := time.Since(began) + frames*pace; last-first > took || broken < c.least || broken > c.most {
				t.Errorf("%d frames lie in %v, and took less than %v; %d discontinuities, want %d to %d", frames, last-first, took, broken, c.least, c.most)
			}
		})
	}
}

// TestCameraWaitsForAKeyFrame: as long as packets come, a camera whose next key frame is further away than the time limit is read, and that it is
// waited for is told.
func TestCameraWaitsForAKeyFrame(t *testing.T) {
	t.Parallel()
	const limit, pace, apart = time.Second, time.Second / rtsptest.Rate, 90 // 7.5 s: the opening looks at 5 s
	drawn := rtsptest.Drawn()
	units := drawn[:1:1]
	for len(units) < apart {
		units = append(units, drawn[1+len(units)%11]) // there is no key frame among them
	}
	camera := &rtsptest.Camera{Units: units, Pace: pace, Loop: true, First: 1}
	keyless := 0
	clip := mustOpen(t, camera.Start(t), Options{Timeout: limit, Keyless: func() { keyless++ }})
	if f, err := clip.Next(t.Context()); err != nil || f.Index != 0 || keyless < apart/4 {
		t.Fatalf("%+v, %v; %d times no key frame was told of", f, err, keyless)
	}
	said := keyless
	if _, err := clip.Next(t.Context()); err != nil || keyless != said {
		t.Errorf("behind the key frame: %v, told of %d times more", err, keyless-said)
	}
}
