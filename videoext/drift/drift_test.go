package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
)

// feed draws how two networks agree about frames.
type feed struct {
	name    string
	objects func(r *rand.Rand) int  // that the original finds in a frame
	f1      func(frame int) float64 // that is to come out, over many frames
	clumped bool                    // all objects of a frame are found, or none is
	blind   bool                    // nothing is found that is not there
}

// draw is a frame in which objects are missed as often as things are found that the original does not find, so that F1 is what was asked for; blind: in which they are
// missed alone, so that it is recall.
func (f *feed) draw(r *rand.Rand, frame int) (a Agreement) {
	right := f.f1(frame)
	all := r.Float64() < right
	for range f.objects(r) {
		if hit := r.Float64() < right; f.clumped && all || !f.clumped && hit {
			a.Agreeing, a.Findings = a.Agreeing+2, a.Findings+2
		} else {
			a.Findings += 2 // one that is missed, and one elsewhere
			if f.blind {
				a.Findings--
			}
		}
	}
	return a
}

func constant(f1 float64) func(int) float64 { return func(int) float64 { return f1 } }

func poisson(mean float64) func(r *rand.Rand) int {
	return func(r *rand.Rand) (n int) {
		for p := r.Float64(); p > math.Exp(-mean); p *= r.Float64() {
			n++
		}
		return n
	}
}

// run compares so many frames, and says after how many of them that tell something the network is reverted; 0: it is not.
func run(f *feed, target float64, seed uint64, frames int) (reverted uint64) {
	g, r := New(Config{Sample: 1, Rate: 1, Target: target}, seed), rand.New(rand.NewPCG(seed, 1))
	for i := range frames {
		now := time.Duration(i) * time.Second
		if len(g.Step(now, Looked{})) != 1 {
			panic("a frame is not compared")
		}
		for _, a := range g.Step(now, Compared{f.draw(r, i)}) {
			return a.(Revert).Telling
		}
	}
	return 0
}

// TestByDayNothingIsReverted in 10,000 samples, of networks that are as good as their target, and no better, whatever is in their frames: of 50
// runs of each feed the bound allows 0.05 in the mean.
func TestByDayNothingIsReverted(t *testing.T) {
	for _, target := range []float64{.95, .9, .8} {
		for _, f := range []feed{
			{name: "a person now and then", objects: poisson(.8), f1: constant(target)},
			{name: "a person", objects: func(*rand.Rand) int { return 1 }, f1: constant(target + .01)},
			{name: "a street", objects: poisson(6), f1: constant(target)},
			{name: "a crowd", objects: poisson(15), f1: constant(target), clumped: true},
			{name: "clumps", objects: poisson(4), f1: constant(target), clumped: true},
			{name: "empty", objects: func(*rand.Rand) int { return 0 }, f1: constant(0)},
		} {
			wrong := 0
			for seed := range uint64(50) {
				if run(&f, target, seed, 10_000) > 0 {
					wrong++
				}
			}
			if wrong > 1 {
				t.Errorf("target %v, %s: %d of 50 runs are reverted", target, f.name, wrong)
			}
		}
	}
}

// TestDriftIsReverted within few samples that tell something, in each of 200 runs: F1 as light_person's falls to at half the brightness where it was trained without, and other
// falls; also one that comes after a thousand good samples.
func TestDriftIsReverted(t *testing.T) {
	const target = .95
	after := func(frames int, f1 float64) func(int) float64 {
		return func(frame int) float64 {
			if frame < frames {
				return .97
			}
			return f1
		}
	}
	for _, c := range []struct {
		feed
		good uint64 // samples before the fall
		most uint64
	}{
		{feed{name: "half the brightness", objects: poisson(.8), f1: constant(.27)}, 0, 35},
		{feed{name: "half the brightness, blind", objects: poisson(.8), f1: constant(.27 / (2 - .27)), blind: true}, 0, 35},
		{feed{name: "half the brightness, clumped", objects: poisson(2), f1: constant(.27), clumped: true}, 0, 35},
		{feed{name: "mirrored", objects: poisson(.8), f1: constant(.32)}, 0, 35},
		{feed{name: "noise", objects: poisson(2), f1: constant(.78)}, 0, 110},
		{feed{name: "all is missed", objects: poisson(3), f1: constant(0), blind: true}, 0, 20},
		{feed{name: "a street", objects: poisson(6), f1: constant(.85)}, 0, 110},
		{feed{name: "dusk", objects: func(*rand.Rand) int { return 1 }, f1: after(1000, .27)}, 1000, 35},
	} {
		slowest := uint64(0)
		for seed := range uint64(200) {
			n := run(&c.feed, target, seed, int(c.good)+10*200)
			if n <= c.good {
				t.Fatalf("%s, seed %d: reverted after %d samples, want more than %d", c.name, seed, n, c.good)
			}
			slowest = max(slowest, n-c.good)
		}
		if t.Logf("%s: reverted after %d samples at most", c.name, slowest); slowest > c.most {
			t.Errorf("%s: reverted after %d samples, want %d at most", c.name, slowest, c.most)
		}
	}
}

