package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
)

// asProgram makes the test's own binary the program.
const asProgram = "CAMERA_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, args ...string) *pipe.Client {
	t.Helper()
	t.Setenv(asProgram, "1")
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := pipe.Start(t.Context(), own, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// clip is one that the repository draws by itself: 24 frames of 96 x 64 pixels.
const clip = "../../videoext/media/ffmpeg/testdata/drawn.mp4"

func read(t *testing.T, name string) (frames []*media.Frame) {
	t.Helper()
	c, err := ffmpeg.Open(t.Context(), name, ffmpeg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		f, err := c.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
}

// TestAsInOneProcess: through the pipe, frames and parts of a file become the same bytes as without it.
func TestAsInOneProcess(t *testing.T) {
	client := start(t)
	remote, err := client.Open(t.Context(), clip, 0)
	if err != nil {
		t.Fatal(err)
	}
	if i := remote.Info(); i.Width != 96 || i.Height != 64 || i.Rate != 12 {
		t.Errorf("the clip is said to be %+v", i)
	}
	frames := read(t, clip)
	m := media.NewQPMap(96, 64, 40)
	m.Set(image.Rect(20, 20, 50, 40), 20)
	var scaler ffmpeg.Scaler
	defer scaler.Close()
	for _, s := range []media.Settings{
		{Rate: 12, Quality: media.QP(30)},
		{Rate: 12, Quality: media.CRF(23.5), Preset: "veryfast", BFrames: 2, BBias: -50, IPRatio: 1.2, PBRatio: 1.1, ChromaOffset: 2},
		{Rate: 12, Quality: media.Maps{m}},
		{Rate: 12, Quality: media.QP(30), Width: 64, Height: 48},
	} {
		for _, part := range [][2]int{{8, 16}, {16, 24}, {0, 8}} {
			local := make([]*media.Frame, 0, 8)
			for _, f := range frames[part[0]:part[1]] {
				if s.Width != 0 {
					if f, err = scaler.Scale(f, s.Width, s.Height); err != nil {
						t.Fatal(err)
					}
				}
				local = append(local, f)
			}
			want, err := x264.Encoder{}.Encode(t.Context(), local, s)
			if err != nil {
				t.Fatal(err)
			}
			sent, err := client.Encode(t.Context(), frames[part[0]:part[1]], s)
			if err != nil || !reflect.DeepEqual(sent, want) {
				t.Errorf("%+v: frames %v that are sent become something else; %v", s, part, err)
			}
			named, err := remote.Encode(t.Context(), part[0], part[1]-part[0], s)
			if err != nil || !reflect.DeepEqual(named, want) {
				t.Errorf("%+v: frames %v of the file become something else; %v", s, part, err)
			}
		}
	}
	if took := client.Times(); took.Decode <= 0 || took.Scale <= 0 || took.Encode <= 0 || took.Processor <= 0 {
		t.Errorf("it took %+v", took)
	}
}

// TestEndOfClip: what is left, and then io.EOF, also for a rate.
func TestEndOfClip(t *testing.T) {
	client := start(t)
	for rate, total := range map[float64]int{0: 24, 3: 6} {
		remote, err := client.Open(t.Context(), clip, rate)
		if err != nil {
			t.Fatal(err)
		}
		s := media.Settings{Rate: 12, Quality: media.QP(40)}
		if last, err := remote.Encode(t.Context(), total-2, 10, s); err != nil || len(last.Units) != 2 {
			t.Errorf("rate %v: the last frames are %v, %v", rate, last, err)
		}
		for _, first := range []int{total, total + 50} {
			if _, err := remote.Encode(t.Context(), first, 1, s); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), fmt.Sprint("has ", total)) {
				t.Errorf("rate %v: behind the end: %v", rate, err)
			}
		}
		if again, err := remote.Encode(t.Context(), 0, 1, s); err != nil || again.Units[0].Index != 0 {
			t.Errorf("rate %v: from the beginning: %v, %v", rate, again, err)
		}
		if err := remote.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnfitRequestsAreRefused: each is an error that says what is wrong, and the child goes on.
func TestUnfitRequestsAreRefused(t *testing.T) {
	client := start(t)
	frames := read(t, clip)
	good := media.Settings{Rate: 12, Quality: media.QP(30)}
	garbage := filepath.Join(t.TempDir(), "garbage.mp4")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("garbage"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	remote, err := client.Open(t.Context(), clip, 0)
	if err != nil {
		t.Fatal(err)
	}
	for want, request := range map[string]func() error{
		"no quality": func() error {
			_, err := client.Encode(t.Context(), frames, media.Settings{Rate: 1})
			return err
		},
		"must be even": func() error {
			_, err := remote.Encode(t.Context(), 0, 2, media.Settings{Rate: 1, Quality: media.QP(3), Width: 33})
			return err
		},
		"frame 1 has 64 x 48": func() error {
			_, err := client.Encode(t.Context(), []*media.Frame{frames[0], media.NewFrame(64, 48)}, good)
			return err
		},
		"-1 frames":                        func() error { _, err := remote.Encode(t.Context(), 0, -1, good); return err },
		"absent.mp4":                       func() error { _, err := client.Open(t.Context(), "absent.mp4", 0); return err },
		"garbage.mp4: it cannot be opened": func() error { _, err := client.Open(t.Context(), garbage, 0); return err },
		"is a directory":                   func() error { _, err := client.Open(t.Context(), ".", 0); return err },
		"rtsp://":                          func() error { _, err := client.Open(t.Context(), "http://localhost/a.mp4", 0); return err },
	} {
		if err := request(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := client.Encode(t.Context(), frames[:2], good); err != nil {
			t.Fatalf("after %s: %v", want, err)
		}
	}
}

// TestChildDies: the error names it and how it ended, at once and from then on.
func TestChildDies(t *testing.T) {
	client := start(t)
	frames := read(t, clip)
	s := media.Settings{Rate: 12, Quality: media.QP(30)}
	if err := syscall.Kill(childOf(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := client.Encode(t.Context(), frames, s); err == nil || !strings.Contains(err.Error(), "signal: killed") || !strings.Contains(err.Error(), "process") {
			t.Errorf("after kill -9: %v", err)
		}
	}
}

// childOf is the one child of this process.
func childOf(t *testing.T) int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all string
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread may have ended
		all += string(text)
	}
	var pid int
	if _, err := fmt.Sscan(all, &pid); err != nil || len(strings.Fields(all)) != 1 {
		t.Fatalf("the children are %q", all)
	}
	return pid
}

// TestContextEnds: an encoding that would take long ends soon.
func TestContextEnds(t *testing.T) {
	client := start(t)
	frame := media.NewFrame(1920, 1080)
	for i := range frame.Y {
		frame.Y[i] = byte(i * i >> 7)
	}
	frames := make([]*media.Frame, 20)
	for i := range frames {
		frames[i] = frame
	}
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := client.Encode(ctx, frames, media.Settings{Rate: 12, Quality: media.QP(1), Preset: "placebo"})
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	other := start(t)
	if _, err := other.Encode(ended, frames[:1], media.Settings{Rate: 12, Quality: media.QP(40)}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := other.Encode(t.Context(), frames[:1], media.Settings{Rate: 12, Quality: media.QP(40)}); err != nil {
		t.Errorf("a context that had ended before left its mark: %v", err)
	}
}

func TestOtherPrograms(t *testing.T) {
	for program, want := range map[string]string{"cat": "No such file", "true": "it ended", "yes": "more than this pipe takes", "absent": "not found"} {
		if _, err := pipe.Start(t.Context(), program); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// run runs the program with an input.
func run(t *testing.T, input string, args ...string) (string, int) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(own, args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

func TestCommandLine(t *testing.T) {
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("rtsp://user:secret@127.0.0.1:1/secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, input, want string
		code              int
	}{
		{"version", "", "GPL", 0},
		{"", "", "camera version", 0},
		{"encode", "", "", 0}, // the input ends
		{"encode", "what is this", "camera: the other side of the pipe: a message of kind 119", exitFailure},
		{"encode", "\x02\x00\x00", "unexpected EOF", exitFailure},
		{"encode --threads 0", "", "--threads 0 is not", exitUsage},
		{"decode", "", "camera --help", exitUsage},
		{"run --server http://localhost:1 --stream a --source " + clip + " --bandwidth fast", "", `--bandwidth: link "fast": "fast" is neither a rate`, exitUsage},
		{"run --server http://localhost:1 --stream a --source @" + source, "", "rtsp://127.0.0.1:1/#", exitFailure},
		{"run --server http://localhost:1 --stream a --source @" + clip + ".missing", "", "--source: open", exitFailure},
		{"run --server http://localhost:1 --stream a --source " + clip + " --rtt -1s", "", "--rtt -1s is not 0 to 1m", exitUsage},
	} {
		out, code := run(t, c.input, strings.Fields(c.args)...)
		if !strings.Contains(out, c.want) || code != c.code || strings.Contains(out, "secret") {
			t.Errorf("camera %s: exit code %d, %s", c.args, code, out)
		}
	}
}
