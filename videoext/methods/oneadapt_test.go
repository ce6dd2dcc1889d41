package methods

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// forEachPreset calls f with every kind of knobs by every preset.
func forEachPreset(t *testing.T, f func(t *testing.T, s OneAdaptSettings)) {
	for _, knobs := range []string{"blocks", "codec", "filter"} {
		for _, preset := range []string{"paper", "repo", "tuned"} {
			t.Run(knobs+" "+preset, func(t *testing.T) {
				s := UsualOneAdapt()
				s.Knobs, s.Preset = knobs, preset
				f(t, s)
			})
		}
	}
}

// TestFollowsTheGradient: settings become finer where the gradient says that the network looks, and coarser elsewhere.
func TestFollowsTheGradient(t *testing.T) {
	s := UsualOneAdapt()
	s.Preset, s.Share = "repo", 0.25
	c, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	camera, _ := c.New().New()
	captured := func(n int) method.Captured {
		return method.Captured{Segment: method.Segment(n), Frames: 10, Width: 64, Height: 64}
	}
	if do := camera.Step(0, captured(0)); qp(t, do[0], 5) != 24 {
		t.Errorf("the first segment is %+v", do)
	}
	m := oneadapt.NewMap(4, 4)
	m.Utility = 2
	camera.Step(0, method.Answer{Content: method.Sensitive{Gradient: m}})
	do := camera.Step(0, captured(1))
	try, ok := do[0].(method.Try)
	if !ok || len(try.Variants) != 1 || try.Gradient != m || !try.Parts {
		t.Fatalf("it does %+v", do)
	}
	changes := make([]float64, 16)
	for i := range changes {
		changes[i] = float64(i)
	}
	do = camera.Step(0, method.Tried{Segment: 1, Against: method.Trial{Bytes: 9000, Changes: make([]float64, 16)}, Trials: []method.Trial{{Bytes: 3000, Changes: changes}}})
	for i := range changes {
		want := uint8(36)
		if i >= 12 {
			want = 24
		}
		if got := qp(t, do[0], i); got != want {
			t.Errorf("macroblock %d has QP %d, want %d", i, got, want)
		}
	}
}

// TestEvery: a gradient is asked for as often as is said, and not while one is under way.
func TestGradientEvery(t *testing.T) {
	s := UsualOneAdapt()
	s.Every = 2
	c, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	_, server := c.New().New()
	var asked []method.Segment
	for n := method.Segment(3); n < 12; n++ {
		server.Step(0, method.Arrived{Segment: n, Frames: []int{0}, Of: 1})
		for _, do := range server.Step(0, method.Inferred{Segment: n, Frames: []int{0}, Findings: make([]videoext.Findings, 1)}) {
			if d, ok := do.(method.ComputeGradient); ok {
				asked = append(asked, d.Segment)
			}
		}
		if n != 5 && n != 6 && n != 7 {
			server.Step(0, method.GradientComputed{Segment: asked[len(asked)-1]})
		}
	}
	if want := []method.Segment{3, 5, 9, 11}; !slices.Equal(asked, want) {
		t.Errorf("gradients of %v are asked for, want %v", asked, want)
	}
}

// qp is the quantiser of a macroblock.
func qp(t *testing.T, action method.CameraAction, block int) uint8 {
	t.Helper()
	e, ok := action.(method.Encode)
	if !ok {
		t.Fatalf("it does %+v", action)
	}
	return e.Settings.Quality.(media.Maps)[0].QP[block]
}

// TestFilter: the higher the bias, the fewer frames; the first is always there.
func TestFilterKnobs(t *testing.T) {
	k := FilterKnobs{Biases: []float64{3, 0, -3}}
	s := &Segment{Captured: method.Captured{Frames: 6}, Measured: [][]float64{{9, 1, 5, 1, 1, 1}, {9, 1, 1, 1, 5, 1}}}
	for _, test := range []struct {
		config oneadapt.Config
		want   []int
	}{{oneadapt.Config{0, 0}, []int{0}}, {oneadapt.Config{1, 2}, []int{0, 2}}, {oneadapt.Config{2, 1}, []int{0, 4}}, {oneadapt.Config{1, 1}, []int{0}}, {oneadapt.Config{2, 2}, []int{0, 1, 2, 3, 4, 5}}} {
		if got := k.Variant(s, test.config); len(got.Frames) != len(test.want) || k.Cost(&got, 1) != float64(len(test.want)) {
			t.Errorf("at %v it sends %v, want %v", test.config, got.Frames, test.want)
		}
	}
}