// TestFramesAreChosen: the part that is asked for, one at a time, no more than so many a second, and none after the end.
func TestFramesAreChosen(t *testing.T) {
	for _, c := range []struct {
		sample, rate float64
		least, most  int
	}{{.1, 1000, 850, 1150}, {1, 2, 580, 601}, {0, 1, 0, 0}} {
		g, n := New(Config{c.sample, c.rate, .9}, 3), 0
		for i := range 10_000 {
			now := time.Duration(i) * 30 * time.Millisecond
			n += len(g.Step(now, Looked{}))
			g.Step(now, Lost{})
		}
		if n < c.least || n > c.most {
			t.Errorf("%+v: %d frames are chosen", c, n)
		}
	}
	g := New(Config{1, 1000, .9}, 3)
	if len(g.Step(0, Looked{})) != 1 || len(g.Step(time.Second, Looked{})) != 0 {
		t.Error("a frame is chosen while another one is compared")
	}
	reverts := 0
	for i := range 1000 {
		g.Step(time.Duration(i+2)*time.Second, Looked{})
		reverts += len(g.Step(time.Duration(i+2)*time.Second, Compared{Agreement{0, 2}}))
	}
	if f := g.Figures(); reverts != 1 || f.Score != 0 || f.Evidence != 1 || len(g.Step(time.Hour, Looked{})) != 0 {
		t.Errorf("%d reverts, %+v", reverts, f)
	}
}

// TestFigures: empty frames are samples that tell nothing, and the score is that of the last ones.
func TestFigures(t *testing.T) {
	g := New(Config{1, 1, .5}, 0)
	if f := g.Figures(); f != (Figures{Score: 1}) {
		t.Errorf("%+v", f)
	}
	for i := range 3 * Window {
		a := Agreement{2, 2}
		switch {
		case i%3 == 0:
			a = Agreement{}
		case i >= 3*Window/2 && i%3 == 1:
			a = Agreement{0, 1}
		}
		g.Step(0, Compared{a})
	}
	if f := g.Figures(); f.Samples != 3*Window || f.Telling != 2*Window || math.Abs(f.Score-2./3) > 1e-9 {
		t.Errorf("%+v", f)
	}
}

// TestAgree: F1 of boxes by class and place, whatever their scores, and the pixels of masks.
func TestAgree(t *testing.T) {
	at := func(x float32, class int) videoext.Detection {
		return videoext.Detection{Region: videoext.Region{X0: x, Y0: 0, X1: x + .1, Y1: .1}, Class: class, Score: .4}
	}
	boxes := func(list ...videoext.Detection) *videoext.Findings { return &videoext.Findings{Detections: list} }
	mask := func(classes ...uint8) *videoext.Findings {
		return &videoext.Findings{Mask: &videoext.Mask{Width: len(classes), Height: 1, Class: classes}}
	}
	for i, c := range []struct {
		original, changed *videoext.Findings
		want              Agreement
	}{
		{boxes(), boxes(), Agreement{}},
		{boxes(at(0, 1)), boxes(at(.02, 1)), Agreement{2, 2}},
		{boxes(at(0, 1)), boxes(at(.08, 1)), Agreement{0, 2}},
		{boxes(at(0, 1)), boxes(at(0, 2)), Agreement{0, 2}},
		{boxes(at(0, 1), at(.5, 1)), boxes(at(0, 1)), Agreement{2, 3}},
		{boxes(), boxes(at(0, 1)), Agreement{0, 1}},
		{mask(0, 0, 1, 1), mask(0, 0, 1, 1), Agreement{mostFindings, mostFindings}},
		{mask(0, 0, 1, 1), mask(0, 0, 0, 0), Agreement{mostFindings / 2., mostFindings}},
		{mask(0, 0, 1, 1), mask(0, 1), Agreement{mostFindings, mostFindings}},
		{mask(0, 1, 1, 1), boxes(), Agreement{mostFindings / 4., mostFindings}},
	} {
		if got := Agree(c.original, c.changed); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}
