package live

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/mutate"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

var (
	mutatedBodies   = flag.Int("bodies", 1000, "declarations that TestMutatedDeclarations sends")
	mutatedSessions = flag.Int("sessions", 100, "sessions of cameras that TestMutatedSessions opens")
)

// put asks without a connection, and holds that the answer has a form that others have.
func (h *host) put(method, path, body string) *httptest.ResponseRecorder {
	h.Helper()
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, httptest.NewRequest(method, "http://x"+Prefix+path, strings.NewReader(body)))
	if w.Code != http.StatusOK && (!json.Valid(w.Body.Bytes()) || w.Code == http.StatusInternalServerError) {
		h.Fatalf("%s %s %.2000q: %d %s", method, path, body, w.Code, w.Body)
	}
	return w
}

// empty holds that nothing is left of what was declared.
func (h *host) empty() {
	h.Helper()
	for _, st := range h.sortedStreams() {
		h.put(http.MethodDelete, "streams/"+st.spec.Name, "")
	}
	for deadline := time.Now().Add(time.Minute); h.Server.memory.Held() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.Fatalf("%d bytes are held by no stream", h.Server.memory.Held())
		}
	}
}

// TestMutatedDeclarations sends declarations that come of good ones by hostile values, swaps, cuts and flipped bits: each begins a stream or is refused,
// and nothing is left of them.
func TestMutatedDeclarations(t *testing.T) {
	h := newHost(t, newEye(t).up())
	pick := rand.New(rand.NewPCG(1, uint64(*mutatedBodies)))
	seeds := []string{
		`{"name":"a","model":"eye","source":"camera","method":"dds:low=24","classes":[0,1],"score":0.5}`, `{"name":"b","source":"camera","adapt":"oneadapt","deadline_ms":100}`,
		`{"name":"c","source":"drawn.mp4","rate":5,"loop":true,"deadline_ms":500.5}`, `{"name":"d","source":"rtsp://u:p@127.0.0.1:1/x?y","rate":0.05}`, `{"name":"e","source":"camera","method":"accmpeg:share=0.1"}`,
	}
	m, statuses := mutate.OfJSON(pick, seeds), map[int]int{}
	for range *mutatedBodies {
		body := seeds[pick.IntN(len(seeds))]
		if pick.IntN(8) > 0 {
			body = m.Mutate(body)
		}
		w := h.put(http.MethodPost, "streams", body)
		if statuses[w.Code]++; w.Code == http.StatusCreated {
			h.put(http.MethodGet, "streams", "")
			h.empty()
		}
	}
	t.Log(statuses)
	h.empty()
	if statuses[http.StatusCreated] < *mutatedBodies/50 || statuses[http.StatusBadRequest] < *mutatedBodies/50 {
		t.Error(statuses)
	}
}

// whim makes messages of a camera that make sense, or nearly.
type whim struct {
	*rand.Rand
	*mutate.Mutator
	units []media.Unit
	next  int // segment
}

// number is one that may be right, or at the end of a range.
func (p *whim) number(right int) int {
	if p.Rand.IntN(8) > 0 {
		return right
	}
	return []int{0, 1, right + 1, 2 * right, media.MaxFrames, media.MaxFrames + 1, 1 << 20, math.MaxInt32}[p.Rand.IntN(8)]
}

func (p *whim) message() session.Message {
	if p.Rand.IntN(2) == 0 {
		p.next++
	}
	at, of := method.Segment(p.number(p.next)), p.number(1+p.Rand.IntN(8))
	switch p.Rand.IntN(12) {
	case 0:
		return &session.Skipped{Skip: method.Skip{Segment: at, Stream: method.Stream(p.Rand.IntN(2)), Of: of}}
	case 1, 2, 3:
		results := &session.Resulted{Results: method.Results{Segment: at, Final: p.Rand.IntN(2) == 0, Frames: make([]videoext.Findings, min(of, 5000))}}
		for i := range min(2, len(results.Frames)) {
			results.Frames[i].Detections = []videoext.Detection{{Region: videoext.Region{X1: 0.5, Y1: 1}, Class: p.number(1), Score: p.Float32()}}
		}
		return results
	case 4:
		return []session.Message{&session.Ended{}, &session.Done{Segment: at}, &session.Welcome{Next: at}, &session.Hello{Width: p.number(96), Height: 64, Rate: 12}}[p.Rand.IntN(4)]
	}
	return p.sent(at, of)
}

