package httpserve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// prompt is how soon everything that must not wait for a client has happened, also on a busy machine; the
// timeouts of the tests that it is compared with are a minute.
const prompt = 10 * time.Second

// served is a Server on a port of its own.
type served struct {
	*Server
	testing.TB
	address string
	stop    context.CancelFunc
	ended   chan error
}

func serve(t testing.TB, cfg Config, handler http.HandlerFunc) *served {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{Server: New(cfg, handler, zap.NewNop()), TB: t, address: listener.Addr().String(), stop: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- s.Serve(ctx, listener) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		select {
		case <-s.ended:
		default: // a test has taken it
		}
		s.eventually("no connection is open", func() bool { return s.Connections().Open == 0 })
	})
	return s
}

func (s *served) eventually(what string, is func() bool) {
	s.Helper()
	for deadline := time.Now().Add(prompt); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("after %v it is not so that %s", prompt, what)
		}
	}
}

// dial opens a connection and sends text.
func (s *served) dial(text string) *net.TCPConn {
	s.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(2 * prompt)); err != nil {
		s.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		s.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// read returns all that the server sends until it closes, and how long that took.
func (s *served) read(c net.Conn) (text string, took time.Duration) {
	s.Helper()
	start := time.Now()
	all, err := io.ReadAll(c)
	if err != nil {
		s.Errorf("after %q: %v", all, err)
	}
	return string(all), time.Since(start)
}

func request(method string, length int) string {
	return fmt.Sprintf("%s / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", method, length)
}

// TestUnsentBodies: a body that does not come holds up neither an answer that does not need it nor the end of
// the connection, whatever the handler does about it.
func TestUnsentBodies(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	read := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
		}
	}
	soon := Config{BodyTimeout: 100 * time.Millisecond}
	const chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
	for _, c := range []struct {
		name, text string
		cfg        Config
		handler    http.HandlerFunc
		want       string
	}{
		{"refused", request("POST", 10), Config{}, refuse, "HTTP/1.1 401"},
		{"refused, in part sent", request("POST", 10) + "abc", Config{}, refuse, "HTTP/1.1 401"},
		{"refused, chunked", chunked, Config{}, refuse, "HTTP/1.1 401"},
		{"refused, GET", request("GET", 10), Config{}, refuse, "HTTP/1.1 401"},
		{"refused, large", request("POST", 1<<30), Config{}, refuse, "HTTP/1.1 401"},
		{"refused, HTTP/1.0", strings.Replace(request("POST", 10), "1.1", "1.0", 1), Config{}, refuse, "HTTP/1.0 401"},
		{"refused, asks first", strings.Replace(request("POST", 10), "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1), Config{}, refuse, "HTTP/1.1 401"},
		{"awaited", request("POST", 10) + "abc", soon, read, "HTTP/1.1 408"},
		{"awaited, chunked", chunked, soon, read, "HTTP/1.1 408"},
		{"awaited, asks first", strings.Replace(request("POST", 10), "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1), soon, read, "HTTP/1.1 408"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.cfg, c.handler)
			text, took := s.read(s.dial(c.text))
			text = strings.TrimPrefix(text, "HTTP/1.1 100 Continue\r\n\r\n")
			if !strings.HasPrefix(text, c.want) || !strings.Contains(text, "Connection: close") {
				t.Errorf("answer %q", text)
			}
			if took > prompt {
				t.Errorf("the connection was open for %v", took)
			}
		})
	}
}

// TestSentBodies: a client that sends much more than is read gets to see the answer.
func TestSentBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	text, _ := s.read(s.dial(request("POST", 16<<20) + strings.Repeat(" ", 16<<20)))
	if !strings.HasPrefix(text, "HTTP/1.1 413") {
		t.Errorf("answer %q", text)
	}
}

// TestSilentClients: who sends no header, or half of one, or nothing after an answer, is closed in time.
func TestSilentClients(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{HeaderTimeout: 100 * time.Millisecond, IdleTimeout: 200 * time.Millisecond}, func(http.ResponseWriter, *http.Request) {})
	for _, text := range []string{"", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\nX: ", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		if answer, took := s.read(s.dial(text)); took > prompt || strings.Contains(answer, "200 OK") != strings.HasSuffix(text, "\r\n\r\n") {
			t.Errorf("after %q: %q, closed after %v", text, answer, took)
		}
	}
}

// TestSlowReaders: an answer that is not taken in ends with its connection, and the time for it
// is bounded as a whole.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	s := serve(t, Config{WriteTimeout: 200 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		failed <- err
	})
	s.dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case err := <-failed:
		if err == nil {
			t.Error("64 MiB were written to nobody")
		}
	case <-time.After(prompt):
		t.Fatal("the answer is still being written")
	}
	a := &answer{s: s.Server, written: leastRate, blocked: time.Second}
	if got := a.writePatience(); got != 200*time.Millisecond {
		t.Errorf("a reader at the least rate gets %v for the next piece", got)
	}
	a.blocked = 1150 * time.Millisecond
	if got := a.writePatience(); got != 50*time.Millisecond {
		t.Errorf("a slower reader gets %v for the next piece", got)
	}
}

