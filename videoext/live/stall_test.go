package live

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// skipped is a segment of one frame that a camera leaves out.
func skipped(n int) session.Message {
	return &session.Skipped{Skip: method.Skip{Segment: method.Segment(n), Of: 1}}
}

// found is what a camera has itself found in a segment of one frame.
func found(n int) session.Message {
	return &session.Resulted{Results: method.Results{Segment: method.Segment(n), Final: true, Frames: make([]videoext.Findings, 1)}}
}

// span are the messages of segments from one to before another.
func span(from, to int, message func(int) session.Message) (all []session.Message) {
	for n := from; n < to; n++ {
		all = append(all, message(n))
	}
	return all
}

// welcomed is the next segment that a session is told to begin with.
func (c *talk) welcomed() method.Segment {
	c.Helper()
	response, err := http.ReadResponse(c.from, nil)
	if err != nil {
		c.Fatal(err)
	}
	for r := session.NewReader(bufio.NewReader(response.Body)); ; { // the connection is closed at the test's end
		m, err := r.Next()
		if err != nil {
			c.Fatal(err)
		}
		if w, ok := m.(*session.Welcome); ok {
			return w.Next
		}
	}
}

// TestSegmentsUnderWayKeepNoCameraOut: where all segments that may be under way wait for what the camera is to send, that is heard, and another session of the
// camera begins; of one segment more the oldest is given up, and says so.
func TestSegmentsUnderWayKeepNoCameraOut(t *testing.T) {
	const most = streams.DefaultMost
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"door","source":"camera","method":"glimpse"}`) // the camera has the results
	hello := said(t, &session.Hello{Width: 96, Height: 64, Rate: 100, Camera: "c"})
	begin := func(all ...session.Message) *talk {
		return h.session("door", append(hello[:len(hello):len(hello)], said(t, all...)...))
	}

	begin(span(0, most, skipped)...)
	h.until("door", "under way", func(s status) bool { return s.State == stateRunning })
	again := begin()
	for next := again.welcomed(); next < most; next = again.welcomed() {
		begin(span(int(next), most, skipped)...) // the session before was not heard to its end
		again = begin()
	}
	again.say(said(t, span(0, most, found)...))
	again.say(said(t, span(most, 2*most+1, skipped)...))
	again.say(said(t, span(most+1, 2*most+1, found)...))
	for i, r := range h.results("door", 2*most+1) {
		if given := strings.Contains(r.Dropped, "segments behind it"); given != (i == most) || r.Dropped != "" && !given {
			t.Errorf("result %d is %+v", i, r)
		}
	}
}
