package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// streamStatus is what tests look at of how a stream is.
type streamStatus struct {
	State, Reason string
	Load          float64
	Number        uint64
}

// streamIs asks how a stream is; false while nobody answers.
func (p *program) streamIs(name string) (s streamStatus, ok bool) {
	p.Helper()
	response, err := http.Get(p.base + "/v1/video/streams/" + name)
	if err != nil {
		return s, false // a frontend was killed
	}
	text := readAll(p, response)
	return s, response.StatusCode == http.StatusOK && json.Unmarshal([]byte(text), &s) == nil
}

// untilStream waits until what a condition says of a stream is so.
func (p *program) untilStream(name, what string, holds func(s streamStatus) bool) (s streamStatus) {
	p.Helper()
	p.until(name+" "+what, func() bool {
		now, ok := p.streamIs(name)
		s = now
		return ok && holds(s)
	})
	return s
}

// TestVideoAdmission: streams that take more of the device than is free are refused with the figures, whether it is declared or their camera says it,
// and those that a killed process has left count again in the next one.
func TestVideoAdmission(t *testing.T) {
	p := serveEyes(t, eyeEntry("eye", eyeFile(t, 40)))
	if status, text := p.declare(`{"name":"first","source":"drawn.mp4","loop":true,"rate":3}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	figures := regexp.MustCompile(`frames a second at \S+s each take [0-9.]+ of a device, and [0-9.]+ are left of the 0.7 that streams may take of 1`)
	refused := func(when string) {
		t.Helper()
		status, text := p.declare(`{"name":"greedy","source":"camera","method":"dds","rate":240}`)
		if status != http.StatusTooManyRequests || !figures.MatchString(text) || !strings.Contains(text, `"overloaded"`) {
			t.Fatalf("%s: %d %s", when, status, text)
		}
	}
	for i := 0; ; i++ {
		status, text := p.declare(fmt.Sprintf(`{"name":"reserved-%d","source":"camera","method":"dds","rate":240}`, i))
		if status == http.StatusTooManyRequests {
			break
		}
		if status != http.StatusCreated || i > 50 {
			t.Fatalf("%d %s", status, text)
		}
	}
	before := p.untilStream("first", "is seen", func(s streamStatus) bool { return s.Number > 0 })
	refused("at first")
	p.strike("video", syscall.SIGKILL)
	after := p.untilStream("first", "is counted again", func(s streamStatus) bool { return s.Load > 0 })
	if ratio := after.Load / before.Load; ratio < 0.1 || ratio > 10 { // what the pool says that a frame takes is measured anew, now and then
		t.Errorf("it took %.3f of the device, and takes %.3f after the process was killed", before.Load, after.Load)
	}
	refused("after the process was killed")

	bin := buildCamera(t)
	if status, text := p.declare(`{"name":"fast","source":"camera","method":"dds"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	fast := filepath.Join(t.TempDir(), "fast.mp4")
	if text, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=96x64:rate=240:duration=1", fast).CombinedOutput(); err != nil {
		t.Skipf("the program ffmpeg makes no clip of 240 frames a second: %v %s", err, text)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "camera"), "run", "--server", p.base, "--stream", "fast", "--source", fast, "--rate", "0")
	said := &cameraProcess{TB: t}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("the camera says %s", said.text())
		}
	}()
	p.untilStream("fast", "says why its camera is refused", func(s streamStatus) bool { return s.State == "waiting" && figures.MatchString(s.Reason) })
	p.until("said by the camera", func() bool { return figures.MatchString(said.text()) })
	_ = cmd.Process.Signal(os.Interrupt) // it may have ended by itself
	_ = cmd.Wait()
}

// TestVideoReload: a stream whose model leaves the configuration waits and says so, and goes on when it is there again, as one of a new model does.
func TestVideoReload(t *testing.T) {
	eye, other := eyeEntry("eye", eyeFile(t, 1)), eyeEntry("other", eyeFile(t, 2))
	p := serveEyes(t, eye)
	const told = "video streams have the models read anew"
	if status, text := p.declare(`{"name":"door","source":"drawn.mp4","loop":true}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	p.untilStream("door", "is seen", func(s streamStatus) bool { return s.Number > 3 })
	p.reread("models:\n"+other, told)
	s := p.untilStream("door", "waits", func(s streamStatus) bool {
		return s.State == "waiting" && strings.Contains(s.Reason, `"eye"; those with a decoder are other`)
	})
	if status, text := p.declare(`{"name":"late","source":"drawn.mp4","model":"other"}`); status != http.StatusCreated {
		t.Errorf("%d %s", status, text)
	}
	p.watch("late", 24)
	p.reread("models:\n"+other+eye, told)
	p.untilStream("door", "goes on", func(now streamStatus) bool { return now.State == "running" && now.Number > s.Number+5 })
	for i, r := range p.watch("door", int(s.Number)+5) {
		if r.Segment != i || !r.Final {
			t.Errorf("result %d is %+v", i, r)
		}
	}
}
