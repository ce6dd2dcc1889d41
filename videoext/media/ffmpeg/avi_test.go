//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// TestAVIIsRead: pictures that were written as a clip are its frames, in their order, colours and times.
func TestAVIIsRead(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	colours := []color.RGBA{{200, 30, 30, 255}, {30, 200, 30, 255}, {30, 30, 200, 255}, {255, 255, 255, 255}}
	var pictures [][]byte
	for i, c := range colours {
		m := image.NewRGBA(image.Rect(0, 0, 64, 48))
		draw.Draw(m, m.Bounds(), image.NewUniform(c), image.Point{}, draw.Src)
		m.Set(i, i, color.White) // so that their sizes differ
		var out bytes.Buffer
		if err := jpeg.Encode(&out, m, &jpeg.Options{Quality: 90 + i}); err != nil {
			t.Fatal(err)
		}
		pictures = append(pictures, out.Bytes())
	}
	path := filepath.Join(t.TempDir(), "clip.avi")
	var file bytes.Buffer
	if err := media.WriteAVI(&file, 64, 48, 400*time.Millisecond, pictures); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	clip, err := Open(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer clip.Close()
	for i, want := range colours {
		f, err := clip.Next(context.Background())
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		got := f.RGBA().RGBAAt(40, 30)
		for _, d := range []int{int(got.R) - int(want.R), int(got.G) - int(want.G), int(got.B) - int(want.B)} {
			if max(d, -d) > 6 {
				t.Errorf("frame %d is %v, want %v", i, got, want)
				break
			}
		}
		if at := time.Duration(i) * 400 * time.Millisecond; f.Time != at {
			t.Errorf("frame %d is at %v, want %v", i, f.Time, at)
		}
	}
	if _, err := clip.Next(context.Background()); !errors.Is(err, io.EOF) {
		t.Errorf("behind the last: %v", err)
	}
}
