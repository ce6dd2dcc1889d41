package live

import (
	"bufio"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// drawn is a segment of two frames.
func drawn(n int) session.Message {
	return &session.Sent{Segment: method.Segment(n), Of: 2, Frames: []int{0, 1}, Data: &media.Segment{Width: 96, Height: 64, Rate: 20, Units: rtsptest.Drawn()[:2]}}
}

// TestHastyCameraIsHeldToItsRate: of a camera that sends more than the frames a second that it was admitted with, and does not wait, so many are inferred, and each of the others
// has a result that says why not and counts as dropped.
func TestHastyCameraIsHeldToItsRate(t *testing.T) {
	const rate, segments = 20.0, 150
	e := newEye(t).up()
	var inferred atomic.Int64
	e.refuse = func(*wire.Submit) *engine.Error { inferred.Add(1); return nil }
	h := newHost(t, e)
	h.mustDeclare(`{"name":"door","source":"camera","method":"mpeg:frames=2"}`)
	began := time.Now()
	talk := h.session("door", said(t, &session.Hello{Width: 96, Height: 64, Rate: rate, Camera: "c"}))
	var sent sync.WaitGroup
	sent.Go(func() { talk.say(said(t, span(0, segments, drawn)...)) })
	all := h.results("door", 2*segments)
	took := time.Since(began)
	sent.Wait()
	dropped := 0
	for i, r := range all {
		if r.Segment != i/2 || r.Frame != i%2 || !r.Final {
			t.Errorf("result %d is %+v", i, r)
		}
		if r.Dropped != "" {
			dropped++
			if !strings.Contains(r.Dropped, "more than the 20 frames a second that it was admitted with") {
				t.Errorf("result %d is %+v", i, r)
			}
		}
	}
	if most := h.keeps("door") + rate*slack*took.Seconds() + 2; float64(inferred.Load()) > most || int(inferred.Load())+dropped != 2*segments {
		t.Errorf("in %v %d frames are inferred, want at most %.0f; %d are dropped", took, inferred.Load(), most, dropped)
	}
	if s := h.of("door"); s.Dropped != uint64(dropped) {
		t.Errorf("%d frames are dropped: %+v", dropped, s)
	}
}

// keeps is how many frames a stream's camera keeps.
func (h *host) keeps(name string) float64 {
	h.Helper()
	st, err := h.findStream(name, owner{Admin: true})
	if err != nil {
		h.Fatal(err)
	}
	return st.intake.(*cameraIntake).pace.most // set once
}

// TestPatientCameraLosesNothing: a camera that sends a segment when the one before has its results is slowed down to its rate.
func TestPatientCameraLosesNothing(t *testing.T) {
	const rate, segments = 20.0, 40
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"door","source":"camera","method":"mpeg:frames=2"}`)
	began := time.Now()
	talk := h.session("door", said(t, &session.Hello{Width: 96, Height: 64, Rate: rate, Camera: "c"}))
	response, err := http.ReadResponse(talk.from, nil)
	if err != nil {
		t.Fatal(err)
	}
	heard := session.NewReader(bufio.NewReader(response.Body))
	for n := range segments {
		for done := false; !done; {
			m, err := heard.Next()
			if err != nil {
				t.Fatal(err)
			}
			switch m := m.(type) {
			case *session.Welcome:
				done = true
			case *session.Done:
				done = int(m.Segment) == n-1
			}
		}
		talk.say(said(t, drawn(n)))
	}
	for i, r := range h.results("door", 2*segments) {
		if r.Dropped != "" {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	if took, least := time.Since(began).Seconds(), (2*segments-h.keeps("door"))/(rate*slack); took < least {
		t.Errorf("it took %.2f s, want at least %.2f", took, least)
	}
}
