//go:build cgo && !noffmpeg

package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// clips are those of the shared data.
func clips(t testing.TB) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(sharedVideo(), "*.mp4"))
	if err != nil || len(list) == 0 {
		t.Skip("the clips of the shared data are not here (PREFILLONLY_DATA)")
	}
	return list
}

// dashcam is a clip of 960x540 at 25 frames in a second.
func dashcam(t testing.TB) string {
	t.Helper()
	name := filepath.Join(sharedVideo(), "dashcam_highway_960x540.mp4")
	if _, err := os.Stat(name); err != nil {
		t.Skip("a clip of the shared data is not here (PREFILLONLY_DATA)")
	}
	return name
}

// sharedVideo is the directory of the clips that are not in the repository.
func sharedVideo() string {
	dir := os.Getenv("PREFILLONLY_DATA")
	if dir == "" {
		dir = "../../../../shared/data"
	}
	return filepath.Join(dir, "video")
}

// judge runs the ffmpeg program.
func judge(t testing.TB, input []byte, args ...string) []byte {
	t.Helper()
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Skip("the ffmpeg program is not here")
	}
	command := exec.Command(program, append([]string{"-v", "error", "-nostdin"}, args...)...)
	if input != nil {
		command = exec.Command(program, append([]string{"-v", "error"}, args...)...)
		command.Stdin = bytes.NewReader(input)
	}
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		t.Fatalf("ffmpeg %q: %v: %s", args, err, &complaint)
	}
	return out
}

func mustOpen(t testing.TB, name string, o Options) *Clip {
	t.Helper()
	c, err := Open(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func next(t testing.TB, c *Clip) *media.Frame {
	t.Helper()
	f, err := c.Next(context.Background())
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func raw(f *media.Frame) []byte { return slices.Concat(f.Y, f.Cb, f.Cr) }

// TestDecodeAsFFmpeg: every byte of each clip's frames, and how many there are.
func TestDecodeAsFFmpeg(t *testing.T) {
	limit := 1 << 30
	if testing.Short() {
		limit = 40
	}
	for _, name := range clips(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			c := mustOpen(t, name, Options{})
			want := judge(t, nil, "-i", name, "-frames:v", strconv.Itoa(min(limit, 400)), "-f", "rawvideo", "-fps_mode", "passthrough", "-")
			frames := 0
			var last time.Duration = -1
			for ; len(want) > 0; frames++ {
				f := next(t, c)
				if f == nil {
					t.Fatalf("%d frames, and ffmpeg has more", frames)
				}
				got := raw(f)
				if len(want) < len(got) || !bytes.Equal(got, want[:len(got)]) {
					t.Fatalf("frame %d is not what ffmpeg decodes", frames)
				}
				if f.Index != frames || f.Time <= last {
					t.Fatalf("frame %d is number %d at %v, behind %v", frames, f.Index, f.Time, last)
				}
				last, want = f.Time, want[len(got):]
			}
			if !testing.Short() && frames < 400 && next(t, c) != nil {
				t.Errorf("more than the %d frames of ffmpeg", frames)
			}
			if c.Damaged() != 0 {
				t.Errorf("%d are damaged", c.Damaged())
			}
			t.Logf("%d frames of %+v", frames, c.Info())
		})
	}
}

// TestScaleAsFFmpeg: bicubic scaling, and conversion to BGR, as ffmpeg's own filter does both.
func TestScaleAsFFmpeg(t *testing.T) {
	name := dashcam(t)
	c := mustOpen(t, name, Options{})
	f := next(t, c)
	var s Scaler
	defer s.Close()
	small, err := s.Scale(f, 640, 352)
	if err != nil {
		t.Fatal(err)
	}
	if want := judge(t, nil, "-i", name, "-frames:v", "1", "-vf", "scale=640:352:flags=bicubic", "-f", "rawvideo", "-"); !bytes.Equal(raw(small), want) {
		t.Error("the scaled frame is not what ffmpeg makes")
	}
	for _, size := range [][2]int{{f.Width, f.Height}, {416, 234}} {
		got := make([]byte, 3*size[0]*size[1])
		if err := s.BGR(f, size[0], size[1], got); err != nil {
			t.Fatal(err)
		}
		filter := "scale=" + strconv.Itoa(size[0]) + ":" + strconv.Itoa(size[1]) + ":flags=bicubic"
		if want := judge(t, nil, "-i", name, "-frames:v", "1", "-vf", filter, "-pix_fmt", "bgr24", "-f", "rawvideo", "-"); !bytes.Equal(got, want) {
			t.Errorf("BGR of %v is not what ffmpeg makes", size)
		}
	}
}

// TestOwnColours: the conversion in Go and that of the library agree, but for rounding.
func TestOwnColours(t *testing.T) {
	f := next(t, mustOpen(t, dashcam(t), Options{}))
	var s Scaler
	defer s.Close()
	for _, m := range []media.Matrix{media.BT601, media.BT709} {
		f.Matrix = m
		own, library := make([]byte, 3*f.Width*f.Height), make([]byte, 3*f.Width*f.Height)
		if err := errors.Join(f.BGR(own), s.BGR(f, f.Width, f.Height, library)); err != nil {
			t.Fatal(err)
		}
		worst := 0
		for i, v := range own {
			worst = max(worst, int(v)-int(library[i]), int(library[i])-int(v))
		}
		if worst > 3 {
			t.Errorf("matrix %d: they differ by %d", m, worst)
		}
	}
}

func TestSample(t *testing.T) {
	name := dashcam(t)
	all := mustOpen(t, name, Options{})
	var times []time.Duration
	for f := next(t, all); f != nil && len(times) < 100; f = next(t, all) {
		times = append(times, f.Time)
	}
	sampled := mustOpen(t, name, Options{Rate: 10})
	for k := range 35 {
		at := time.Duration(k) * 100 * time.Millisecond
		want := slices.IndexFunc(times, func(v time.Duration) bool { return v >= at-sampleSlack })
		if f := next(t, sampled); f.Index != want || f.Time != times[want] {
			t.Fatalf("sample %d is frame %d at %v, want %d at %v", k, f.Index, f.Time, want, times[want])
		}
	}
}

func TestSeek(t *testing.T) {
	name := dashcam(t)
	c := mustOpen(t, name, Options{})
	var frames []*media.Frame
	for range 120 {
		frames = append(frames, next(t, c))
	}
	for _, want := range []int{0, 77, 30, 119, 0} {
		if err := c.Seek(t.Context(), frames[want].Time); err != nil {
			t.Fatal(err)
		}
		for i := want; i < min(want+3, len(frames)); i++ {
			if f := next(t, c); f.Index != i || f.Time != frames[i].Time || !bytes.Equal(f.Y, frames[i].Y) {
				t.Fatalf("after a seek to frame %d, frame %d at %v comes instead of %d", want, f.Index, f.Time, i)
			}
		}
	}
	for next(t, c) != nil { // loops: from the end to the beginning
	}
	if err := c.Seek(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if f := next(t, c); f == nil || f.Index != 0 || !bytes.Equal(f.Y, frames[0].Y) {
		t.Error("the second round does not begin with the first frame")
	}
}
