package camera

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// TestSessionsBreak: whatever breaks, each segment has results once, and nothing comes twice in one session. Of a server that goes on, and
// of one that is started again each time and knows no more than what is final.
func TestSessionsBreak(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	for _, spec := range []string{"mpeg:frames=2", "dds:frames=2", "glimpse:frames=2,threshold=0.01"} {
		for _, forgets := range []bool{false, true} {
			name := spec + ", the server goes on"
			if forgets {
				name = spec + ", the server is started again"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(1, 2))
				p := newPeer(t, spec)
				p.forgets = forgets
				p.each = func(number int, m session.Message) error {
					_, ended := m.(*session.Ended)
					if number < 6 && !ended && r.Float64() < 0.25 {
						return errors.New("broken")
					}
					return nil
				}
				totals, err := Run(t.Context(), config(&Server{URL: p.serve(t).URL, Stream: "door", Key: "secret"}))
				if err != nil {
					t.Fatal(err)
				}
				p.check(12)
				if p.sessions < 2 || totals.Done != 12 {
					t.Errorf("%d sessions, and the camera did %+v", p.sessions, totals)
				}
			})
		}
	}
}

// flaky is a network that cannot look at every second frame.
type flaky struct{ frames int }

func (f *flaky) Find(*media.Frame) (found videoext.Findings, err error) {
	if f.frames++; f.frames%2 == 0 {
		return found, errors.New("too dark")
	}
	found.Detections = []videoext.Detection{{Region: videoext.Region{X1: 0.5, Y1: 0.5}, Score: 0.9}}
	return found, nil
}

// TestDetectorFails: frames that the camera's network cannot look at are said so, and have nothing in them; all segments have results.
func TestDetectorFails(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	p := newPeer(t, "vigil:frames=5")
	c, failed := config(&Server{URL: p.serve(t).URL, Stream: "door", Key: "secret"}), 0
	network := &flaky{}
	c.Detector = network
	c.Observe = func(e Event) {
		if e, ok := e.(NotDone); ok && strings.Contains(e.Err.Error(), "too dark") {
			failed++
		}
	}
	totals, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p.check(5)
	if network.frames != 24 || failed != 5 || totals.Done != 5 || p.sent != 12 {
		t.Errorf("the network saw %d frames, %d segments were said to have some that it cannot, and %d frames were sent; %+v", network.frames, failed, p.sent, totals)
	}
}

// TestImpossibleFirstSessionIsRefused: a first session that cannot be is an error that says why.
func TestImpossibleFirstSessionIsRefused(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	say := func(m session.Message) func(io.Writer, func()) {
		return func(w io.Writer, flush func()) {
			_, _ = w.Write(encodeMessage(m)) // the camera may be gone
			flush()
		}
	}
	for want, c := range map[string]struct {
		key    string
		answer func(io.Writer, func())
	}{
		"403 Forbidden: not for this": {key: "wrong"},
		"refuses: no room":            {"secret", say(&session.Refused{Reason: "no room"})},
		"wants method \"magic\"":      {"secret", say(&session.Welcome{Method: "magic"})},
		"needs a network":             {"secret", say(&session.Welcome{Method: "vigil"})},
	} {
		t.Run(want, func(t *testing.T) {
			p := newPeer(t, "mpeg")
			p.answer = c.answer
			_, err := Run(t.Context(), config(&Server{URL: p.serve(t).URL, Stream: "door", Key: c.key}))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if err != nil && c.key == "wrong" && strings.Contains(err.Error(), c.key) {
				t.Errorf("the key is in %v", err)
			}
		})
	}
}

// TestRefusalWithoutEnd: a refusal that never ends is told all the same, with what came of it.
func TestRefusalWithoutEnd(t *testing.T) {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "there is no such stream") // the camera may be gone
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.Config.Protocols = protocols
	server.Start()
	defer server.Close()
	_, err := Run(t.Context(), config(&Server{URL: server.URL, Stream: "nosuch"}))
	if err == nil || !strings.Contains(err.Error(), "404 Not Found: there is no such stream") {
		t.Errorf("the camera ends with %v", err)
	}
}
