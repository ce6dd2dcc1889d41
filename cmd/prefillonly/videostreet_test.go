package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/video"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/detect"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/scene"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// drawn is a clip of a street for cameras to stream, and what the detector of such streets finds in it.
type drawn struct {
	camera   string // the program
	detector string // file
	clip     string
	rate     int                 // frames a second
	truth    []videoext.Findings // of each frame of the clip
}

// clipRate is of a clip that is played as fast as it was drawn, in frames a second.
const clipRate = 10

// drawStreet draws a clip of so many frames a second.
func drawStreet(t *testing.T, rate int, drawings ...video.Drawing) *drawn {
	t.Helper()
	if testing.Short() {
		t.Skip("a server and cameras take some seconds")
	}
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	d := &drawn{rate: rate, camera: filepath.Join(buildCamera(t), "camera"), clip: filepath.Join(dir, "street.ivf"), detector: filepath.Join(dir, "street.onnx")}
	if err := os.WriteFile(d.detector, scene.Detector, 0o600); err != nil {
		t.Fatal(err)
	}
	err := cli.WriteFile(d.clip, func(f *os.File) error { return video.WriteClip(t.Context(), d.camera, f, rate, drawings...) })
	if err != nil {
		t.Fatal(err)
	}
	d.look(t)
	return d
}

// streetServer is a server with that detector.
type streetServer struct {
	*program
	*drawn
	t       *testing.T
	serving []string // its arguments
}

func (d *drawn) serve(t *testing.T) *streetServer {
	t.Helper()
	port, err := cli.UnusedPort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	list := filepath.Join(dir, "models.yaml")
	text := "models:\n- {name: street, path: " + strconv.Quote(d.detector) + ", keep: always, decoder: fastestdet}\n"
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &streetServer{drawn: d, t: t, serving: []string{"--config", list, "--port", strconv.Itoa(port), "--video-state", filepath.Join(dir, "streams")}}
	s.start()
	return s
}

// start starts the server, or another one in its place.
func (s *streetServer) start() { s.program = serve(s.t, nil, s.serving...) }

