//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// TestDecodeSegment: the frames of a segment are those of the file that it is cut from, each in its place.
func TestDecodeSegment(t *testing.T) {
	frames, err := Decode(t.Context(), drawnSegment(t))
	if err != nil {
		t.Fatal(err)
	}
	clip := mustOpen(t, "testdata/drawn.mp4", Options{})
	for i, f := range frames {
		if want := next(t, clip); !bytes.Equal(raw(f), raw(want)) || f.Index != 100+i || f.Time != time.Duration(i)*time.Second/12 {
			t.Errorf("frame %d, which says that it is %d at %v, is another one", i, f.Index, f.Time)
		}
	}
	if len(frames) != 12 {
		t.Errorf("%d frames", len(frames))
	}
}

// TestSpoiltSegment: a segment that lacks something, or says another size, is an error and not other frames; so are
// flipped bits, as far as a decoder sees them.
func TestSpoiltSegment(t *testing.T) {
	good, err := Decode(t.Context(), drawnSegment(t))
	if err != nil {
		t.Fatal(err)
	}
	unchanged, refused := 0, 0
	for at := 40; at < 6000; at += 97 { // in each of the units
		s := drawnSegment(t)
		rest := at
		for i := range s.Units {
			if d := s.Units[i].Data; rest < len(d) {
				s.Units[i].Data = slices.Clone(d)
				s.Units[i].Data[rest] ^= 0x10
				break
			} else {
				rest -= len(d)
			}
		}
		frames, err := Decode(t.Context(), s)
		if err != nil {
			refused++
		} else if slices.EqualFunc(frames, good, func(a, b *media.Frame) bool { return bytes.Equal(raw(a), raw(b)) }) {
			unchanged++
		}
	}
	// The entropy code has no checksums: some flipped bits make another valid picture. The wire form has one.
	t.Logf("%d of 62 segments with a bit flipped are refused, %d unchanged", refused, unchanged)
	if refused < 25 {
		t.Errorf("only %d of 62 segments with a bit flipped are refused", refused)
	}
	for name, spoil := range map[string]func(*media.Segment){
		"says 64 x 64": func(s *media.Segment) { s.Width = 64 },
		"unit 3": func(s *media.Segment) { // its slice ends early
			s.Units[3].Data = s.Units[3].Data[:len(s.Units[3].Data)/3]
		},
		"co located": func(s *media.Segment) { // a reference is missing
			s.Units = append(s.Units[:1], s.Units[2:]...)
			for i, u := range s.Units {
				if u.Order > 4 {
					s.Units[i].Order--
				}
			}
		},
	} {
		s := drawnSegment(t)
		spoil(s)
		if frames, err := Decode(t.Context(), s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %d frames, %v", name, len(frames), err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Decode(ended, drawnSegment(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
}

// TestMP4: a file of a segment is as large as what ffmpeg makes of the same stream, and is decoded to the same frames.
func TestMP4(t *testing.T) {
	s := drawnSegment(t)
	data, err := MP4(s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "segment.mp4")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	whole, clip := mustOpen(t, "testdata/drawn.mp4", Options{}), mustOpen(t, path, Options{})
	for i := range 12 {
		got, want := next(t, clip), next(t, whole)
		if got == nil || !bytes.Equal(raw(got), raw(want)) || got.Time != want.Time {
			t.Fatalf("frame %d is another one", i)
		}
	}
	if next(t, clip) != nil {
		t.Error("a frame too many")
	}
	if i := clip.Info(); i.Rate != 12 || i.Duration != time.Second {
		t.Errorf("the file is said to be %+v", i)
	}
	theirs := filepath.Join(t.TempDir(), "theirs.mp4")
	judge(t, nil, "-i", "testdata/drawn.mp4", "-c", "copy", "-frames:v", "12", theirs)
	info, err := os.Stat(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if difference := int(info.Size()) - len(data); difference < -100 || difference > 100 {
		t.Errorf("%d bytes, and ffmpeg makes %d of the same stream", len(data), info.Size())
	}
	t.Logf("%d bytes of NAL units, %d in MP4, %d by ffmpeg", s.NALBytes(), len(data), info.Size())
}
