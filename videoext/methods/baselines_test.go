package methods

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

var operatingPoints = []OperatingPoint{
	{Quality: videoext.Quality{QP: 44, Scale: 0.5}, Skip: 4, Rate: 5e3, Accuracy: 0.4},
	{Quality: videoext.Quality{QP: 36, Scale: 0.8}, Skip: 1, Rate: 20e3, Accuracy: 0.7},
	{Quality: videoext.Quality{QP: 44, Scale: 1}, Rate: 25e3, Accuracy: 0.6}, // worse than the one before
	{Quality: videoext.Quality{QP: 24, Scale: 1}, Rate: 90e3, Accuracy: 1},
}

func TestPareto(t *testing.T) {
	front := Pareto(operatingPoints)
	if len(front) != 3 || slices.Contains(front, operatingPoints[2]) {
		t.Errorf("front %v", front)
	}
	for rate, want := range map[float64]int{1: 0, 5e3: 0, 19e3: 0, 20e3: 1, 89e3: 1, 1e9: 2} {
		if got := lastWithinRate(front, rate); got != want {
			t.Errorf("at %g bytes a second it takes configuration %d, not %d", rate, got, want)
		}
	}
}

// The phases are those of figure 8 of the paper.
func TestAWStreamFollowsTheLink(t *testing.T) {
	c := DefaultAWStream(Pareto(operatingPoints))
	a := &awstreamCamera{c: c}
	step := func(bandwidth float64, backlog, level int, p phase) {
		t.Helper()
		a.up.Link = method.Link{Bandwidth: bandwidth, Backlog: backlog}
		a.adaptToLink()
		if a.level != level || a.phase != p {
			t.Fatalf("level %d in phase %d, not %d in %d", a.level, a.phase, level, p)
		}
	}
	step(0, 0, 1, startup)
	step(0, 0, 2, steady)
	step(30e3, 40e3, 1, degrade)
	step(30e3, 40e3, 0, degrade) // it goes on falling
	step(30e3, 10e3, 0, degrade) // until the queue is empty
	step(30e3, 0, 0, steady)
	step(30e3, 0, 0, steady)
	step(30e3, 0, 0, steady)
	step(30e3, 0, 1, probe)
	step(30e3, 20e3, 0, degrade) // the probe did not get through
	step(30e3, 0, 0, steady)
	for range 3 {
		step(30e3, 0, min(0+a.count/2, 1), phase(2+a.count/2))
	}
}

func TestKeptFrames(t *testing.T) {
	differences := []float64{math.Inf(1), 0.1, 0.1, 0.3, 0, 0.05, 0.2}
	if got := keptFrames(differences, 0.15); !slices.Equal(got, []int{0, 2, 3, 6}) {
		t.Errorf("frames %v", got)
	}
	if got := keptFrames(differences, 10); !slices.Equal(got, []int{0}) {
		t.Errorf("frames %v", got)
	}
}

func TestThresholdOfSimilarSegments(t *testing.T) {
	still, moving := []float64{1, 0.01, 0.02, 0.01}, []float64{1, 0.6, 0.7, 0.65}
	p := FilterProfile{Target: 0.9, Longest: 1}
	p.Learn(still, []float64{0.1, 0.5}, func([]int) float64 { return 1 })
	p.Learn(moving, []float64{0.1, 0.5}, func(frames []int) float64 { return float64(len(frames)) / 4 })
	if got := p.weightedThreshold(still); math.Abs(got-0.5) > 1e-6 {
		t.Errorf("of still frames %g", got)
	}
	if got := p.weightedThreshold(moving); math.Abs(got-0.5) > 1e-6 {
		t.Errorf("of moving frames, all of which differ by more than 0.5: %g", got)
	}
	p.Target = 1.1
	p.Examples = p.Examples[:1]
	p.Learn(moving, []float64{0.1, 0.5}, func(frames []int) float64 { return 1 })
	if got := p.weightedThreshold(moving); got > 1e-6 {
		t.Errorf("where no threshold is good enough %g", got)
	}
}