// TestStart: streams begin at the end of the knobs that is asked for, by each preset.
func TestStartSetting(t *testing.T) {
	for _, preset := range []string{"paper", "repo", "tuned"} {
		s := UsualOneAdapt()
		s.Preset, s.Start = preset, "cheapest"
		c, err := s.Config()
		if err != nil {
			t.Fatal(err)
		}
		camera, _ := c.New().New()
		if got := qp(t, camera.Step(0, method.Captured{Segment: 0, Frames: 10, Width: 64, Height: 64})[0], 5); got != 36 {
			t.Errorf("%s begins at QP %d, want 36", preset, got)
		}
	}
}

func TestOneAdaptSettings(t *testing.T) {
	for want, change := range map[string]func(*OneAdaptSettings){
		"segments of 0":      func(s *OneAdaptSettings) { s.Frames = 0 },
		"every 0 segments":   func(s *OneAdaptSettings) { s.Every = 0 },
		"every 6 segments":   func(s *OneAdaptSettings) { s.Every = 6 },
		`knobs "colour"`:     func(s *OneAdaptSettings) { s.Knobs = "colour" },
		`preset "mine"`:      func(s *OneAdaptSettings) { s.Preset = "mine" },
		`not "middle"`:       func(s *OneAdaptSettings) { s.Start = "middle" },
		"a rate of 0":        func(s *OneAdaptSettings) { s.Rate = 0 },
		"share of 1":         func(s *OneAdaptSettings) { s.Preset, s.Share = "repo", 1 },
		"quality 52":         func(s *OneAdaptSettings) { s.Knobs, s.QP = "filter", 52 },
		"a weight of -1 and": func(s *OneAdaptSettings) { s.Knobs, s.Preset, s.Weight = "filter", "repo", -1 },
	} {
		s := UsualOneAdapt()
		change(&s)
		if _, err := s.Config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestOtherMaps: gradients of other sizes than the frames', and of the greatest numbers, come from no server that is right: each segment is sent all the same, and knobs of
// macroblocks stay.
func TestOtherMaps(t *testing.T) {
	before, after := media.NewFrame(64, 64), media.NewFrame(64, 64)
	for i := range after.Y {
		after.Y[i] = byte(i)
	}
	forEachPreset(t, func(t *testing.T, s OneAdaptSettings) {
		c, err := s.Config()
		if err != nil {
			t.Fatal(err)
		}
		camera, _ := c.New().New()
		first, sent := media.Settings{}, 0
		for n, size := range [][2]int{{1, 1}, {1, 1}, {9, 9}, {4, 4000}, {1000, 1}, {1, 1}} {
			var try func(do []method.CameraAction)
			try = func(do []method.CameraAction) {
				for _, action := range do {
					switch a := action.(type) {
					case method.Measure:
						try(camera.Step(0, method.Measured{Segment: a.Segment, Values: []float64{1, 2}}))
					case method.Try:
						trial := method.Trial{Bytes: 1000}
						if trial.Changes, err = oneadapt.Changes(a.Gradient, []*media.Frame{before}, []*media.Frame{after}, a.Parts); err != nil {
							t.Fatal(err)
						}
						try(camera.Step(0, method.Tried{Segment: a.Segment, Against: trial, Trials: slices.Repeat([]method.Trial{trial}, len(a.Variants))}))
					case method.Encode:
						if sent++; sent == 1 {
							first = a.Settings
						} else if s.Knobs == "blocks" && !reflect.DeepEqual(a.Settings, first) {
							t.Errorf("segment %d is sent by %+v, the first by %+v", a.Segment, a.Settings, first)
						}
					}
				}
			}
			try(camera.Step(0, method.Captured{Segment: method.Segment(n), Frames: 2, Width: 64, Height: 64}))
			m := oneadapt.NewMap(size[0], size[1])
			m.Utility = math.MaxFloat32
			for i := range m.Values {
				m.Values[i] = math.MaxFloat32
			}
			try(camera.Step(0, method.Answer{Segment: method.Segment(n), Content: method.Sensitive{Gradient: m}}))
		}
		if sent != 6 {
			t.Errorf("%d of 6 segments are sent", sent)
		}
	})
}
