//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// readSound reads all of a file's sound, some samples at a time.
func readSound(t testing.TB, file []byte, piece int) (*Sound, []float32, error) {
	t.Helper()
	s, err := OpenSound(t.Context(), file)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	var all []float32
	for into := make([]float32, piece); ; {
		n, err := s.Next(t.Context(), into)
		if err == io.EOF {
			return s, all, nil
		}
		if err != nil {
			return s, all, err
		}
		all = append(all, into[:n]...)
	}
}

// TestSoundOfEachFormat: the mean of two tones comes out of each kind of file; made by ffmpeg of 16-bit samples of 16 kHz:
// 8000 sin(2 pi 440 t) and 4000 sin(2 pi 700 t), a quarter of a second.
func TestSoundOfEachFormat(t *testing.T) {
	for name, c := range map[string]struct {
		rate  int
		least float64 // of the correlation
	}{"tones.flac": {16000, 1}, "tones.mp3": {16000, 0.99}, "tones.ogg": {16000, 0.98}, "tones.m4a": {16000, 0.95}, "tones.webm": {48000, 0.97}} {
		file, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		s, got, err := readSound(t, file, 333)
		if err != nil || s.Rate() != c.rate {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var both, own, other float64
		for i, v := range got[:min(len(got), c.rate/4)] { // some have silence behind
			at := 2 * math.Pi * float64(i) / float64(c.rate)
			want := (math.Round(8000*math.Sin(440*at)) + math.Round(4000*math.Sin(700*at))) / 65536
			if c.least == 1 && float64(v) != want {
				t.Fatalf("%s: sample %d is %v, want %v", name, i, v, want)
			}
			both, own, other = both+want*float64(v), own+want*want, other+float64(v)*float64(v)
		}
		if same := both / math.Sqrt(own*other); len(got) < c.rate/4 || same < c.least-1e-9 {
			t.Errorf("%s: %d samples, alike by %.4f", name, len(got), same)
		}
	}
}

// TestSpeechAsFFmpegDecodesIt: the samples of a FLAC file of 24 bits and two channels are those of the program ffmpeg.
func TestSpeechAsFFmpegDecodesIt(t *testing.T) {
	path := filepath.Join(os.Getenv("PREFILLONLY_DATA"), "audio", "speech", "jfk.flac")
	file, err := os.ReadFile(path)
	if err != nil || os.Getenv("PREFILLONLY_DATA") == "" {
		t.Skip("PREFILLONLY_DATA has no audio/speech/jfk.flac")
	}
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("the program ffmpeg is not installed")
	}
	want, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-i", path, "-f", "f32le", "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	s, got, err := readSound(t, file, 1<<14)
	if err != nil || s.Rate() != 44100 || 8*len(got) != len(want) {
		t.Fatalf("%d samples for %d bytes of two channels, %v", len(got), len(want), err)
	}
	value := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:])) }
	for i, v := range got {
		if mean := (value(2*i) + value(2*i+1)) / 2; v != mean {
			t.Fatalf("sample %d is %v, want %v", i, v, mean)
		}
	}
}

// TestSoundThatCannotBeIsRefused: what is no sound, or names other files, is refused, and a context that has ended ends the reading.
func TestSoundThatCannotBeIsRefused(t *testing.T) {
	video, err := os.ReadFile("testdata/drawn.mp4")
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"empty": nil, "text": []byte("not a sound"), "video alone": video,
		"playlist": []byte("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\n/etc/passwd\n"), "concat": []byte("ffconcat version 1.0\nfile /etc/passwd\n"),
	} {
		if s, err := OpenSound(t.Context(), file); err == nil {
			s.Close()
			t.Errorf("%s is opened", name)
		}
	}
	file, err := os.ReadFile("testdata/tones.mp3")
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenSound(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the client left")
	cancel(left)
	if _, err := s.Next(ctx, make([]float32, 1<<16)); !errors.Is(err, left) {
		t.Errorf("%v, want %v", err, left)
	}
}

// FuzzOpenSound: whatever is in a file, reading it ends, in samples or an error.
func FuzzOpenSound(f *testing.F) {
	for _, name := range []string{"tones.flac", "tones.mp3", "tones.ogg", "tones.m4a", "tones.webm"} {
		file, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
		f.Add(bytes.Repeat(file, 2)[:len(file)*3/2])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s, err := OpenSound(ctx, file)
		if err != nil {
			if ctx.Err() != nil {
				t.Fatal("opening does not end")
			}
			return
		}
		defer s.Close()
		into := make([]float32, 4096)
		for pieces := 0; pieces < 1000; pieces++ { // files may say that they are long
			n, err := s.Next(ctx, into)
			if ctx.Err() != nil {
				t.Fatalf("%d pieces take too long", pieces)
			}
			if err != nil {
				break
			}
			if n < 1 || n > len(into) || s.Rate() == 0 {
				t.Fatalf("%d samples of %d Hz", n, s.Rate())
			}
		}
	})
}
