package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/video"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/live"
)

// segments are those that are kept of a stream.
func (p *program) segments(name string) []live.Segment {
	p.Helper()
	response, err := http.Get(p.base + "/v1/video/streams/" + name + "/segments")
	if err != nil {
		p.Fatal(err)
	}
	var list struct{ Data []live.Segment }
	if text := readAll(p, response); json.Unmarshal([]byte(text), &list) != nil || response.StatusCode != http.StatusOK {
		p.Fatalf("%d %s", response.StatusCode, text)
	}
	return list.Data
}

// blankEyes are networks of pictures whose gradients are none, by what becomes of these: all zeros; no numbers; refused, since an operation has none.
func blankEyes(t *testing.T) (models string) {
	t.Helper()
	const still = "still"
	for name, blank := range map[string]struct {
		opset int
		nodes []onnxtest.Node // that make "mean" of "seen"
	}{
		"zero": {17, []onnxtest.Node{{Op: "Mul", In: []string{"seen", "naught"}, Out: []string{still}}, {Op: "Add", In: []string{still, "grey"}, Out: []string{"mean"}}}},
		// The slope of a root at 0 is infinite, and times 0 no number.
		"nan": {17, []onnxtest.Node{
			{Op: "Mul", In: []string{"seen", "naught"}, Out: []string{still}}, {Op: "Sqrt", In: []string{still}, Out: []string{"root"}}, {Op: "Add", In: []string{"seen", "root"}, Out: []string{"mean"}},
		}},
		"refused": {23, []onnxtest.Node{
			{Op: "RMSNormalization", In: []string{"seen", "one"}, Out: []string{"normal"}}, {Op: "Mul", In: []string{"normal", "naught"}, Out: []string{still}},
			{Op: "Add", In: []string{"seen", still}, Out: []string{"mean"}},
		}},
	} {
		g := onnxtest.Eye(1)
		g.Constants = append(g.Constants, onnxtest.Floats("naught", []int{1}, 0), onnxtest.Floats("one", []int{1}, 1), onnxtest.Floats("grey", []int{1, 3, 1, 1}, 0.55, 0.5, 0.5))
		g.Nodes[0].Out[0] = "seen"
		g.Nodes = slices.Insert(g.Nodes, 1, blank.nodes...)
		file := filepath.Join(t.TempDir(), "eye.onnx")
		if err := os.WriteFile(file, onnxtest.File(blank.opset, g), 0o600); err != nil {
			t.Fatal(err)
		}
		models += eyeEntry(name, file)
	}
	return models
}

// TestVideoBlankGradients: of a network whose gradients are zeros, no numbers or refused each frame of an adapting camera is seen, metrics tell what became of
// the gradients, and knobs do not move but for looks by the dearest settings.
func TestVideoBlankGradients(t *testing.T) {
	bin := buildCamera(t)
	p := serveEyes(t, blankEyes(t))
	for _, network := range []string{"zero", "nan", "refused"} {
		for _, method := range []string{"preset=repo,share=0.1", "preset=tuned", "preset=paper,start=cheapest"} {
			t.Run(network+" "+method, func(t *testing.T) {
				name := network + strings.NewReplacer("=", "-", ",", "-").Replace(method)
				p.mustDeclare(fmt.Sprintf(`{"name":%q,"model":%q,"source":"camera","method":"oneadapt:frames=3,%s"}`, name, network, method))
				camera := exec.CommandContext(t.Context(), filepath.Join(bin, "camera"), "run", "--server", p.base, "--stream", name, "--realtime=false", "--loop",
					"--source", "../../videoext/media/ffmpeg/testdata/drawn.mp4")
				if err := camera.Start(); err != nil {
					t.Fatal(err)
				}
				const frames = 90
				all := p.watch(name, frames)
				_ = camera.Process.Signal(os.Interrupt) // it runs
				_ = camera.Wait()                       // it was interrupted
				for i, r := range all {
					if r.Segment != i/3 || r.Frame != i%3 || !r.Final || r.Dropped != "" {
						t.Errorf("result %d is %+v", i, r)
					}
				}
				f, segments := p.figuresOf(name), p.segments(name)
				failed := 0.0
				if network != "zero" {
					failed = f["gradients_total"] - f["late_gradients_total"]
				}
				if f["gradients_total"] < 5 || f["failed_gradients_total"] != failed || (f["feedback_bytes_total"] > 0) != (network == "zero") {
					t.Errorf("%v", f)
				}
				if n := turns(segments); n > 8 || network != "zero" && n > 0 {
					t.Errorf("%d times quantisers change: %.1f", n, quantisers(segments))
				}
			})
		}
	}
}