// Glimpse sends what changes, and tracks through the rest what the server saw.
func TestGlimpseFollowsOnTheCamera(t *testing.T) {
	c := DefaultGlimpse()
	c.Frames = 4
	camera, _ := c.New().New()
	car := videoext.Detection{Region: videoext.Region{X0: 0.1, Y0: 0.1, X1: 0.2, Y1: 0.2}, Score: 0.9}
	moved := car
	moved.X0, moved.X1 = 0.2, 0.3
	say := func(event method.CameraEvent) []method.CameraAction { return camera.Step(time.Second, event) }
	first := say(method.Captured{Segment: 0, Frames: 4, Width: 320, Height: 240})
	if m, ok := first[0].(method.Measure); !ok || *m.Since != (method.Frame{}) {
		t.Fatalf("it does %+v", first)
	}
	sent := say(method.Measured{Segment: 0, Values: []float64{0, 0, 0.01, 0.02}})
	if e, ok := sent[0].(method.Encode); !ok || !slices.Equal(e.Frames, []int{0}) {
		t.Fatalf("it does %+v", sent)
	}
	track := say(method.Answer{Segment: 0, Content: method.Seen{Frames: []int{0}, Detections: [][]videoext.Detection{{car}}}})
	if tr, ok := track[0].(method.Track); !ok || !slices.Equal(tr.Frames, []int{1, 2, 3}) || tr.Detections[0] != car {
		t.Fatalf("it does %+v", track)
	}
	done := say(method.Tracked{Segment: 0, Frames: []int{1, 2, 3}, Detections: [][]videoext.Detection{{car}, {car}, {moved}}})
	if r, ok := done[0].(method.Results); !ok || r.Frames[3].Detections[0] != moved || len(done) != 1 {
		t.Fatalf("it does %+v", done)
	}
	next := say(method.Captured{Segment: 1, Frames: 4, Width: 320, Height: 240})
	if m, ok := next[0].(method.Measure); !ok || *m.Since != (method.Frame{}) {
		t.Fatalf("it compares with another frame than the last one that was sent: %+v", next)
	}
	still := say(method.Measured{Segment: 1, Values: []float64{0, 0, 0, 0}})
	if _, ok := still[0].(method.Skip); !ok {
		t.Fatalf("it does %+v", still)
	}
	if tr, ok := still[1].(method.Track); !ok || tr.Detections[0] != moved || tr.From != (method.Frame{Segment: 0, Frame: 3}) {
		t.Fatalf("it does not track from where it was: %+v", still)
	}
}

// AccMPEG has one map for a segment, by what is in its first and last frames together.
func TestAccMPEGMap(t *testing.T) {
	c := DefaultAccMPEG()
	c.Score, c.Classes = 0.3, []int{2}
	camera, _ := c.New().New()
	asked := camera.Step(0, method.Captured{Segment: 0, Frames: 10, Width: 64, Height: 32})
	if d, ok := asked[0].(method.Detect); !ok || !slices.Equal(d.Frames, []int{0, 9}) {
		t.Fatalf("it does %+v", asked)
	}
	at := func(column float32, class int, score float32) videoext.Detection {
		return videoext.Detection{Region: videoext.Region{X0: column / 4, Y0: 0, X1: (column + 1) / 4, Y1: 0.5}, Class: class, Score: score}
	}
	sent := camera.Step(0, method.Found{Segment: 0, Frames: []int{0, 9}, Findings: []videoext.Findings{
		{Detections: []videoext.Detection{at(0, 2, 0.8), at(1, 2, 0.4), at(2, 2, 0.5), at(3, 1, 0.9)}}, {Detections: []videoext.Detection{at(1, 2, 0.3)}},
	}})
	e, ok := sent[0].(method.Encode)
	if !ok || len(e.Frames) != 10 {
		t.Fatalf("it does %+v", sent)
	}
	want := []uint8{30, 30, 40, 40, 40, 40, 40, 40}
	if got := e.Settings.Quality.(media.Maps); len(got) != 1 || !slices.Equal(got[0].QP, want) {
		t.Errorf("the map is %v, want %v", got[0].QP, want)
	}
}
