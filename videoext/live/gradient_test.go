package live

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// TestGradients: of a network's gradients those that are right reach the camera, and what becomes of the others is counted; the session and each frame's
// one result outlast all of them.
func TestGradients(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(s *wire.Submit, e *eye) []*wire.Result
		want   gradients // of each
		told   bool
	}{
		"right": {func(s *wire.Submit, e *eye) []*wire.Result { return e.gradient(s, 1) }, gradients{}, true},
		"zero":  {func(s *wire.Submit, e *eye) []*wire.Result { return e.gradient(s, 0) }, gradients{}, true},
		"NaN":   {func(s *wire.Submit, e *eye) []*wire.Result { return e.gradient(s, float32(math.NaN())) }, gradients{Failed: 1}, false},
		"dropped": {func(s *wire.Submit, _ *eye) []*wire.Result {
			return []*wire.Result{{Job: s.ID, Err: engine.Errorf(engine.CodeDeadline, "the deadline of %v passed", s.Deadline)}}
		}, gradients{Late: 1}, false},
		"none": {func(*wire.Submit, *eye) []*wire.Result { return nil }, gradients{Late: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEye(t).up()
			e.gradients = func(s *wire.Submit) []*wire.Result {
				if s.Deadline <= 0 || s.Deadline > 500*time.Millisecond || s.Promised {
					t.Errorf("a gradient has a deadline of %v", s.Deadline)
				}
				return c.answer(s, e)
			}
			h := newHost(t, e)
			h.mustDeclare(`{"name":"door","source":"camera","method":"oneadapt:frames=2"}`)
			talk := h.session("door", said(t, &session.Hello{Width: 96, Height: 64, Rate: 4, Camera: "c"}))
			const segments = 3
			knobs := session.Knobs{Quantisers: &media.QPMap{Columns: 2, Rows: 1, QP: []uint8{24, 36}}}
			units := rtsptest.Drawn()[:2]
			for n := range segments {
				talk.say(said(t, &session.Sent{Segment: method.Segment(n), Of: 2, Frames: []int{0, 1}, Container: 300, Knobs: knobs, Data: &media.Segment{Width: 96, Height: 64, Rate: 4, Units: units}}))
				h.until("door", "done with a gradient", func(s status) bool {
					return s.Frames == uint64(2*n+2) && s.Gradients != nil && s.Gradients.Asked == uint64(n+1)
				})
			}
			s := h.of("door")
			g := *s.Gradients
			if g.Failed != segments*c.want.Failed || g.Late < segments*c.want.Late || c.want.Failed+c.want.Late > 0 && g.Feedback > 0 || s.Dropped > 0 || s.State != stateRunning {
				t.Errorf("%+v: %+v", s, g)
			}
			for i, r := range h.results("door", 2*segments) {
				if r.Segment != i/2 || r.Frame != i%2 || !r.Final {
					t.Errorf("result %d is %+v", i, r)
				}
			}
			response, err := http.Get(h.web.URL + Prefix + "streams/door/segments?after=0")
			if err != nil {
				t.Fatal(err)
			}
			var list struct{ Data []Segment }
			err = json.NewDecoder(response.Body).Decode(&list)
			response.Body.Close()
			if err != nil || len(list.Data) != segments-1 {
				t.Fatalf("%+v, %v", list, err)
			}
			for i, s := range list.Data {
				if int(s.Number) != i+1 || s.Frames != 2 || s.Bytes != 300 || s.Width != 96 || s.Quantisers.Mean != 30 || c.told != (s.Found != nil && len(s.Gradient.Values) == 24) {
					t.Errorf("segment %d is %+v", i+1, s)
				}
			}
			if err := h.drop("door"); err != nil {
				t.Error(err)
			}
			_, before := talk.refused()
			told := 0
			for _, m := range before {
				if a, ok := m.(*session.Answered); ok && len(a.Content.(method.Sensitive).Gradient.Values) == 24 {
					told++
				}
			}
			if want := map[bool]int{true: segments}[c.told]; told != want {
				t.Errorf("the camera is told %d gradients, want %d: %v", told, want, before)
			}
		})
	}
}

// TestGradientsStandBack: beside a stream with a deadline a gradient is promised its interval behind all frames, and where that is refused it is asked for once more
// without.
func TestGradientsStandBack(t *testing.T) {
	for _, code := range []engine.Code{0, engine.CodeOverloaded, engine.CodeDeadline} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			e := newEye(t).up()
			asked := 0
			e.gradients = func(s *wire.Submit) []*wire.Result {
				if asked++; asked%2 == 1 && code > 0 {
					if !s.Promised || s.Stream != "video/door/gradient" || s.Priority != 1 || s.Deadline <= 0 {
						t.Errorf("a gradient comes as %+v", s.Job)
					}
					return []*wire.Result{{Job: s.ID, Err: engine.Errorf(code, "there is no room")}}
				}
				if s.Promised != (code == 0) || s.Deadline <= 0 {
					t.Errorf("a gradient comes as %+v", s.Job)
				}
				return e.gradient(s, 1)
			}
			h := newHost(t, e)
			h.mustDeclare(`{"name":"door","source":"camera","method":"oneadapt:frames=2","deadline_ms":60000}`)
			talk := h.session("door", said(t, &session.Hello{Width: 96, Height: 64, Rate: 0.1, Camera: "c"}))
			talk.say(said(t, &session.Sent{Of: 2, Frames: []int{0, 1}, Container: 300, Data: &media.Segment{Width: 96, Height: 64, Rate: 10, Units: rtsptest.Drawn()[:2]}}))
			h.until("door", "done with a gradient", func(s status) bool { return s.Gradients != nil && s.Gradients.Asked == 1 })
			if g := *h.of("door").Gradients; g.Feedback == 0 || g.Late+g.Failed > 0 || asked != map[bool]int{true: 2, false: 1}[code > 0] {
				t.Errorf("it was asked for %d times: %+v", asked, g)
			}
		})
	}
}