// TestHalfClosed: a client that closes its sending side after its request gets the answer, and the same
// connection in reverse ends the request's context.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	started, release, gone := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		started <- struct{}{}
		select {
		case <-release:
			_, _ = io.WriteString(w, "answer")
		case <-r.Context().Done():
			gone <- context.Cause(r.Context())
		}
	})
	for _, text := range []string{request("POST", 2) + "ab", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"} {
		for _, wait := range []time.Duration{interimAfter / 10, 3 * interimAfter} { // the server sees it long before the second
			c := s.dial(text)
			<-started
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(wait)
			release <- struct{}{}
			answer, _ := s.read(c)
			final := strings.TrimPrefix(answer, "HTTP/1.1 100 Continue\r\n\r\n")
			if !strings.Contains(final[:15], " 200 OK") || !strings.HasSuffix(final, "answer") {
				t.Errorf("%q got %q", text, answer)
			}
			if asked := final != answer; wait > interimAfter && asked == strings.Contains(text, "1.0") || asked && strings.Contains(text, "1.0") {
				t.Errorf("%q, after %v, got %q", text, wait, answer)
			}
		}
	}
	for name, leave := range map[string]func(c *net.TCPConn){
		"closed":           func(c *net.TCPConn) { c.Close() },
		"reset":            func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
		"half, then whole": func(c *net.TCPConn) { _ = c.CloseWrite(); time.Sleep(20 * time.Millisecond); c.Close() },
	} {
		c := s.dial(request("POST", 2) + "ab")
		<-started
		leave(c)
		select {
		case err := <-gone:
			if !errors.Is(err, ErrClientGone) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(prompt):
			t.Fatalf("%s: the request goes on", name)
		}
	}
}

// TestPipelined: requests sent at once are answered in turn.
func TestPipelined(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	c := s.dial(request("POST", 2) + "ab" + request("POST", 2) + "cd" + strings.Replace(request("POST", 2), "Host", "Connection: close\r\nHost", 1) + "ef")
	if text, _ := s.read(c); strings.Count(text, "200 OK") != 3 || !strings.HasSuffix(text, "ef") {
		t.Errorf("answers %q", text)
	}
}

// TestBounds: connections beyond a bound are told so; idle ones make room, busy ones do not.
func TestBounds(t *testing.T) {
	for _, bound := range []Bound{BoundAll, BoundAddress} {
		t.Run(string(bound), func(t *testing.T) {
			cfg := Config{MaxConnections: 3, TurnAway: func(b Bound, limit int) (int, string, []byte) {
				return http.StatusTooManyRequests, "text/plain", fmt.Append(nil, b, " ", limit)
			}}
			if bound == BoundAddress {
				cfg.MaxConnections, cfg.MaxPerAddress = 100, 3
			}
			s := serve(t, cfg, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
			for range 3 {
				s.dial(request("POST", 1))
			}
			s.eventually("three requests are in flight", func() bool { return s.InFlight() == 3 })
			text, _ := s.read(s.dial(request("POST", 1) + "a"))
			if !strings.HasPrefix(text, "HTTP/1.1 429 ") || !strings.HasSuffix(text, fmt.Sprint(bound, " 3")) ||
				!strings.Contains(text, "Retry-After: 1\r\n") || !strings.Contains(text, "Connection: close\r\n") {
				t.Errorf("the fourth connection got %q", text)
			}
			if n := s.Connections(); n.Open != 3 || n.RefusedAll+n.RefusedAddress != 1 || (n.RefusedAll == 1) != (bound == BoundAll) {
				t.Errorf("counts %+v", n)
			}
		})
	}
}

func TestIdleMakeRoom(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{MaxConnections: 3}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	var first net.Conn
	for i := range 10 {
		c := s.dial(request("POST", 1) + "a")
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		s.eventually("it is idle", func() bool {
			s.conns.mu.Lock()
			defer s.conns.mu.Unlock()
			return s.conns.idles.Len() == min(i+1, 3)
		})
		if first == nil {
			first = c
		}
	}
	if n := s.Connections(); n.Open != 3 || n.ClosedIdle != 7 || n.RefusedAll != 0 {
		t.Errorf("counts %+v", n)
	}
	if _, err := io.ReadAll(first); err != nil {
		t.Errorf("the longest idle connection: %v", err)
	}
}

func TestSources(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
	} {
		if got := sourceOf(&net.TCPAddr{IP: net.ParseIP(text)}); got.String() != want {
			t.Errorf("%s counts as %v, want %s", text, got, want)
		}
	}
	if got := sourceOf(&net.UnixAddr{}); got.IsValid() {
		t.Errorf("a Unix socket counts as %v", got)
	}
}

// TestHTTP2: without TLS, too, for clients that know it beforehand; both directions go at once, and the connection is counted.
func TestHTTP2(t *testing.T) {
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(w, r.Body) // the client reads what it got
	})
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	body, said := io.Pipe()
	r, err := http.NewRequest(http.MethodPost, "http://"+s.address, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r) // before the body has ended
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n := s.Connections().Open; n != 1 || answer.ProtoMajor != 2 {
		t.Errorf("%d connections are open, of HTTP/%d", n, answer.ProtoMajor)
	}
	go func() { fmt.Fprint(said, "one"); said.Close() }() // ended by the reading of it
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
}
