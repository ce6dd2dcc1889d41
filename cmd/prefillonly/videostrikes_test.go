package main

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
)

// strikes are what befalls processes of a server with streams; "serve" is the one that starts the others.
var strikes = []struct {
	role   string
	signal syscall.Signal
}{
	{"video", syscall.SIGKILL}, {"executor", syscall.SIGSEGV}, {"scheduler", syscall.SIGABRT}, {"frontend", syscall.SIGSEGV},
	{"executor", syscall.SIGKILL}, {"video", syscall.SIGSEGV}, {"frontend", syscall.SIGKILL}, {"scheduler", syscall.SIGKILL},
	{"video", syscall.SIGSTOP}, {"executor", syscall.SIGSTOP}, {"scheduler", syscall.SIGSTOP}, {"frontend", syscall.SIGSTOP},
	{"serve", syscall.SIGSTOP}, {"video", syscall.SIGABRT}, {"serve", syscall.SIGKILL},
}

// TestVideoStrikes: whichever process is killed, crashes or stands still, streams of a file, a camera of RTSP and a camera's program go on: no result comes
// twice or is missing, and each of the file is of its own frame.
func TestVideoStrikes(t *testing.T) {
	if testing.Short() {
		t.Skip("15 processes are struck, one after the other")
	}
	const frames = 24             // of the clip
	port, err := cli.UnusedPort() // for a server that follows another
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--port", strconv.Itoa(port), "--video-state", t.TempDir(), "--hang-timeout", hangTimeout.String()}
	models := eyeEntry("eye", eyeFile(t, 1))
	p := serveEyes(t, models, args...)
	p.mustDeclare(`{"name":"calm","source":"drawn.mp4"}`)
	calm := p.watch("calm", frames)

	p.mustDeclare(`{"name":"file","source":"drawn.mp4","loop":true}`)
	camera := &rtsptest.Camera{Units: rtsptest.Drawn(), Loop: true, Pace: time.Second / rtsptest.Rate}
	p.mustDeclare(fmt.Sprintf(`{"name":"rtsp","source":%q}`, camera.Start(t)))
	p.mustDeclare(`{"name":"program","source":"camera","method":"dds:frames=4,objectness=0.2"}`)
	names := []string{"file", "rtsp", "program"}
	program := exec.CommandContext(t.Context(), filepath.Join(buildCamera(t), "camera"), "run", "--server", p.base, "--stream", "program", "--rate", "0", "--loop",
		"--source", "../../videoext/media/ffmpeg/testdata/drawn.mp4")
	var said strings.Builder
	program.Stdout, program.Stderr = &said, &said
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = program.Process.Signal(os.Interrupt) // it ends by itself, or with the test
		_ = program.Wait()
		if t.Failed() {
			t.Logf("the camera's program: %s", &said)
		}
	}()
	last := map[string]uint64{}
	goOn := func(when string) {
		t.Helper()
		for _, name := range names {
			s := p.untilStream(name, "goes on "+when, func(s streamStatus) bool { return s.State == "running" && s.Number >= last[name]+6 })
			last[name] = s.Number
		}
	}
	goOn("at first")
	for _, s := range strikes {
		switch {
		case s.role != "serve":
			p.strike(s.role, s.signal)
		case s.signal == syscall.SIGSTOP:
			_ = p.cmd.Process.Signal(syscall.SIGSTOP) // it runs
			goOn("while serve stands still")
			_ = p.cmd.Process.Signal(syscall.SIGCONT) // it does
		default:
			_ = p.cmd.Process.Signal(s.signal) // it runs
			<-p.done
			p = serveEyes(t, models, args...)
		}
		goOn(fmt.Sprintf("after %s got %v", s.role, s.signal))
	}
	for i, r := range p.watch("file", int(last["file"])) {
		own := calm[i%frames]
		due := calm[1].Time * float64(i) // times go on where the file begins again
		if r.Segment != i || !r.Final || r.Dropped != "" || math.Abs(r.Time-due) > 1e-3 || len(r.Boxes) != 1 || r.Boxes[0] != own.Boxes[0] {
			t.Errorf("result %d of the file is %+v; in peace %+v", i, r, own)
		}
	}
	rtsp, dropped := p.watch("rtsp", int(last["rtsp"])), 0
	for i, r := range rtsp {
		if r.Segment != i || !r.Final || i > 0 && r.Time <= rtsp[i-1].Time {
			t.Errorf("result %d of RTSP is %+v", i, r)
		}
		if r.Dropped != "" {
			dropped++
		}
	}
	if dropped > len(rtsp)/2 {
		t.Errorf("%d of %d frames of RTSP were not seen", dropped, len(rtsp))
	}
	final := map[[2]int]bool{}
	segment, frame := 0, 0 // the next one with a final result
	for _, r := range p.watch("program", int(last["program"])) {
		if final[[2]int{r.Segment, r.Frame}] || r.Final && (r.Segment != segment || r.Frame != frame) {
			t.Errorf("a result of frame %d of segment %d comes when %d of %d is next: %+v", r.Frame, r.Segment, frame, segment, r)
		}
		if r.Final {
			final[[2]int{r.Segment, r.Frame}] = true
			if frame++; frame == r.Of {
				segment, frame = segment+1, 0
			}
		}
	}
	t.Logf("results: %v; %d of RTSP were not seen", last, dropped)
}

func (p *program) mustDeclare(spec string) {
	p.Helper()
	if status, text := p.declare(spec); status != http.StatusCreated {
		p.Fatalf("%s: %d %s", spec, status, text)
	}
}