// look finds the truth.
func (d *drawn) look(t *testing.T) {
	t.Helper()
	backend, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	decoder, err := vision.Find("fastestdet")
	if err != nil {
		t.Fatal(err)
	}
	network, err := detect.Open(d.detector, backend, detect.Options{Image: detect.Usual("fastestdet"), Decoder: decoder, Vision: vision.Options{Score: 0.5}})
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	clip, err := ffmpeg.Open(t.Context(), d.clip, ffmpeg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer clip.Close()
	for {
		f, err := clip.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := network.Detect(images.FromImage(f.RGBA()))
		if err != nil {
			t.Fatal(err)
		}
		d.truth = append(d.truth, r.Findings(vision.Size{Height: f.Height, Width: f.Width}))
	}
}

// add declares a camera's stream.
func (s *streetServer) add(name, method string) {
	s.Helper()
	if status, text := s.declare(`{"name":"` + name + `","source":"camera","score":0.5,"method":"` + method + `"}`); status != http.StatusCreated {
		s.Fatalf("%d %s", status, text)
	}
}

// findings are the boxes of a result.
func (r *frameResult) findings() (found videoext.Findings) {
	for _, b := range r.Boxes {
		found.Detections = append(found.Detections, videoext.Detection{
			Region: videoext.Region{X0: b.Box[0], Y0: b.Box[1], X1: b.Box[2], Y1: b.Box[3]}, Class: b.Class, Score: float32(b.Score),
		})
	}
	return found
}

// streetRule says how like two frames are in what is found in them.
var streetRule = accuracy.Rule{Found: 0.5, IoU: 0.5}

// likest is the frame of the clip in which the detector finds most of what a result has.
func (d *drawn) likest(r *frameResult) (frame int, f1 float64) {
	result := []videoext.Findings{r.findings()}
	for i := range d.truth {
		if f := streetRule.F1(d.truth[i:i+1], result); f > f1 {
			frame, f1 = i, f
		}
	}
	return frame, f1
}

// final holds that each frame has one final result, in order, and returns these.
func (s *streetServer) final(name string, all []frameResult) (final []*frameResult) {
	s.Helper()
	segment, frame := 0, 0
	for i := range all {
		r := &all[i]
		if !r.Final {
			continue
		}
		if r.Segment != segment || r.Frame != frame {
			s.Errorf("%s: segment %d frame %d has a final result where that of segment %d frame %d is due", name, r.Segment, r.Frame, segment, frame)
			segment, frame = r.Segment, r.Frame
		}
		if frame++; frame == r.Of {
			segment, frame = segment+1, 0
		}
		final = append(final, r)
	}
	return final
}

// numbers are which frames of the clip results are of, by their times. Behind a discontinuity these go on from another frame: the first one
// there that was seen tells from which.
func (d *drawn) numbers(results []*frameResult) []int {
	numbers, shift, known, n := make([]int, len(results)), 0, true, len(d.truth)
	for i, r := range results {
		at := int(math.Round(r.Time * float64(d.rate)))
		known = known && !r.Discontinuity
		if !known && r.Dropped == "" {
			likest, _ := d.likest(r)
			shift, known = likest-at, true
		}
		numbers[i] = ((at+shift)%n + n) % n
	}
	return numbers
}

// check holds that each frame has one final result, and that the network saw that very frame or it says why not. It returns how many were
// seen, and why others were not.
func (s *streetServer) check(name string, all []frameResult) (seen int, dropped map[string]int) {
	s.Helper()
	dropped = map[string]int{}
	final := s.final(name, all)
	numbers := s.numbers(final)
	for i, r := range final {
		if r.Dropped != "" {
			dropped[r.Dropped]++
			continue
		}
		seen++
		if likest, f1 := s.likest(r); likest != numbers[i] {
			s.Errorf("%s: segment %d frame %d is frame %d of the clip, and what was found is that of frame %d (F1 %.2f): %+v", name, r.Segment, r.Frame, numbers[i], likest, f1, r.Boxes)
		}
	}
	return seen, dropped
}

// score holds that each frame has one final result, and says how good all of them are.
func (s *streetServer) score(name string, all []frameResult) (seen int, f1 float64, dropped map[string]int) {
	s.Helper()
	dropped = map[string]int{}
	truth, results := make([]videoext.Findings, len(s.truth)), make([]videoext.Findings, len(s.truth))
	final := s.final(name, all)
	for i, n := range s.numbers(final) {
		if final[i].Dropped != "" {
			dropped[final[i].Dropped]++
		} else {
			seen++
		}
		truth[n], results[n] = s.truth[n], final[i].findings()
	}
	return seen, streetRule.F1(truth, results), dropped
}

// finals is a condition of follow: so many frames have final results.
func finals(n int) func(all []frameResult) bool {
	return func(all []frameResult) bool {
		count := 0
		for _, r := range all {
			if r.Final {
				count++
			}
		}
		return count >= n
	}
}

// all holds that all frames of the clip were seen.
func (s *streetServer) all(name string) {
	s.Helper()
	if seen, dropped := s.check(name, s.follow(name, finals(len(s.truth)))); seen != len(s.truth) || len(dropped) > 0 {
		s.Errorf("%s: %d frames were seen, want %d, and others not: %v", name, seen, len(s.truth), dropped)
	}
}

// again holds that all frames were seen of a camera that streamed the clip after another one, and all that came before.
func (s *streetServer) again(name string, c *cameraProcess) {
	s.Helper()
	end := c.ends()
	begin := -1
	for _, e := range c.events() {
		if e.Event == "connected" && begin < 0 {
			begin = *e.Segment
		}
	}
	before := 0
	all := s.follow(name, func(all []frameResult) bool {
		n := len(all)
		return n > 0 && all[n-1].Final && all[n-1].Segment == begin+end.Segments-1 && all[n-1].Frame == all[n-1].Of-1
	})
	for _, r := range all {
		if r.Final && r.Segment < begin {
			before++
		}
	}
	if seen, dropped := s.check(name, all); begin < 1 || seen != before+len(s.truth) || len(dropped) > 0 {
		s.Errorf("%s: %d frames were seen, want %d, and before segment %d %d, and others not: %v", name, seen, len(s.truth), begin, before, dropped)
	}
}

// cameraProcess is a camera that streams.
type cameraProcess struct {
	testing.TB
	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	says bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (c *cameraProcess) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.says.Write(p)
}

// text is what it has said.
func (c *cameraProcess) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.says.String()
}

// cameraEvent is a line of a camera.
type cameraEvent struct {
	Event, Error                              string
	Segment                                   *int
	Segments, Done, Sessions, Frames, Dropped int
	LowBytes                                  int                `json:"bytes_a"`
	HighBytes                                 int                `json:"bytes_b"`
	Processor                                 map[string]float64 `json:"processor"` // seconds, by what it did
}

func (c *cameraProcess) events() (all []cameraEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for line := range strings.Lines(c.says.String()) {
		var e cameraEvent
		if json.Unmarshal([]byte(line), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

// film starts a camera with the clip.
func (s *streetServer) film(server, name string, args ...string) *cameraProcess {
	s.Helper()
	c := &cameraProcess{TB: s, done: make(chan struct{})}
	c.cmd = exec.Command(s.camera, append([]string{"run", "--json", "--server", server, "--stream", name, "--source", s.clip, "--rate", "0"}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = c, c
	if err := c.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { // ends with the camera
		_ = c.cmd.Wait()
		close(c.done)
	}()
	s.Cleanup(func() {
		c.signal(syscall.SIGKILL)
		<-c.done
		if s.Failed() {
			s.Logf("camera of %s:\n%s", name, c.says.String())
		}
	})
	return c
}

func (c *cameraProcess) signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) } // it may have ended

// ends waits until the camera ends well, and returns what it did.
func (c *cameraProcess) ends() cameraEvent {
	c.Helper()
	select {
	case <-c.done:
	case <-time.After(2 * time.Minute):
		c.Fatal("the camera still runs after 2 minutes")
	}
	all := c.events()
	if code := c.cmd.ProcessState.ExitCode(); code != 0 || len(all) == 0 || all[len(all)-1].Event != "end" {
		c.Fatalf("the camera ends with code %d", code)
	}
	return all[len(all)-1]
}
