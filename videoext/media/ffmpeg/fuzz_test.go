//go:build cgo && !noffmpeg

package ffmpeg

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// FuzzOpen: whatever is in a file, reading it ends, in frames of a sane size or an error.
func FuzzOpen(f *testing.F) {
	for _, pattern := range []string{"testdata/drawn.*", "testdata/odd.*"} {
		list, err := filepath.Glob(pattern)
		if err != nil || len(list) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range list {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	path := filepath.Join(f.TempDir(), "clip")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c, err := Open(ctx, path, Options{})
		if err != nil {
			return
		}
		defer c.Close()
		for range 60 {
			frame, err := c.Next(ctx)
			if err != nil {
				break
			}
			if err := frame.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if c.Seek(ctx, time.Second) == nil {
			_, _ = c.Next(ctx)
		}
	})
}

// drawnSegment makes a segment of the drawn H.264, which has an IDR picture every 12 frames.
func drawnSegment(t testing.TB) *media.Segment {
	t.Helper()
	data, err := os.ReadFile("testdata/drawn.h264")
	if err != nil {
		t.Fatal(err)
	}
	s := &media.Segment{Width: 96, Height: 64, Rate: 12}
	var unit []byte
	for _, n := range media.NALUnits(data) {
		unit = append(unit, n.Data...)
		if n.Type != media.NALSlice && n.Type != media.NALIDR {
			continue
		}
		s.Units = append(s.Units, media.Unit{Data: unit})
		unit = nil
		if len(s.Units) == 12 {
			break
		}
	}
	for i, order := range drawnOrder {
		s.Units[i].Order, s.Units[i].Index, s.Units[i].Time = order, 100+order, time.Duration(order)*time.Second/12
	}
	return s
}

// drawnOrder is the order in which its first frames are encoded.
var drawnOrder = []int{0, 4, 2, 1, 3, 8, 6, 5, 7, 10, 9, 11}

// FuzzDecode: a segment of a hostile camera is decoded as it says, or an error.
func FuzzDecode(f *testing.F) {
	for i, u := range drawnSegment(f).Units {
		f.Add(i, u.Data)
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		s := drawnSegment(t)
		s.Units[uint(which)%uint(len(s.Units))].Data = data
		if frames, err := Decode(t.Context(), s); err == nil {
			for _, frame := range frames {
				if frame.Width != s.Width || frame.Height != s.Height {
					t.Fatalf("a frame of %d x %d pixels in a segment of %d x %d", frame.Width, frame.Height, s.Width, s.Height)
				}
			}
		}
		if mp4, err := MP4(s); err == nil && len(mp4) == 0 {
			t.Fatal("an empty MP4")
		}
	})
}