// quantisers are the means of segments.
func quantisers(segments []live.Segment) (all []float64) {
	for _, s := range segments {
		all = append(all, s.Quantisers.Mean)
	}
	return all
}

// turns is how often quantisers go up or down by much from one segment to the next.
func turns(segments []live.Segment) (n int) {
	all := quantisers(segments)
	for i := range len(all) - 1 {
		if math.Abs(all[i+1]-all[i]) > 2 {
			n++
		}
	}
	return n
}

// Streams of the street adapt once a second. The street changes in the second halfStreet, and the link carries nothing from stopsAt on.
const (
	adaptRate  = 3 // frames a second, and of a segment
	halfStreet = 10
	allStreet  = 24
	stopsAt    = 4
	goesOnAt   = stopsAt + 10
	struckAt   = 10
	settledIn  = 5 // seconds
)

// TestVideoAdapts: settings from which streams begin, a scene that changes, a link that carries nothing for 10 s and an executor that dies in gradients harm a
// camera's settings for 5 s at most: from then on they are about as good as those of a stream that all was well with, and do not swing.
func TestVideoAdapts(t *testing.T) {
	const step = time.Second / adaptRate
	changes := drawStreet(t, adaptRate, video.Drawing{Seed: 1, Frames: halfStreet * adaptRate, Step: step}, video.Drawing{Seed: 2, Frames: (allStreet - halfStreet) * adaptRate, Step: step})
	same := drawStreet(t, adaptRate, video.Drawing{Seed: 2, Frames: allStreet * adaptRate, Step: step})
	for preset, most := range map[string]float64{"tuned": 1.8, "repo,share=0.1": 9} {
		t.Run(preset, func(t *testing.T) {
			s := same.serve(t)
			changing := *s
			changing.drawn = changes
			method := fmt.Sprintf("oneadapt:frames=%d,preset=%s", adaptRate, preset)
			calm := s.adapts("calm", method)
			all := []*adapting{calm, s.adapts("link", method, "--bandwidth", fmt.Sprintf("0s:8Mbit,%ds:0,%ds:8Mbit", stopsAt, goesOnAt)), changing.adapts("cut", method)}
			from := []int{0, goesOnAt, halfStreet}
			for i, a := range all {
				a.ends()
				a.good(calm, most, from[i]+settledIn, allStreet)
			}
		})
	}
	t.Run("executor", func(t *testing.T) {
		s := same.serve(t)
		a := s.adapts("struck", fmt.Sprintf("oneadapt:frames=%d,preset=tuned,start=cheapest", adaptRate))
		for n := range 3 {
			s.follow("struck", finals((struckAt+2*n)*adaptRate)) // a gradient of the last of them is asked for
			s.strike("executor", syscall.SIGKILL)
		}
		last := s.segments("struck")
		a.ends()
		a.good(nil, 1.8, settledIn, struckAt)
		a.good(nil, 1.8, int(last[len(last)-1].Number)+settledIn, allStreet)
	})
}

// adapting is a stream that adapts.
type adapting struct {
	*streetServer
	*cameraProcess
	name string
}