// sent is a segment, of which a frame may be spoilt.
func (p *whim) sent(at method.Segment, of int) session.Message {
	n := min(1+p.Rand.IntN(6), len(p.units))
	data := &media.Segment{Width: 96, Height: 64, Rate: 12}
	var frames []int
	for i := range n {
		u := p.units[i]
		u.Order, u.Index, u.Time = i, p.number(i), time.Duration(p.number(i))*time.Second/12
		if p.Rand.IntN(16) == 0 {
			u.Data = append([]byte{0, 0, 0, 1, u.Data[4]}, p.Mutate(string(u.Data))...)
		}
		data.Units, frames = append(data.Units, u), append(frames, i)
	}
	if p.Rand.IntN(16) == 0 {
		data.Width, data.Height = p.number(96), p.number(64)
	}
	return &session.Sent{Segment: at, Stream: method.Stream(p.Rand.IntN(4) / 3), Of: max(of, n), Frames: frames, Container: p.number(100), Data: data}
}

// leaves is after how long a camera hangs up.
const leaves = 200 * time.Millisecond

// TestMutatedSessions opens sessions that say what makes sense and what does not, in any order: each ends, the stream goes on, and nothing is left of them.
func TestMutatedSessions(t *testing.T) {
	e := newEye(t).up()
	e.gradients = func(s *wire.Submit) []*wire.Result { return e.gradient(s, 0.5) }
	h := newHost(t, e)
	h.end()
	h.logged = zap.NewNop()
	h.begin()
	pick := rand.New(rand.NewPCG(1, uint64(*mutatedSessions)))
	p := &whim{Rand: pick, units: rtsptest.Drawn()}
	hello := said(t, &session.Hello{Width: 96, Height: 64, Rate: 12, Camera: "c"})
	p.Mutator = mutate.OfBinary(pick, []string{string(hello), string(p.units[0].Data), string(p.units[1].Data)})
	ways := []string{"mpeg", "dds", "oneadapt:preset=repo,share=0.1", "accmpeg", "glimpse", "reducto", "eaar", "vigil"}
	messages, results := 0, uint64(0)
	for i := range *mutatedSessions {
		name := fmt.Sprint("s", i/4)
		if i%4 == 0 {
			h.empty()
			p.next = 0
			if w := h.put(http.MethodPost, "streams", fmt.Sprintf(`{"name":%q,"source":"camera","method":%q}`, name, ways[i/4%len(ways)])); w.Code != http.StatusCreated {
				t.Fatal(w.Body)
			}
		}
		said := slices.Clone(hello)
		for range 1 + pick.IntN(20) {
			m := p.message()
			next, err := session.Append(nil, m)
			if err != nil {
				continue // it has no form for the wire
			}
			if pick.IntN(50) == 0 {
				next = []byte(p.Mutate(string(next)))
			}
			said, messages = append(said, next...), messages+1
		}
		w := httptest.NewRecorder()
		ctx, leave := context.WithTimeout(t.Context(), leaves) // what a stream waits for may be behind what it does not take in before
		h.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, Prefix+"streams/"+name+"/camera", strings.NewReader(string(said))))
		leave()
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Fatalf("%x: %d %s", said, w.Code, w.Body)
		}
		h.put(http.MethodGet, "streams/"+name, "")
		if i%4 == 3 {
			results += h.of(name).Number
		}
	}
	h.empty()
	t.Logf("%d messages, %d results", messages, results)
	if results < uint64(*mutatedSessions/2) {
		t.Errorf("%d results", results)
	}
}
