//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bytes"
	"context"
	"crypto/md5"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// TestGolden: clips in several formats decode to what the ffmpeg program made of them (testdata/make.sh).
func TestGolden(t *testing.T) {
	list, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(line, " ")
		c := mustOpen(t, filepath.Join("testdata", name), Options{})
		hash, frames := md5.New(), 0
		var f *media.Frame
		for n := next(t, c); n != nil; n = next(t, c) {
			f, frames = n, frames+1
			if n.Index != frames-1 {
				t.Errorf("%s: frame %d says that it is number %d", name, frames-1, n.Index)
			}
			hash.Write(raw(n))
		}
		got := fmt.Sprintf("%s %dx%d %d %x\n", name, f.Width, f.Height, frames, hash.Sum(nil))
		if got != line {
			t.Errorf("%swant %s", got, line)
		}
		if want := 23 * time.Second / 12; f.Time < want-time.Millisecond || f.Time > want+time.Millisecond {
			t.Errorf("%s: the last frame is at %v, want %v", name, f.Time, want)
		}
		if want := 13001; name == "drawn.mp4" && c.Bytes() != want { // the sum of what ffprobe says of its packets
			t.Errorf("%s: %d bytes were read, want %d", name, c.Bytes(), want)
		}
	}
}

// TestLibrariesAreOptional: a program with this package starts where the libraries are not installed.
func TestLibrariesAreOptional(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	linked, err := program.ImportedLibraries()
	if err != nil || len(linked) == 0 {
		t.Fatal(linked, err)
	}
	for _, library := range linked {
		if strings.HasPrefix(library, "libav") || strings.HasPrefix(library, "libsw") {
			t.Errorf("%s is linked", library)
		}
	}
}

func TestBadSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole, err := os.ReadFile("testdata/drawn.mp4")
	if err != nil {
		t.Fatal(err)
	}
	target, err := filepath.Abs("testdata/drawn.ts")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ source, want string }{
		{"absent.mp4", "absent.mp4: no such file"},
		{dir, "is a directory"},
		{write("empty.mp4", ""), "empty.mp4: it cannot be opened as video"},
		{write("text.mp4", strings.Repeat("text", 1000)), "text.mp4: it cannot be opened as video: Invalid data"},
		{write("cut.mp4", string(whole[:len(whole)/2])), "cut.mp4: it cannot be opened as video: Invalid data found when processing input (moov atom not found)"},
		// What names other files is not followed.
		{write("list.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n"+target+"\n#EXT-X-ENDLIST\n"), "it cannot be opened as video"},
		{write("list.txt", "ffconcat version 1.0\nfile '"+target+"'\n"), "it cannot be opened as video"},
		{"concat:" + target, "no such file"},
		{"https://user:secret@example.org/x.mp4", "rtsp://"},
		{"rtsp://", "its host is neither a name nor an address"},
		{"rtsp://user:secret@127.0.0.1:1/x", ": it cannot be opened as video: Connection refused"},
	} {
		clip, err := Open(t.Context(), c.source, Options{})
		if err == nil {
			clip.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.source, err)
		}
	}
	if _, err := Open(t.Context(), "testdata/drawn.mp4", Options{Rate: -1}); err == nil {
		t.Error("a rate of -1 passed")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ended, "testdata/drawn.mp4", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
}

// TestDamaged: what is left of a spoilt file is decoded, and the damage is counted.
func TestDamaged(t *testing.T) {
	data, err := os.ReadFile("testdata/drawn.mkv")
	if err != nil {
		t.Fatal(err)
	}
	for i := 6000; i < 6400; i++ {
		data[i] ^= 0x5a
	}
	path := filepath.Join(t.TempDir(), "spoilt.mkv")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, path, Options{})
	frames := 0
	for {
		_, err := c.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		frames++
	}
	if c.Damaged() == 0 || frames < 12 {
		t.Errorf("%d frames, %d damaged", frames, c.Damaged())
	}
}

// TestJoinedFilesGoOn: all frames of files that are joined come, at any rate, by a clock that goes on, which tells of the place where they are joined.
func TestJoinedFilesGoOn(t *testing.T) {
	data, err := os.ReadFile("testdata/drawn.ts") // 24 frames of 12 in a second
	if err != nil {
		t.Fatal(err)
	}
	const files = 3
	name := filepath.Join(t.TempDir(), "joined.ts")
	if err := os.WriteFile(name, bytes.Repeat(data, files), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, rate := range []float64{0, 12, 4} {
		clip := mustOpen(t, name, Options{Rate: rate})
		frames, broken, last := 0, 0, time.Duration(-1)
		for f := next(t, clip); f != nil; f = next(t, clip) {
			if frames++; f.Broken {
				broken++
			}
			if f.Time <= last || last >= 0 && f.Time-last > time.Second {
				t.Errorf("rate %v: frame %d at %v behind %v", rate, f.Index, f.Time, last)
			}
			last = f.Time
		}
		if want := map[float64]int{0: 24, 12: 24, 4: 8}[rate] * files; frames != want || broken != files-1 {
			t.Errorf("rate %v: %d frames and %d discontinuities, want %d and %d", rate, frames, broken, want, files-1)
		}
	}
}
