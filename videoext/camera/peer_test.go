package camera

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// peer is a server of one stream: it decodes what comes, and has a method's server side say what is to be done. Its network finds one
// thing in every frame.
type peer struct {
	t    *testing.T
	spec string
	// each is called before each message that comes; an error breaks the session.
	each func(session int, m session.Message) error
	// answer takes the place of all that is said, if it is there.
	answer func(w io.Writer, flush func())
	// forgets says that the server is started again between sessions.
	forgets bool

	mu       sync.Mutex
	sessions int
	next     method.Segment           // the first without final results
	last     method.Segment           // that Arrived, or was skipped; -1: none
	final    map[method.Segment]int   // how often
	frames   map[method.Segment]int   // of each
	indices  map[method.Segment][]int // of the frames of stream A, in the source
	twice    []string                 // what came a second time in one session
	got      map[string]bool          // in this session
	camera   []method.Results         // of the camera
	sent     int                      // frames
	ended    bool
	server   method.Server
	out      func(session.Message)
	began    time.Time
}

func newPeer(t *testing.T, spec string) *peer {
	return &peer{t: t, spec: spec, last: -1, final: map[method.Segment]int{}, frames: map[method.Segment]int{}, indices: map[method.Segment][]int{}, began: time.Now()}
}

// restart forgets all but what is final.
func (p *peer) restart() {
	m, err := methods.New(p.spec, methods.Learned{})
	if err != nil {
		p.t.Error(err)
		return
	}
	_, p.server = m.New()
	p.last = p.next - 1
}

// serve serves it by HTTP/2 without TLS.
func (p *peer) serve(t *testing.T) *httptest.Server {
	s := httptest.NewUnstartedServer(p)
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.Protocols.SetHTTP1(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/video/streams/door/camera" || r.Header.Get("Authorization") != "Bearer secret" || r.ProtoMajor != 2 {
		http.Error(w, "not for this", http.StatusForbidden)
		return
	}
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher).Flush
	flush()
	p.talk(r.Body, w, flush)
}

// talk is a session.
func (p *peer) talk(from io.Reader, to io.Writer, flush func()) {
	if p.answer != nil {
		p.answer(to, flush)
		return
	}
	in := session.NewReader(bufio.NewReader(from))
	for first := true; ; first = false {
		m, err := in.Next()
		if err != nil {
			return
		}
		if !p.hear(m, first, to, flush) {
			return
		}
	}
}

func (p *peer) hear(m session.Message, first bool, to io.Writer, flush func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first {
		p.sessions++
	}
	if p.each != nil {
		if err := p.each(p.sessions, m); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	number := p.sessions
	p.out = func(m session.Message) {
		data, err := session.Append(nil, m)
		if err != nil {
			p.t.Error(err)
		}
		if p.sessions != number { // it is over
			return
		}
		_, _ = to.Write(data) // the camera may be gone
		flush()
	}
	if _, ok := m.(*session.Hello); ok != first {
		p.t.Errorf("message %T; it is the first: %v", m, first)
		return false
	}
	if first {
		if p.server == nil || p.forgets {
			p.restart()
		}
		p.got = map[string]bool{}
		p.out(&session.Welcome{Method: p.spec, Next: p.last + 1})
		if p.next > 0 {
			p.out(&session.Done{Segment: p.next - 1})
		}
		return true
	}
	return p.take(m)
}

func (p *peer) take(m session.Message) bool {
	switch m := m.(type) {
	case *session.Sent:
		p.once(m.Segment, m.Stream)
		p.sent += len(m.Frames)
		if _, err := ffmpeg.Decode(p.t.Context(), m.Data); err != nil {
			p.t.Errorf("segment %d: %v", m.Segment, err)
		}
		p.note(m.Segment, m.Stream, m.Of)
		if m.Stream == method.A {
			p.indices[m.Segment] = indices(m.Data)
		}
		p.step(method.Arrived{Segment: m.Segment, Stream: m.Stream, Frames: m.Frames, Of: m.Of})
	case *session.Skipped:
		p.once(m.Segment, m.Stream)
		p.note(m.Segment, m.Stream, m.Of)
		p.step(m.Skip)
	case *session.Resulted:
		p.camera = append(p.camera, m.Results)
		if m.Final {
			p.finish(m.Segment)
		}
	case *session.Ended:
		p.ended = true
		p.step(method.Ended{})
		return false
	default:
		p.t.Errorf("the camera says %T", m)
	}
	return true
}

func indices(s *media.Segment) (all []int) {
	for _, u := range s.Units {
		all = append(all, u.Index)
	}
	return all
}

// once holds that nothing is sent twice to one session.
func (p *peer) once(segment method.Segment, stream method.Stream) {
	key := fmt.Sprint(segment, stream)
	if p.got[key] {
		p.twice = append(p.twice, key)
	}
	p.got[key] = true
}

// note holds that stream A is in order, and makes up for gaps.
func (p *peer) note(segment method.Segment, stream method.Stream, of int) {
	if n, ok := p.frames[segment]; ok && n != of {
		p.t.Errorf("segment %d has %d frames, and before it had %d", segment, of, n)
	}
	p.frames[segment] = of
	if stream != method.A {
		return
	}
	if segment != p.last+1 {
		p.t.Errorf("stream A of segment %d comes after that of %d", segment, p.last)
	}
	p.last = segment
}

func (p *peer) step(event method.ServerEvent) {
	for _, action := range p.server.Step(time.Since(p.began), event) {
		switch a := action.(type) {
		case method.Infer:
			found := make([]videoext.Findings, len(a.Frames))
			for i := range found {
				found[i].Detections = []videoext.Detection{{Region: videoext.Region{X0: 0.25, Y0: 0.25, X1: 0.5, Y1: 0.5}, Score: 0.9}}
				found[i].Proposals = []videoext.Proposal{{Region: videoext.Region{X0: 0.6, Y0: 0.6, X1: 0.7, Y1: 0.7}, Objectness: 0.9}}
			}
			p.step(method.Inferred{Segment: a.Segment, Stream: a.Stream, Frames: a.Frames, Findings: found})
		case method.Answer:
			p.out(&session.Answered{Answer: a})
		case method.Results:
			if a.Final {
				p.finish(a.Segment)
			}
		case method.Wake:
			p.wake(a.At)
		}
	}
}

// wake tells the method the time, unless the server was started again meanwhile.
func (p *peer) wake(at time.Duration) {
	server := p.server
	timer := time.AfterFunc(at-time.Since(p.began), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.server == server {
			p.step(method.Woke{})
		}
	})
	p.t.Cleanup(func() { timer.Stop() })
}

// finish gives results in the order of segments. Those of what comes again are not given again.
func (p *peer) finish(segment method.Segment) {
	if segment < p.next {
		return
	}
	p.final[segment]++
	for p.final[p.next] > 0 {
		p.out(&session.Done{Segment: p.next})
		p.next++
	}
}

// check holds that each of some segments has final results once.
func (p *peer) check(segments int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range segments {
		if p.final[method.Segment(n)] != 1 {
			p.t.Errorf("segment %d has %d final results", n, p.final[method.Segment(n)])
		}
	}
	if len(p.final) != segments {
		p.t.Errorf("%d segments have final results, want %d", len(p.final), segments)
	}
	if len(p.twice) > 0 {
		p.t.Errorf("it came twice in one session: %v", p.twice)
	}
	if !p.ended {
		p.t.Error("the camera has not said Ended")
	}
}
