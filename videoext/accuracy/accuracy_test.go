package accuracy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/videoext"
)

// frames are random boxes on a coarse grid, so that many match.
func frames(r *rand.Rand, n int) []videoext.Findings {
	all := make([]videoext.Findings, n)
	for i := range all {
		for range r.IntN(5) {
			x, y := float32(r.IntN(8))/10, float32(r.IntN(8))/10
			w, h := float32(1+r.IntN(3))/10, float32(1+r.IntN(3))/10
			d := videoext.Detection{Region: videoext.Region{X0: x, Y0: y, X1: x + w, Y1: y + h}, Class: r.IntN(2), Score: r.Float32()}
			all[i].Detections = append(all[i].Detections, d)
		}
	}
	return all
}

// overlap is IoU in units of hundredths, counted by places.
func overlap(a, b videoext.Region) float64 {
	inside := func(r videoext.Region, x, y float32) bool { return x > r.X0 && x < r.X1 && y > r.Y0 && y < r.Y1 }
	both, either := 0, 0
	for i := range 20 {
		for j := range 20 {
			x, y := (float32(i)+0.5)/20, (float32(j)+0.5)/20
			p, q := inside(a, x, y), inside(b, x, y)
			if p && q {
				both++
			}
			if p || q {
				either++
			}
		}
	}
	return float64(both) / float64(either)
}

// dumb is F1 by the words of the rule.
func dumb(r Rule, truth, found []videoext.Findings) float64 {
	counts := func(d videoext.Detection, score float32) bool {
		class := r.Classes == nil
		for _, c := range r.Classes {
			class = class || c == d.Class
		}
		return class && d.Score >= score && float64(d.Area()) <= float64(r.Area)+1e-6
	}
	var right, wrong, missed, sum float64
	for i := range truth {
		var tp, fp, fn, matchedTruth, n float64
		for _, f := range found[i].Detections {
			if !counts(f, r.Found) {
				continue
			}
			n++
			any := false
			for _, t := range truth[i].Detections {
				any = any || counts(t, r.Truth) && t.Class == f.Class && overlap(t.Region, f.Region) >= float64(r.IoU)-1e-6
			}
			if any {
				tp++
			} else {
				fp++
			}
		}
		for _, t := range truth[i].Detections {
			if !counts(t, r.Truth) {
				continue
			}
			any := false
			for _, f := range found[i].Detections {
				any = any || counts(f, r.Found) && t.Class == f.Class && overlap(t.Region, f.Region) >= float64(r.IoU)-1e-6
			}
			if any {
				matchedTruth++
			} else {
				fn++
			}
		}
		if r.PerFrame {
			tp, fp = matchedTruth, math.Max(n-matchedTruth, 0)
		}
		right, wrong, missed = right+tp, wrong+fp, missed+fn
		if tp+fp+fn == 0 {
			sum++
		} else {
			sum += 2 * tp / (2*tp + fp + fn)
		}
	}
	if r.PerFrame {
		return sum / float64(len(truth))
	}
	if right+wrong+missed == 0 {
		return 1
	}
	return 2 * right / (2*right + wrong + missed)
}

func TestF1AgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	between := 0
	for n := range 2000 {
		rule := []Rule{DDS(), OneAdapt(1), {Found: 0.5, Area: 0.035, IoU: 0.15}, {Found: 0.2, Area: 0.055, IoU: 0.45, PerFrame: true}}[n%4]
		rule.Area = max(rule.Area, 0.035) + 0.015 // between the areas that there are
		rule.IoU = rule.IoU + 0.003
		truth, found := frames(r, 1+r.IntN(4)), []videoext.Findings(nil)
		found = frames(r, len(truth))
		for i := range found {
			if r.IntN(2) == 0 {
				found[i].Detections = append(found[i].Detections, truth[i].Detections...)
			}
		}
		got, want := rule.F1(truth, found), dumb(rule, truth, found)
		if math.Abs(got-want) > 1e-9 {
			t.Fatalf("case %d, %+v: %v, want %v\n%+v\n%+v", n, rule, got, want, truth, found)
		}
		if want > 0 && want < 1 {
			between++
		}
	}
	if between < 500 {
		t.Errorf("only %d cases are between 0 and 1", between)
	}
}

// TestF1OfItself holds the ends: what is the truth has 1, and nothing at all has 0.
func TestF1OfItself(t *testing.T) {
	truth := []videoext.Findings{{Detections: []videoext.Detection{{Region: videoext.Region{X1: 0.1, Y1: 0.1}, Score: 0.9}}}}
	none := make([]videoext.Findings, 1)
	for _, r := range []Rule{DDS(), OneAdapt()} {
		if a, b, c, d := r.F1(truth, truth), r.F1(truth, none), r.F1(none, truth), r.F1(none, none); a != 1 || b != 0 || c != 0 || d != 1 {
			t.Errorf("%+v: %v %v %v %v", r, a, b, c, d)
		}
	}
}