// adapts has a camera stream the clip by a method. A server that measured its first frames on a busy machine refuses cameras until others' frames have shown that they
// take less.
func (s *streetServer) adapts(name, method string, args ...string) *adapting {
	s.Helper()
	s.add(name, method)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		c := s.film(s.base, name, args...)
		if !c.refused() || time.Now().After(end) {
			return &adapting{s, c, name}
		}
	}
}

// refused waits until a camera's session has begun, or its process has ended because the streams of a server take all that they may.
func (c *cameraProcess) refused() bool {
	for ; ; time.Sleep(10 * time.Millisecond) {
		if c.said(`"connected"`) {
			return false
		}
		select {
		case <-c.done:
			return c.said("that streams may take of")
		default:
		}
	}
}

func (c *cameraProcess) said(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.says.String(), text)
}

// good holds that each frame has one final result, and that what was sent of some seconds was good by itself, and by what was sent of another stream, if there is one. Their
// quantisers swing by so much at most: with two of them, which are 12 apart, all that changes swings by that.
func (a *adapting) good(than *adapting, most float64, from, end int) {
	t := a.t
	t.Helper()
	bytes, f1, segments := a.between(from, end)
	figures := a.figuresOf(a.name)
	t.Logf("%s: from segment %d on %d bytes, F1 %.3f; quantisers of all %.1f; swing %.2f, gradients %v, late %v, failed %v, frames dropped %v", a.name, from, bytes, f1, quantisers(a.segments(a.name)), swing(segments),
		figures["gradients_total"], figures["late_gradients_total"], figures["failed_gradients_total"], figures["dropped_frames_total"])
	const dear = 20_000 // bytes of a segment; the dearest take 25,000 to 32,000
	if len(segments) == 0 || bytes > dear*len(segments) || f1 < 0.85 {
		t.Errorf("%s: %d segments from %d on have %d bytes and an F1 of %.3f", a.name, len(segments), from, bytes, f1)
	}
	if n, looks, by := turns(segments), (len(segments)+settledIn-1)/settledIn, swing(segments); n > 2*looks || by > most {
		t.Errorf("%s: quantisers go up and down %d times, by %.2f: %.1f", a.name, n, by, quantisers(segments))
	}
	if than == nil {
		return
	}
	others, like, _ := than.between(from, end)
	if float64(bytes) > 1.5*float64(others) || f1 < like-0.1 {
		t.Errorf("%s: from segment %d on it has %d bytes and an F1 of %.3f, and %s %d and %.3f", a.name, from, bytes, f1, than.name, others, like)
	}
}

// between is what segments from one to before another took, and how good what was found in them is.
func (a *adapting) between(from, end int) (bytes int, f1 float64, segments []live.Segment) {
	a.t.Helper()
	for _, s := range a.segments(a.name) {
		if n := int(s.Number); n >= from && n < end {
			segments = append(segments, s)
			bytes += s.Bytes
		}
	}
	var truth, found []videoext.Findings
	final := a.final(a.name, a.follow(a.name, finals(len(a.truth))))
	for i, n := range a.numbers(final) {
		if r := final[i]; r.Segment >= from && r.Segment < end {
			truth, found = append(truth, a.truth[n]), append(found, r.findings())
		}
	}
	return bytes, streetRule.F1(truth, found), segments
}

// swing is by how much quantisers go up or down from one segment to the next, in the mean over cells of the frame that are not the coarsest in both.
func swing(segments []live.Segment) float64 {
	sum, n := 0.0, 0
	for i := range len(segments) - 1 {
		a, b := segments[i].Quantisers.Values, segments[i+1].Quantisers.Values
		coarsest := max(slices.Max(a), slices.Max(b))
		for k := range min(len(a), len(b)) {
			if a[k] < coarsest || b[k] < coarsest {
				sum += math.Abs(float64(a[k]) - float64(b[k]))
				n++
			}
		}
	}
	return sum / float64(max(n, 1))
}
