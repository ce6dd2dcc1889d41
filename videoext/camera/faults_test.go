package camera

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

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

// TestRefusals: a first session that cannot be is an error that says why.
func TestRefusals(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	say := func(m session.Message) func(io.Writer, func()) {
		return func(w io.Writer, flush func()) {
			_, _ = w.Write(encoded(m)) // the camera may be gone
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