func TestMeanIoU(t *testing.T) {
	mask := func(w, h int, class ...uint8) []videoext.Findings {
		return []videoext.Findings{{Mask: &videoext.Mask{Width: w, Height: h, Class: class}}}
	}
	truth := mask(4, 1, 0, 0, 1, 2)
	for _, c := range []struct {
		found []videoext.Findings
		want  float64
	}{
		{truth, 1},
		{mask(4, 1, 0, 1, 1, 2), (0.5 + 0.5 + 1) / 3},
		{mask(2, 1, 0, 1), (1 + 0.5 + 0) / 3},   // each of its pixels is two
		{make([]videoext.Findings, 1), 0.5 / 3}, // 2 of 4 are of the first class
		{mask(4, 1, 3, 3, 3, 3), 0},
	} {
		if got := MeanIoU(truth, c.found); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v, want %v", c.found[0].Mask, got, c.want)
		}
	}
	if got := MeanIoU(nil, nil); got != 1 {
		t.Errorf("of nothing: %v", got)
	}
	var a, both Overlaps
	a.Count(truth[0].Mask, mask(4, 1, 0, 1, 1, 3)[0].Mask)
	both.Add(&a)
	both.Add(&a)
	for share, want := range map[float64]float64{0: (0.5 + 0.5 + 0 + 0) / 4, 0.2: (0.5 + 0.5 + 0) / 3, 0.3: 0.5, 0.6: 1} {
		if got := both.MeanIoU(share); math.Abs(got-want) > 1e-9 {
			t.Errorf("of classes that have %v of the truth: %v, want %v", share, got, want)
		}
	}
}

// TestObjects holds that what does not count for a rule is no object.
func TestObjects(t *testing.T) {
	box := func(side, score float32) videoext.Detection {
		return videoext.Detection{Region: videoext.Region{X1: side, Y1: side}, Score: score}
	}
	truth := []videoext.Findings{{Detections: []videoext.Detection{box(0.1, 0.4), box(0.1, 0.2), box(0.5, 0.9)}}, {}, {Detections: []videoext.Detection{box(0.19, 0.3), box(0.1, 0.9)}}}
	if got := DDS().Objects(truth); got != 1 {
		t.Errorf("%v objects a frame", got)
	}
	if got := DDS().Objects(nil); got != 0 {
		t.Errorf("%v objects of no frames", got)
	}
}

func TestBoxIoU(t *testing.T) {
	box := func(x0, x1, score float32, class int) videoext.Detection {
		return videoext.Detection{Region: videoext.Region{X0: x0, X1: x1, Y1: 1}, Score: score, Class: class}
	}
	frame := func(boxes ...videoext.Detection) videoext.Findings { return videoext.Findings{Detections: boxes} }
	for name, c := range map[string]struct {
		truth, found []videoext.Findings
		want         float64
	}{
		"no frames":                  {nil, nil, 1},
		"nothing, and nothing found": {[]videoext.Findings{frame()}, []videoext.Findings{frame(box(0, 1, 0.4, 0))}, 1},
		"missed":                     {[]videoext.Findings{frame(box(0, 1, 0.9, 0))}, []videoext.Findings{frame()}, 0},
		"half of it":                 {[]videoext.Findings{frame(box(0, 1, 0.9, 0))}, []videoext.Findings{frame(box(0, 0.5, 0.9, 0))}, 0.5},
		"of another class":           {[]videoext.Findings{frame(box(0, 1, 0.9, 0))}, []videoext.Findings{frame(box(0, 1, 0.9, 1))}, 0},
		"one right, one wrong":       {[]videoext.Findings{frame(box(0, 0.5, 0.9, 0))}, []videoext.Findings{frame(box(0, 0.5, 0.9, 0), box(0.5, 1, 0.9, 0))}, 0.5},
		"each once, the best first":  {[]videoext.Findings{frame(box(0, 0.4, 0.9, 0), box(0, 0.5, 0.9, 0))}, []videoext.Findings{frame(box(0, 0.5, 0.9, 0))}, 0.5},
		"the mean over frames":       {[]videoext.Findings{frame(), frame(box(0, 1, 0.9, 0))}, []videoext.Findings{frame(), frame()}, 0.5},
	} {
		if got := BoxIoU(c.truth, c.found, 0.5); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
