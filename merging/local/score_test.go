package local

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/videoext"
)

// thing is a detection at a place.
func thing(x float32) videoext.Detection {
	return videoext.Detection{Region: videoext.Region{X0: x, Y0: 0, X1: x + 0.1, Y1: 0.1}, Score: 0.9}
}

// TestScoreAndItsInterval: of 200 frames of an object each, every fifth is missed. Its interval is that of a share of 20 blocks which all miss two of ten,
// so none, and wide where one block in five misses all.
func TestScoreAndItsInterval(t *testing.T) {
	even, uneven := make([]videoext.Findings, 200), make([]videoext.Findings, 200)
	truth := make([]videoext.Findings, 200)
	for i := range truth {
		truth[i].Detections = []videoext.Detection{thing(0.1)}
		if i%5 > 0 {
			even[i].Detections = truth[i].Detections
		}
		if i/10%5 > 0 {
			uneven[i].Detections = truth[i].Detections
		}
	}
	want := 2 * 160. / (2*160 + 40)
	for name, found := range map[string][]videoext.Findings{"even": even, "uneven": uneven} {
		s := scoreFindings(truth, found, 1)
		if math.Abs(s.Value-want) > 1e-9 || s.Frames != 200 || s.Objects != 200 {
			t.Errorf("%s: got %+v, want %v of 200", name, s, want)
		}
		if wide := s.High - s.Low; name == "even" && wide > 1e-9 || name == "uneven" && (wide < 0.1 || wide > 0.3) {
			t.Errorf("%s: the interval is %v to %v", name, s.Low, s.High)
		}
		if again := scoreFindings(truth, found, 1); again != s {
			t.Errorf("%s: got %+v by the same seed, want %+v", name, again, s)
		}
	}
	if s := scoreFindings(truth, truth, 1); s != (merging.Score{Value: 1, Low: 1, High: 1, Frames: 200, Objects: 200}) {
		t.Errorf("the truth has %+v", s)
	}
}
