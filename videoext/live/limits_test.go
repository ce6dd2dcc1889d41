package live

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// talk is one side of a camera's session over a connection of its own.
type talk struct {
	*testing.T
	net.Conn
	from *bufio.Reader
}

// session opens a camera's session, and says what is in data.
func (h *host) session(stream string, data []byte) *talk {
	h.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.web.URL, "http://"))
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		h.Fatal(err)
	}
	c := &talk{h.T, conn, bufio.NewReader(conn)}
	if _, err := fmt.Fprintf(conn, "POST %sstreams/%s/camera HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", Prefix, stream); err != nil {
		h.Fatal(err)
	}
	c.say(data)
	return c
}

func (c *talk) say(data []byte) {
	c.Helper()
	if len(data) == 0 {
		return
	}
	if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(data), data); err != nil {
		c.Fatal(err)
	}
}

// refused is why the server ends the session, and what it said before.
func (c *talk) refused() (why string, before []session.Message) {
	c.Helper()
	response, err := http.ReadResponse(c.from, nil)
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	for r := session.NewReader(bufio.NewReader(response.Body)); ; {
		m, err := r.Next()
		if err != nil {
			c.Fatalf("the session ends with %v, behind %v", err, before)
		}
		if end, ok := m.(*session.Refused); ok {
			return end.Reason, before
		}
		before = append(before, m)
	}
}

// said are messages as bytes.
func said(t *testing.T, all ...session.Message) (data []byte) {
	t.Helper()
	for _, m := range all {
		var err error
		if data, err = session.Append(data, m); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// TestHostileSessions: what a session says that is half, wrong or none ends it with a reason, in time; streams and their other sessions go on.
func TestHostileSessions(t *testing.T) {
	h := newHost(t, newEye(t).up())
	hello := said(t, &session.Hello{Width: 96, Height: 64, Rate: 12, Camera: "c"})
	skipped := func(n int) session.Message {
		return &session.Skipped{Skip: method.Skip{Segment: method.Segment(n), Of: 2}}
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"silence":    {nil, "said nothing for too long"},
		"half":       {hello[:len(hello)-2], "said nothing for too long"},
		"garbage":    {[]byte("GET / HTTP/1.1\r\n\r\n" + strings.Repeat("and more", 20)), ""},
		"huge":       {binary.AppendUvarint(nil, 1<<62), "are the most"},
		"no hello":   {said(t, skipped(0)), "begins with Hello"},
		"the server": {append(hello[:len(hello):len(hello)], said(t, &session.Welcome{Method: "mpeg"})...), "does not say *session.Welcome"},
		"far ahead":  {append(hello[:len(hello):len(hello)], said(t, skipped(1<<20))...), "too far"},
		"greedy":     {said(t, &session.Hello{Width: 96, Height: 64, Rate: 900, Camera: "c"}), "900 frames a second at 2ms each take 1.8 of a device"},
	} {
		stream := strings.ReplaceAll(name, " ", "-")
		h.mustDeclare(fmt.Sprintf(`{"name":%q,"source":"camera","method":"mpeg"}`, stream))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			why, _ := h.session(stream, c.data).refused()
			if took := time.Since(began); !strings.Contains(why, c.want) || took > helloTimeout+20*time.Second {
				t.Errorf("after %v: %s, want %q", took, why, c.want)
			}
			good := h.session(stream, append(hello[:len(hello):len(hello)], said(t, skipped(0), &session.Ended{})...))
			defer good.Close()
			for _, r := range h.results(stream, 2) {
				if r.Segment != 0 || !r.Final {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// TestSessionsTakeTurns: of several sessions of one camera's stream the last one has it, and nothing is left of the others; what is announced and not sent
// takes no memory.
func TestSessionsTakeTurns(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"door","source":"camera","method":"mpeg"}`)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 40 {
		h.session("door", append(binary.AppendUvarint(nil, session.MaxBytes), make([]byte, 1000)...))
	}
	hello := said(t, &session.Hello{Width: 96, Height: 64, Rate: 12, Camera: "c"})
	var last *talk
	for i := range 10 {
		next := h.session("door", append(hello[:len(hello):len(hello)], said(t, &session.Skipped{Skip: method.Skip{Segment: method.Segment(i), Of: 1}})...))
		h.results("door", i+1) // it has the stream
		if last != nil {
			if why, _ := last.refused(); !strings.Contains(why, "another session of this camera has begun") {
				t.Error(why)
			}
		}
		last = next
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 60<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	last.Close()
	h.until("door", "without a camera", func(s status) bool { return s.State == stateWaiting && s.Reason != "" })
}

// TestSessionsThatSayNothingMakeRoom: of sessions that do not begin, those that came first are ended when others come, and keep no camera out.
func TestSessionsThatSayNothingMakeRoom(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"door","source":"camera","method":"mpeg"}`)
	hello := said(t, &session.Hello{Width: 96, Height: 64, Rate: 12, Camera: "c"})
	first := h.session("door", hello[:3])
	if _, err := first.from.Peek(1); err != nil { // its answer begins as soon as it is counted
		t.Fatal(err)
	}
	for range 2 * maxBeginning {
		h.session("door", hello[:3])
	}
	if why, _ := first.refused(); !strings.Contains(why, "16 other sessions of this camera have come meanwhile") {
		t.Error(why)
	}
	good := h.session("door", append(hello, said(t, &session.Skipped{Skip: method.Skip{Of: 2}}, &session.Ended{})...))
	defer good.Close()
	h.results("door", 2)
}

// TestDeafListeners: those who ask for results and do not read them hold up nothing.
func TestDeafListeners(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"clip","source":"drawn.mp4"}`)
	for range 50 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.web.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "GET %sstreams/clip/results?after=0 HTTP/1.1\r\nHost: x\r\n\r\n", Prefix); err != nil {
			t.Fatal(err)
		}
	}
	h.inOrder(h.results("clip", 24))
	if err := h.drop("clip"); err != nil {
		t.Error(err)
	}
}

// TestCameraKeepsItsPart: what a camera said of itself counts while it is away, and in the next process.
func TestCameraKeepsItsPart(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"door","source":"camera","method":"mpeg"}`)
	if s := h.of("door"); s.Load != 0 {
		t.Errorf("before its camera has come: %+v", s)
	}
	c := h.session("door", said(t, &session.Hello{Width: 96, Height: 64, Rate: 100, Camera: "c"}))
	h.until("door", "running", func(s status) bool { return s.State == stateRunning && s.Load == 0.2 })
	c.Close()
	h.until("door", "waiting", func(s status) bool { return s.State == stateWaiting && s.Load == 0.2 })
	h.end()
	h.begin()
	if s := h.of("door"); s.Load != 0.2 {
		t.Errorf("after a restart: %+v", s)
	}
}
