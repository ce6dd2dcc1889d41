//go:build cgo && !noffmpeg

package ffmpeg

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
)

// written is a file of H.264.
func written(t *testing.T, units ...media.Unit) string {
	t.Helper()
	var data []byte
	for _, u := range units {
		data = append(data, u.Data...)
	}
	name := filepath.Join(t.TempDir(), "clip.h264")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestMemoryIsKnownBeforeDecoding: size and references say what decoding takes, and it never takes more: all frames of honest clips come.
func TestMemoryIsKnownBeforeDecoding(t *testing.T) {
	for _, references := range []int{0, 1, 4, 16} {
		clip := mustOpen(t, written(t, rtsptest.Grey(320, 192, references, 30)...), Options{})
		if got, want := clip.Info().Memory, int64((references+spareFrames)*320*192*3/2*3/2+trackBytes+fixedBytes); got != want {
			t.Errorf("%d references take %d bytes, want %d", references, got, want)
		}
		frames := 0
		for next(t, clip) != nil {
			frames++
		}
		if frames != 30 || clip.Damaged() > 0 {
			t.Errorf("%d references: %d frames came, %d were damaged", references, frames, clip.Damaged())
		}
	}
	// references and delay, as x264 and MPEG-4 have them
	for name, want := range map[string]int64{"drawn.mp4": 4 + 2, "drawn.ts": 4 + 2, "drawn.mkv": 3, "drawn.avi": 2} {
		clip := mustOpen(t, "testdata/"+name, Options{})
		if got := (clip.Info().Memory - fixedBytes - trackBytes) / (128 * 64 * 9 / 4); got != want+spareFrames {
			t.Errorf("%s: memory for %d frames, want %d", name, got, want+spareFrames)
		}
	}
}

// TestMoreMemoryThanSaidIsRefused: a source that asks for more references, or larger frames, than it said at its beginning ends in an error with the figures.
func TestMoreMemoryThanSaidIsRefused(t *testing.T) {
	for what, more := range map[string][]media.Unit{
		"frame 6 of 320 x 192 pixels, and said at its beginning that 5 of 61440": rtsptest.Grey(320, 192, 16, 30),
		"of 1280 x 704 pixels, and said at its beginning that 5 of 61440 pixels": rtsptest.Grey(1280, 704, 1, 30),
	} {
		clip := mustOpen(t, written(t, append(rtsptest.Grey(320, 192, 1, 30), more...)...), Options{})
		var err error
		for err == nil {
			_, err = clip.Next(t.Context())
		}
		if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

// TestReferencesOfWhatCannotBeRead are the most that there can be.
func TestReferencesOfWhatCannotBeRead(t *testing.T) {
	set := rtsptest.Grey(320, 192, 3, 1)[0].Data
	if got := codingOf("h264", set); got != (coding{3, 320, 192}) {
		t.Errorf("%+v, want 3 references", got)
	}
	avc := append([]byte{1, 66, 0, 62, 255, 225, 0, byte(len(set[4:20]))}, set[4:20]...)
	if got := codingOf("h264", avc); got != (coding{3, 320, 192}) {
		t.Errorf("%+v as MP4 has them, want 3 references", got)
	}
	for _, codec := range []string{"h264", "hevc", "another"} {
		for _, headers := range [][]byte{nil, {1}, {0, 0, 0, 1}, set[:6], set[:9], make([]byte, 23), {0, 0, 1, 0x42, 1, 0xff}} {
			if got := codingOf(codec, headers).references; got != mostReferences {
				t.Errorf("%s of %x: %d references, want %d", codec, headers, got, mostReferences)
			}
		}
	}
}

// TestCamerasAreAdmittedByTheirDescription: before anything of a camera is decoded that describes its parameter sets, it is asked whether it may be.
func TestCamerasAreAdmittedByTheirDescription(t *testing.T) {
	camera := &rtsptest.Camera{Units: rtsptest.Grey(1280, 704, 16, 30), Pace: 10 * time.Millisecond}
	no, asked := errors.New("no"), 0
	_, err := Open(t.Context(), camera.Start(t), Options{Admit: func(info Info) error {
		asked++
		if want := int64((16+spareFrames)*1280*704*3/2*3/2 + trackBytes + fixedBytes); info.Width != 1280 || info.Height != 704 || info.Memory != want {
			t.Errorf("%+v, want %d bytes", info, want)
		}
		return no
	}})
	if !errors.Is(err, no) || asked != 1 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}

// TestRefusedCamerasAreLetGo: nothing is left of a camera that is not admitted, by its description or by its first frames, and its connection is closed.
func TestRefusedCamerasAreLetGo(t *testing.T) {
	for name, refused := range map[string]int{"by its description": 1, "by its frames": 2} {
		camera, no, asked := &rtsptest.Camera{Units: rtsptest.Drawn()}, errors.New("no"), 0
		_, err := Open(t.Context(), camera.Start(t), Options{Admit: func(Info) error {
			if asked++; asked == refused {
				return no
			}
			return nil
		}})
		if !errors.Is(err, no) || asked != refused {
			t.Errorf("%s: %v, asked %d times", name, err, asked)
		}
		for end := time.Now().Add(10 * time.Second); camera.Open() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the connection stays open", name)
			}
		}
	}
}

// FuzzReferences: whatever a source says, there are 0 to 16 references.
func FuzzReferences(f *testing.F) {
	f.Add(rtsptest.Grey(320, 192, 3, 1)[0].Data)
	f.Add([]byte{0, 0, 1, 0x42, 1, 1, 1, 0x60, 0, 0, 3, 0, 0x90, 0, 0, 3, 0, 0, 3, 0, 0x5d, 0xa0, 2, 0x80, 0x80, 0x2d, 0x16, 0x59, 0x59, 0xa4, 0x93, 0x2b, 0xc0, 0x5a})
	f.Fuzz(func(t *testing.T, headers []byte) {
		for _, codec := range []string{"h264", "hevc"} {
			if n := codingOf(codec, headers).references; n < 0 || n > mostReferences {
				t.Errorf("%s: %d references", codec, n)
			}
		}
	})
}

// TestManyTracksAreRefused: a camera of more tracks than are opened is refused before any of them is.
func TestManyTracksAreRefused(t *testing.T) {
	for tracks, refused := range map[int]bool{16: false, 17: true, 20_000: true} {
		c := &rtsptest.Camera{Units: rtsptest.Drawn(), Tracks: tracks, HangUp: true}
		clip, err := Open(t.Context(), c.Start(t), Options{})
		if got := err != nil && strings.Contains(err.Error(), "it has more than 16 tracks"); got != refused {
			t.Errorf("%d tracks: %v", tracks, err)
		}
		if err == nil {
			if got := clip.Info().Memory; got < 16*trackBytes {
				t.Errorf("%d tracks take %d bytes", tracks, got)
			}
			_ = clip.Close() // it was read only
		}
	}
}
