package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// TestSoak is the short form of `make soak-video`.
func TestSoak(t *testing.T) {
	if _, err := new(ffmpeg.Scaler).Scale(renderFrame(1), 64, 64); err != nil {
		t.Skip(err)
	}
	camera := filepath.Join(t.TempDir(), "camera")
	if text, err := exec.Command("go", "build", "-o", camera, "../../cmd/camera").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s, err := soakAllMethods(t.Context(), camera, 6*time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(s)
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	if s.corrupt == 0 || s.vanished == 0 {
		t.Error("there were no faults")
	}
}

// TestNumbers: each frame's number is read from it, and no other.
func TestNumbers(t *testing.T) {
	for number := range 500 {
		if got, ok := readNumber(renderFrame(number * 31)); !ok || got != number*31 {
			t.Fatalf("%d is read as %d, %v", number*31, got, ok)
		}
	}
}

// TestVerdict: what a soak is for is seen.
func TestVerdict(t *testing.T) {
	fresh := func() *stream {
		s := &stream{method: method.Method{Name: "m"}, seen: &seen{}, open: map[method.Segment]*segment{0: {of: 1}}}
		s.seen.captured = 1
		return s
	}
	of := func(class int) method.Results {
		return method.Results{Frames: []videoext.Findings{{Detections: []videoext.Detection{{Class: class}}}}, Final: true}
	}
	for name, fault := range map[string]func(*stream){
		"a later frame's": func(s *stream) { s.checkResults(of(3)) },
		"twice":           func(s *stream) { s.checkResults(of(0)); s.checkResults(of(0)) },
		"none":            func(*stream) {},
		"growth": func(s *stream) {
			s.seen.final, s.seen.own = 1, 1
			for i := range int64(20) {
				s.seen.memory = append(s.seen.memory, i*10<<20)
			}
		},
	} {
		s := fresh()
		fault(s)
		if s.seen.verdict() == nil {
			t.Errorf("%s: all is well", name)
		}
	}
}
